// The filters of a condition: property, comparison, values.
import type { ComponentChildren, FunctionComponent } from "preact";
import { useState } from "preact/hooks";
import { useFocusAdded } from "../../lib/focus";
import { t } from "../../lib/text";
import { Button, IconButton, Select } from "../../ui/controls";
import { Combobox, ValuesInput } from "../../ui/combobox";
import { Value } from "../../ui/show";
import { OPERATORS } from "./describe";
import { type DraftFilter, newUid } from "./draft";
import { useCohorts, usePropertyNames, usePropertyValues } from "./properties";

const LISTS = ["exact", "is_not"];
const WITHOUT_VALUE = ["is_set", "is_not_set"];
const COHORT = "cohort:";

/** What shows a filter that the editor itself does not know, and the button that adds one. */
export interface Others {
  isOther: (filter: DraftFilter) => boolean;
  Row: FunctionComponent<OtherRow>;
  label: string;
  create: () => DraftFilter;
}

interface FiltersProps {
  filters: DraftFilter[];
  onChange: (filters: DraftFilter[]) => void;
  empty?: string;
  others?: Others;
}

export function Filters({ filters, onChange, empty = t("Everyone"), others }: FiltersProps) {
  const replace = (changed: DraftFilter) => onChange(filters.map((each) => (each.uid === changed.uid ? changed : each)));
  const list = useFocusAdded<HTMLDivElement>(filters.length);
  return (
    <div class="stack" ref={list}>
      {filters.length === 0 && <p class="muted">{empty}</p>}
      {filters.map((filter, index) => (
        <div key={filter.uid} class="stack s">
          {index > 0 && <span class="and">{t("and")}</span>}
          <FilterRow
            others={others}
            filter={filter}
            number={index + 1}
            onChange={replace}
            onRemove={() => onChange(filters.filter((each) => each.uid !== filter.uid))}
          />
        </div>
      ))}
      <div class="row tight">
        <Button
          isSmall
          icon="plus"
          onClick={() => onChange([...filters, { uid: newUid(), key: "", type: "person", operator: "exact", value: [] }])}
        >
          {t("Add a filter")}
        </Button>
        {others && (
          <Button isSmall icon="plus" onClick={() => onChange([...filters.filter((each) => each.key || others.isOther(each)), others.create()])}>
            {others.label}
          </Button>
        )}
      </div>
    </div>
  );
}

interface RowProps {
  filter: DraftFilter;
  number: number;
  onChange: (filter: DraftFilter) => void;
  onRemove: () => void;
}

function FilterRow({ others, ...props }: RowProps & { others: Others | undefined }) {
  const { filter, number, onRemove } = props;
  const remove = <IconButton label={t("Remove filter {number}", { number })} icon="close" onClick={onRemove} />;
  if (others?.isOther(filter)) return <others.Row {...props} remove={remove} />;
  if (filter.type === "cohort" || filter.type === "static-cohort") return <CohortRow {...props} remove={remove} />;
  if (filter.type !== "person")
    return (
      <div class="row">
        <span class="grow mono small">
          <Value value={`${filter.type} ${filter.key} ${filter.operator ?? "exact"} ${JSON.stringify(filter.value)}`} />
        </span>
        {remove}
      </div>
    );
  return <PropertyRow {...props} remove={remove} />;
}

export type OtherRow = RowProps & { remove: ComponentChildren };

function CohortRow({ filter, number, onChange, remove }: OtherRow) {
  const cohorts = useCohorts();
  const value = String(filter.value ?? "");
  const choices = cohorts.map((each) => ({ value: String(each.id), label: each.name ?? String(each.id) }));
  if (!choices.some((each) => each.value === value)) choices.unshift({ value, label: t("Cohort {id}", { id: value }) });
  return (
    <div class="filter">
      <span class="label" style={{ alignSelf: "center" }}>
        {t("The person")}
      </span>
      <Select
        label={t("Comparison of filter {number}", { number })}
        value={filter.operator === "not_in" ? "not_in" : "in"}
        choices={[
          { value: "in", label: t("is in") },
          { value: "not_in", label: t("is not in") },
        ]}
        onChange={(operator) => onChange({ ...filter, operator })}
      />
      <Select label={t("Cohort of filter {number}", { number })} value={value} choices={choices} onChange={(id) => onChange({ ...filter, value: Number(id) })} />
      {remove}
    </div>
  );
}

function PropertyRow({ filter, number, onChange, remove }: OtherRow) {
  const names = usePropertyNames();
  const cohorts = useCohorts();
  const [search, setSearch] = useState("");
  const operator = filter.operator ?? "exact";
  const isList = LISTS.includes(operator);
  const text = filter.key.toLowerCase();
  const single = Array.isArray(filter.value) ? String(filter.value[0] ?? "") : String(filter.value ?? "");
  const { options, isLoading } = usePropertyValues(filter.key, isList ? search : single);
  const choices = [
    ...names,
    ...cohorts.map((each) => ({ value: `${COHORT}${each.id}`, label: t("Cohort: {name}", { name: each.name ?? "" }) })),
  ].filter((each) => (each.label ?? each.value).toLowerCase().includes(text));
  // A name that is whole can still be replaced by another.
  const others = names.filter((each) => !choices.some((choice) => choice.value === each.value));
  const exactName = names.some((each) => each.value === filter.key);
  const choose = (value: string) =>
    value.startsWith(COHORT)
      ? onChange({ uid: filter.uid, type: "cohort", key: "id", operator: "in", value: Number(value.slice(COHORT.length)) })
      : onChange({ ...filter, key: value });
  const changeOperator = (next: string) => {
    const list = Array.isArray(filter.value) ? filter.value : filter.value === undefined || filter.value === null ? [] : [filter.value];
    const value = WITHOUT_VALUE.includes(next) ? null : LISTS.includes(next) ? list : (list[0] ?? "");
    onChange({ ...filter, operator: next, value });
  };
  return (
    <div class="filter">
      <Combobox
        label={t("Property of filter {number}", { number })}
        placeholder={t("Property or cohort")}
        value={filter.key}
        options={exactName ? [...choices, ...others] : choices}
        onInput={(key) => onChange({ ...filter, key })}
        onChoose={choose}
      />
      <Select
        label={t("Comparison of filter {number}", { number })}
        value={operator}
        choices={(OPERATORS.some(([each]) => each === operator) ? OPERATORS : [...OPERATORS, [operator, operator] as [string, string]]).map(([value, label]) => ({ value, label }))}
        onChange={changeOperator}
      />
      {WITHOUT_VALUE.includes(operator) ? (
        <span />
      ) : isList ? (
        <ValuesInput
          label={t("Values of filter {number}", { number })}
          values={(Array.isArray(filter.value) ? filter.value : filter.value === undefined || filter.value === null ? [] : [filter.value]).map(String)}
          options={options}
          isLoading={isLoading}
          onSearch={setSearch}
          onChange={(value) => onChange({ ...filter, value })}
        />
      ) : (
        <Combobox
          label={t("Value of filter {number}", { number })}
          placeholder={t("Value")}
          value={single}
          options={options}
          onInput={(value) => onChange({ ...filter, value })}
          onChoose={(value) => onChange({ ...filter, value })}
        />
      )}
      {remove}
    </div>
  );
}
