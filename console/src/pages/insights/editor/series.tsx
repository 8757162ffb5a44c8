// The series of trends and the steps of a funnel: which events, which math, which filters.
import { useState } from "preact/hooks";
import { useFocusAdded } from "../../../lib/focus";
import { t } from "../../../lib/text";
import { Combobox } from "../../../ui/combobox";
import { Button, IconButton, Select } from "../../../ui/controls";
import { colorOf } from "../../../charts/colors";
import { ACTION, ALL_EVENTS, useEventChoices, usePropertyChoices } from "./choices";
import { Filters } from "./filters";
import { MATHS, type Series } from "../query";

const MAX_SERIES = 26;

interface Props {
  series: Series[];
  /** Steps have an order and no math. */
  areSteps: boolean;
  errors: Record<number, string>;
  onChange: (series: Series[]) => void;
}

export function SeriesList({ series, areSteps, errors, onChange }: Props) {
  const change = (index: number, changed: Series) => onChange(series.map((each, place) => (place === index ? changed : each)));
  const swap = (index: number, to: number) => {
    const moved = [...series];
    [moved[index], moved[to]] = [moved[to]!, moved[index]!];
    onChange(moved);
  };
  const list = useFocusAdded<HTMLDivElement>(series.length);
  return (
    <div class="stack" ref={list}>
      {series.map((each, index) => {
        const label = areSteps ? t("Step {number}", { number: index + 1 }) : t("Series {letter}", { letter: String.fromCharCode(65 + index) });
        return (
          <div key={index} class="series" role="group" aria-label={label}>
            <div class="row tight">
              <span class="badge" style={areSteps ? {} : { borderColor: colorOf(index) }} aria-hidden="true">
                {areSteps ? index + 1 : String.fromCharCode(65 + index)}
              </span>
              <EventInput label={t("{label}, event", { label })} series={each} onChange={(changed) => change(index, changed)} />
              {areSteps && (
                <>
                  <IconButton isSmall icon="up" label={t("Move {label} up", { label })} disabled={index === 0} onClick={() => swap(index, index - 1)} />
                  <IconButton isSmall icon="down" label={t("Move {label} down", { label })} disabled={index === series.length - 1} onClick={() => swap(index, index + 1)} />
                </>
              )}
              <IconButton isSmall icon="trash" label={t("Remove {label}", { label })} disabled={series.length === 1} onClick={() => onChange(series.filter((_, place) => place !== index))} />
            </div>
            {!areSteps && <MathInput label={label} series={each} onChange={(changed) => change(index, changed)} />}
            <Filters label={t("{label}, filter", { label })} filters={each.properties ?? []} event={each.event ?? null} onChange={(properties) => change(index, { ...each, properties })} />
            {errors[index] && (
              <p class="error-text" role="alert">
                {errors[index]}
              </p>
            )}
          </div>
        );
      })}
      <div>
        <Button isSmall icon="plus" disabled={series.length >= MAX_SERIES} onClick={() => onChange([...series, { kind: "EventsNode", event: null, ...(areSteps ? {} : { math: "total" }) }])}>
          {areSteps ? t("Add a step") : t("Add a series")}
        </Button>
      </div>
    </div>
  );
}

/** An event or an action by name. */
export function EventInput({ label, series, onChange }: { label: string; series: Series; onChange: (series: Series) => void }) {
  const [text, setText] = useState<string | null>(null);
  const options = useEventChoices(text ?? "");
  const shown = series.kind === "ActionsNode" ? (series.name ?? t("Action {id}", { id: String(series.id) })) : (series.event ?? t("All events"));
  const choose = (value: string) => {
    setText(null);
    const { event: _event, id: _id, name: _name, kind: _kind, ...rest } = series;
    if (value.startsWith(ACTION)) onChange({ ...rest, kind: "ActionsNode", id: Number(value.slice(ACTION.length)), name: options.find((each) => each.value === value)?.label ?? "" });
    else onChange({ ...rest, kind: "EventsNode", event: value === ALL_EVENTS || value === t("All events") ? null : value });
  };
  return (
    <div class="grow">
      <Combobox
        label={label}
        value={text ?? shown}
        options={options}
        onInput={setText}
        onChoose={choose}
        onLeave={() => {
          if (text?.trim() && text !== shown) choose(text.trim());
          setText(null);
        }}
      />
    </div>
  );
}

function MathInput({ label, series, onChange }: { label: string; series: Series; onChange: (series: Series) => void }) {
  const math = series.math ?? "total";
  const known = MATHS.find((each) => each.value === math);
  const [text, setText] = useState<string | null>(null);
  const numbers = usePropertyChoices(text ?? "", ["event", "person"], true);
  const property = (value: string) => {
    setText(null);
    const [, type, name] = /^(event|person):(.*)$/s.exec(value) ?? [null, "event", value];
    onChange({ ...series, math_property: name!, math_property_type: `${type}_properties` });
  };
  const choose = (next: string) => {
    const { math_property, math_property_type: _type, math_hogql: _hogql, ...rest } = series;
    const needs = MATHS.find((each) => each.value === next)?.needs;
    onChange({ ...rest, math: next, ...(needs === "property" && math_property ? { math_property } : {}) });
  };
  return (
    <div class="row tight">
      <Select label={t("{label}, math", { label })} isNarrow value={math} choices={known ? MATHS : [...MATHS, { value: math, label: math }]} onChange={choose} />
      {known?.needs === "property" && (
        <div class="grow">
          <Combobox
            label={t("{label}, property of the math", { label })}
            placeholder={t("Property with numbers")}
            value={text ?? series.math_property ?? ""}
            options={numbers}
            onInput={setText}
            onChoose={property}
            onLeave={() => {
              if (text?.trim()) property(text.trim());
              setText(null);
            }}
          />
        </div>
      )}
      {known?.needs === "hogql" && (
        <input class="input mono" aria-label={t("{label}, expression", { label })} placeholder="sum(properties.price)" value={series.math_hogql ?? ""} onInput={(event) => onChange({ ...series, math_hogql: event.currentTarget.value })} />
      )}
    </div>
  );
}
