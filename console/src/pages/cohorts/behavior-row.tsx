// The row of a filter by what people did.
import { useState } from "preact/hooks";
import { t } from "../../lib/text";
import { Combobox } from "../../ui/combobox";
import { Select } from "../../ui/controls";
import type { DraftFilter } from "../flag/draft";
import type { OtherRow } from "../flag/filters";
import { ACTION, useEventChoices } from "../insights/editor/choices";
import { INTERVALS, isCount, isSequence, isStopped, KINDS, readKind, setKind } from "./behavior";

export function BehaviorRow({ filter, number, onChange, remove }: OtherRow) {
  const kind = readKind(filter);
  const set = (part: Partial<DraftFilter>) => onChange({ ...filter, ...part });
  return (
    <div class="behavior" role="group" aria-label={t("Filter {number}: what people did", { number })}>
      <div class="row first">
        <Select
          label={t("Filter {number}, did or did not", { number })}
          isNarrow
          value={filter.negation ? "not" : "did"}
          choices={[
            { value: "did", label: t("did") },
            { value: "not", label: t("did not do") },
          ]}
          onChange={(value) => {
            const { negation: _, ...rest } = filter;
            onChange(value === "not" ? { ...rest, negation: true } : (rest as DraftFilter));
          }}
        />
        <EventOrAction label={t("Filter {number}, event or action", { number })} type={filter.event_type} value={filter.key} onChange={(event_type, key) => set({ event_type, key })} />
        {Array.isArray(filter.event_filters) && filter.event_filters.length > 0 && <span class="tag">{t("with filters, which are kept")}</span>}
        {remove}
      </div>
      <div class="row">
        <Select label={t("Filter {number}, how often", { number })} isNarrow value={kind} choices={KINDS} onChange={(next) => onChange(setKind(filter, next))} />
        {isCount(kind) && (
          <>
            <NumberInput label={t("Filter {number}, times", { number })} value={filter.operator_value} onChange={(operator_value) => set({ operator_value })} />
            <span>{t("times")}</span>
          </>
        )}
        {isSequence(kind) && <EventOrAction label={t("Filter {number}, second event or action", { number })} type={filter.seq_event_type} value={String(filter.seq_event ?? "")} onChange={(seq_event_type, seq_event) => set({ seq_event_type, seq_event })} />}
        {(isSequence(kind) || isStopped(kind)) && (
          <>
            <span>{isStopped(kind) ? t("for") : t("within")}</span>
            <TimeInput label={isStopped(kind) ? t("Filter {number}, time without it", { number }) : t("Filter {number}, time between", { number })} count={filter.seq_time_value} unit={filter.seq_time_interval} onChange={(seq_time_value, seq_time_interval) => set({ seq_time_value, seq_time_interval })} />
          </>
        )}
        <span>{isSequence(kind) || isStopped(kind) ? t("and all in the last") : t("in the last")}</span>
        <TimeInput label={t("Filter {number}, time", { number })} count={filter.time_value} unit={filter.time_interval} onChange={(time_value, time_interval) => set({ time_value, time_interval })} />
      </div>
    </div>
  );
}

function NumberInput({ label, value, onChange }: { label: string; value: unknown; onChange: (value: number) => void }) {
  return <input class="input length" type="number" min={1} step={1} aria-label={label} value={String(value ?? "")} onInput={(event) => onChange(Number(event.currentTarget.value))} />;
}

function TimeInput({ label, count, unit, onChange }: { label: string; count: unknown; unit: unknown; onChange: (count: number, unit: string) => void }) {
  return (
    <span class="row tight">
      <NumberInput label={label} value={count} onChange={(next) => onChange(next, String(unit))} />
      <Select label={t("{label}, unit", { label })} isNarrow value={String(unit)} choices={INTERVALS} onChange={(next) => onChange(Number(count), next)} />
    </span>
  );
}

function EventOrAction({ label, type, value, onChange }: { label: string; type: unknown; value: string; onChange: (type: string, value: string) => void }) {
  const [text, setText] = useState<string | null>(null);
  const options = useEventChoices(text ?? "", false);
  const isAction = type === "actions";
  const shown = isAction ? (options.find((each) => each.value === `${ACTION}${value}`)?.label ?? t("Action {id}", { id: value })) : value;
  const choose = (chosen: string) => {
    setText(null);
    if (chosen.startsWith(ACTION)) onChange("actions", chosen.slice(ACTION.length));
    else if (chosen !== shown || !isAction) onChange("events", chosen);
  };
  return (
    <div class="grow">
      <Combobox
        label={label}
        placeholder={t("Event or action")}
        value={text ?? shown}
        options={options}
        onInput={setText}
        onChoose={choose}
        onLeave={() => {
          if (text?.trim()) choose(text.trim());
          setText(null);
        }}
      />
    </div>
  );
}
