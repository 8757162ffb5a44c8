// Filters of an insight or of one series: properties of events and persons, and cohorts.
import { useState } from "preact/hooks";
import type { PropertyFilter } from "../../../api/types";
import { useFocusAdded } from "../../../lib/focus";
import { t } from "../../../lib/text";
import { Combobox, ValuesInput } from "../../../ui/combobox";
import { Button, IconButton, Select } from "../../../ui/controls";
import { Value } from "../../../ui/show";
import { OPERATORS } from "../../flag/describe";
import { useCohorts, usePropertyChoices, useValueChoices } from "./choices";

const LISTS = ["exact", "is_not"];
const WITHOUT_VALUE = ["is_set", "is_not_set"];
const COHORT = "cohort:";

interface Props {
  label: string;
  filters: PropertyFilter[];
  /** Values are completed from events with this name. */
  event?: string | null;
  onChange: (filters: PropertyFilter[]) => void;
}

export function Filters({ label, filters, event, onChange }: Props) {
  const list = useFocusAdded<HTMLDivElement>(filters.length);
  return (
    <div class="stack s" role="group" aria-label={label} ref={list}>
      {filters.map((filter, index) => (
        <FilterRow
          key={index}
          label={`${label} ${index + 1}`}
          filter={filter}
          event={event ?? null}
          onChange={(changed) => onChange(filters.map((each, place) => (place === index ? changed : each)))}
          onRemove={() => onChange(filters.filter((_, place) => place !== index))}
        />
      ))}
      <div>
        <Button isSmall icon="plus" onClick={() => onChange([...filters, { key: "", type: "event", operator: "exact", value: [] }])}>
          {t("Add a filter")}
        </Button>
      </div>
    </div>
  );
}

const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : value === undefined || value === null || value === "" ? [] : [value]);

function FilterRow({ label, filter, event, onChange, onRemove }: { label: string; filter: PropertyFilter; event: string | null; onChange: (filter: PropertyFilter) => void; onRemove: () => void }) {
  const [search, setSearch] = useState("");
  const [text, setText] = useState<string | null>(null);
  const cohorts = useCohorts();
  const names = usePropertyChoices(text ?? "");
  const operator = filter.operator ?? "exact";
  const isList = LISTS.includes(operator);
  const single = String(asList(filter.value)[0] ?? "");
  const values = useValueChoices(filter.type, filter.type === "cohort" ? "" : filter.key, isList ? search : single, event);
  const remove = <IconButton isSmall label={t("Remove {label}", { label })} icon="close" onClick={onRemove} />;
  const choose = (chosen: string) => {
    setText(null);
    if (chosen.startsWith(COHORT)) onChange({ key: "id", type: "cohort", operator: "in", value: Number(chosen.slice(COHORT.length)) });
    else {
      const [, type, key] = /^(event|person):(.*)$/s.exec(chosen) ?? [null, filter.type, chosen];
      onChange({ ...filter, key: key!, type: type!, value: isList ? [] : "" });
    }
  };
  if (filter.type === "cohort") {
    const value = String(filter.value);
    const choices = cohorts.map((each) => ({ value: String(each.id), label: each.name ?? String(each.id) }));
    return (
      <div class="insight-filter">
        <Select label={t("{label}, comparison", { label })} value={operator === "not_in" ? "not_in" : "in"} choices={[{ value: "in", label: t("in the cohort") }, { value: "not_in", label: t("not in the cohort") }]} onChange={(next) => onChange({ ...filter, operator: next })} />
        <Select label={t("{label}, cohort", { label })} value={value} choices={choices.some((each) => each.value === value) ? choices : [{ value, label: t("Cohort {id}", { id: value }) }, ...choices]} onChange={(id) => onChange({ ...filter, value: Number(id) })} />
        {remove}
      </div>
    );
  }
  if (filter.type !== "event" && filter.type !== "person")
    return (
      <div class="row">
        <span class="grow mono small">
          <Value value={`${filter.type} ${filter.key} ${JSON.stringify(filter.value)}`} />
        </span>
        {remove}
      </div>
    );
  const found = cohorts.filter((each) => (each.name ?? "").toLowerCase().includes((text ?? "").toLowerCase())).slice(0, 10);
  return (
    <div class="insight-filter">
      <Combobox
        label={t("{label}, property", { label })}
        placeholder={t("Property or cohort")}
        value={text ?? filter.key}
        options={[...names, ...found.map((each) => ({ value: `${COHORT}${each.id}`, label: each.name ?? String(each.id), note: t("cohort") }))]}
        onInput={setText}
        onChoose={choose}
        onLeave={() => {
          if (text !== null && text !== filter.key) choose(text);
          setText(null);
        }}
      />
      <Select
        label={t("{label}, comparison", { label })}
        value={operator}
        choices={(OPERATORS.some(([each]) => each === operator) ? OPERATORS : [...OPERATORS, [operator, operator] as [string, string]]).map(([value, label]) => ({ value, label }))}
        onChange={(next) => {
          const list = asList(filter.value);
          onChange({ ...filter, operator: next, value: WITHOUT_VALUE.includes(next) ? next : LISTS.includes(next) ? list : (list[0] ?? "") });
        }}
      />
      {remove}
      {!WITHOUT_VALUE.includes(operator) && (
        <div class="whole">
          {isList ? (
            <ValuesInput label={t("{label}, values", { label })} values={asList(filter.value).map(String)} options={values.options} isLoading={values.isLoading} onSearch={setSearch} onChange={(value) => onChange({ ...filter, value })} />
          ) : (
            <Combobox label={t("{label}, value", { label })} placeholder={t("Value")} value={single} options={values.options} onInput={(value) => onChange({ ...filter, value })} onChoose={(value) => onChange({ ...filter, value })} />
          )}
        </div>
      )}
    </div>
  );
}
