// Filters on properties of events and persons: property, comparison, values.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Page as PageOf, PropertyFilter } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { useFocusAdded } from "../../lib/focus";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Combobox, ValuesInput } from "../../ui/combobox";
import { Button, IconButton, Select } from "../../ui/controls";
import { OPERATORS } from "../flag/describe";
import type { Setting } from "./model";

const LISTS = ["exact", "is_not"];
const WITHOUT_VALUE = ["is_set", "is_not_set"];

function useNames(type: string, search: string) {
  const { api } = useProject();
  const settled = useSettled(search, 200);
  const names = useQuery({
    queryKey: ["property definitions", api, type, settled],
    queryFn: ({ signal }) => get<PageOf<{ name: string }>>(`${api}/property_definitions/`, { type, search: settled, limit: 20 }, signal),
    staleTime: 60_000,
  });
  return (names.data?.results ?? []).map((each) => ({ value: each.name }));
}

function useValues(filter: PropertyFilter, search: string) {
  const { api } = useProject();
  const settled = useSettled(search, 200);
  const path = filter.type === "person" ? "persons/values/" : "events/values/";
  const values = useQuery({
    queryKey: ["property values", api, path, filter.key, settled],
    queryFn: ({ signal }) => get<{ name: unknown }[]>(`${api}/${path}`, { key: filter.key, value: settled }, signal),
    enabled: !!filter.key,
    staleTime: 60_000,
  });
  return (values.data ?? []).map((each) => ({ value: String(each.name) }));
}

interface Props {
  setting: Setting;
  value: unknown;
  error: string | undefined;
  isDisabled: boolean;
  hasPersons: boolean;
  onChange: (value: unknown) => void;
}

export function EventFilters({ setting, value, error, isDisabled, hasPersons, onChange }: Props) {
  const filters = (value ?? []) as PropertyFilter[];
  const list = useFocusAdded<HTMLFieldSetElement>(filters.length);
  return (
    <fieldset class="field group" ref={list}>
      <legend class="label">{setting.name}</legend>
      {filters.map((filter, index) => (
        <Row
          key={index}
          filter={filter}
          number={index + 1}
          hasPersons={hasPersons}
          onChange={(changed) => onChange(filters.map((each, at) => (at === index ? changed : each)))}
          onRemove={() => onChange(filters.filter((_, at) => at !== index))}
        />
      ))}
      <div>
        <Button isSmall icon="plus" disabled={isDisabled} onClick={() => onChange([...filters, { key: "", type: "event", operator: "exact", value: [] }])}>
          {t("Add a filter")}
        </Button>
      </div>
      <Note error={error} hint={filters.length ? t("An event must match all of them.") : t("No filters: every event passes.")} />
    </fieldset>
  );
}

function Row(props: { filter: PropertyFilter; number: number; hasPersons: boolean; onChange: (filter: PropertyFilter) => void; onRemove: () => void }) {
  const { filter, number, onChange } = props;
  const [search, setSearch] = useState("");
  const type = filter.type ?? "event";
  const operator = filter.operator ?? "exact";
  const isList = LISTS.includes(operator);
  const list = Array.isArray(filter.value) ? filter.value.map(String) : filter.value === undefined || filter.value === null ? [] : [String(filter.value)];
  const names = useNames(type, filter.key);
  const values = useValues({ ...filter, type }, isList ? search : (list[0] ?? ""));
  const changeOperator = (next: string) => onChange({ ...filter, operator: next, value: WITHOUT_VALUE.includes(next) ? null : LISTS.includes(next) ? list : (list[0] ?? "") });
  return (
    <div class="event-filter">
      {props.hasPersons && (
        <Select
          label={t("Whose property filter {number} is about", { number })}
          value={type}
          choices={[
            { value: "event", label: t("Event") },
            { value: "person", label: t("Person") },
          ]}
          onChange={(next) => onChange({ ...filter, type: next })}
        />
      )}
      <Combobox label={t("Property of filter {number}", { number })} placeholder={t("Property")} value={filter.key} options={names} onInput={(key) => onChange({ ...filter, key })} onChoose={(key) => onChange({ ...filter, key })} />
      <Select
        label={t("Comparison of filter {number}", { number })}
        value={operator}
        choices={(OPERATORS.some(([each]) => each === operator) ? OPERATORS : [...OPERATORS, [operator, operator] as [string, string]]).map(([each, label]) => ({ value: each, label }))}
        onChange={changeOperator}
      />
      {WITHOUT_VALUE.includes(operator) ? (
        <span />
      ) : isList ? (
        <ValuesInput label={t("Values of filter {number}", { number })} values={list} options={values} onSearch={setSearch} onChange={(next) => onChange({ ...filter, value: next })} />
      ) : (
        <Combobox label={t("Value of filter {number}", { number })} placeholder={t("Value")} value={list[0] ?? ""} options={values} onInput={(next) => onChange({ ...filter, value: next })} onChoose={(next) => onChange({ ...filter, value: next })} />
      )}
      <IconButton isSmall icon="close" label={t("Remove filter {number}", { number })} onClick={props.onRemove} />
    </div>
  );
}

/** What is wrong with a setting, else what it means. */
export function Note({ error, hint, id }: { error: string | undefined; hint: string; id?: string }) {
  if (!error && !hint) return null;
  return (
    <span id={id} class={error ? "error-text" : "hint"} role={error ? "alert" : undefined}>
      {error || hint}
    </span>
  );
}
