// What belongs to the whole insight: dates, interval, comparison, breakdown, and the options of each kind.
import { useState } from "preact/hooks";
import { t } from "../../../lib/text";
import { Combobox } from "../../../ui/combobox";
import { Field, IconButton, Select } from "../../../ui/controls";
import { useCohorts, usePropertyChoices } from "./choices";
import { DEFAULT_RANGE, DISPLAYS, INTERVALS, RANGES, type Source, toSeries } from "../query";
import { EventInput } from "./series";

interface Props {
  source: Source;
  onChange: (part: Partial<Source>) => void;
}
const CUSTOM = "custom";
const COHORT = "cohort:";

/** The period: a relative one, or two dates. */
export function DateRange({ value, onChange, label = t("Period") }: { value: Source["dateRange"]; onChange: (range: { date_from: string; date_to?: string }) => void; label?: string }) {
  const from = value?.date_from ?? DEFAULT_RANGE;
  const isKnown = RANGES.some((each) => each.value === from) && !value?.date_to;
  const [isCustom, setCustom] = useState(!isKnown);
  const isDate = /^\d{4}-\d\d-\d\d/.test(from);
  const choices = [...RANGES, ...(isKnown || isDate || isCustom ? [] : [{ value: from, label: from }]), { value: CUSTOM, label: t("Between two dates") }];
  const choose = (next: string) => {
    setCustom(next === CUSTOM);
    if (next === CUSTOM) onChange({ date_from: new Date(Date.now() - 30 * 86_400_000).toISOString().slice(0, 10), date_to: new Date().toISOString().slice(0, 10) });
    else onChange({ date_from: next });
  };
  return (
    <div class="row">
      <Select label={label} isNarrow value={isCustom || isDate ? CUSTOM : from} choices={choices} onChange={choose} />
      {(isCustom || isDate) && (
        <>
          <input class="input narrow" type="date" aria-label={t("From")} value={isDate ? from.slice(0, 10) : ""} onInput={(event) => event.currentTarget.value && onChange({ date_from: event.currentTarget.value, ...(value?.date_to ? { date_to: value.date_to } : {}) })} />
          <span class="muted">{t("to")}</span>
          <input class="input narrow" type="date" aria-label={t("To")} value={value?.date_to?.slice(0, 10) ?? ""} onInput={(event) => onChange({ date_from: from, ...(event.currentTarget.value ? { date_to: event.currentTarget.value } : {}) })} />
        </>
      )}
    </div>
  );
}

/** The controls above the chart. */
export function ViewOptions({ source, onChange }: Props) {
  const isTrend = source.kind === "TrendsQuery";
  const hasInterval = isTrend || source.funnelsFilter?.funnelVizType === "trends";
  return (
    <div class="row">
      <DateRange value={source.dateRange} onChange={(dateRange) => onChange({ dateRange })} />
      {hasInterval && (
        <Select label={t("Interval")} isNarrow value={source.interval ?? "day"} choices={INTERVALS.map((value) => ({ value, label: t("by {interval}", { interval: value }) }))} onChange={(interval) => onChange({ interval })} />
      )}
      {isTrend && (
        <>
          <Select label={t("Chart")} isNarrow value={source.trendsFilter?.display ?? "ActionsLineGraph"} choices={DISPLAYS} onChange={(display) => onChange({ trendsFilter: { ...source.trendsFilter, display } })} />
          <label class="check">
            <input type="checkbox" checked={!!source.compareFilter?.compare} onChange={(event) => onChange({ compareFilter: { compare: event.currentTarget.checked } })} />
            {t("Compare with the period before")}
          </label>
        </>
      )}
    </div>
  );
}

export function BreakdownInput({ source, onChange }: Props) {
  const [text, setText] = useState<string | null>(null);
  const events = (source.series ?? []).map((each) => each.event);
  const names = usePropertyChoices(text ?? "", undefined, undefined, events.every((each) => typeof each === "string") ? (events as string[]) : []);
  const cohorts = useCohorts();
  const filter = source.breakdownFilter;
  const several = filter?.breakdowns?.map((each) => each.property).join(", ");
  const cohort = filter?.breakdown_type === "cohort" ? cohorts.find((each) => String(each.id) === String(Array.isArray(filter.breakdown) ? filter.breakdown[0] : filter.breakdown)) : null;
  const shown = several ?? (filter?.breakdown_type === "cohort" ? (cohort?.name ?? t("Cohort {id}", { id: String(filter.breakdown) })) : String(filter?.breakdown ?? ""));
  const choose = (value: string) => {
    setText(null);
    if (!value) return onChange({ breakdownFilter: null });
    if (value.startsWith(COHORT)) return onChange({ breakdownFilter: { breakdown: [Number(value.slice(COHORT.length)), "all"], breakdown_type: "cohort" } });
    const [, type, name] = /^(event|person):(.*)$/s.exec(value) ?? [null, "event", value];
    return onChange({ breakdownFilter: { breakdown: name!, breakdown_type: type!, ...(filter?.breakdown_limit ? { breakdown_limit: filter.breakdown_limit } : {}) } });
  };
  const options = [...names, ...(source.kind === "RetentionQuery" ? [] : cohorts.filter((each) => (each.name ?? "").toLowerCase().includes((text ?? "").toLowerCase())).slice(0, 10).map((each) => ({ value: `${COHORT}${each.id}`, label: each.name ?? "", note: t("cohort") })))];
  return (
    <div class="row tight">
      <div class="grow">
        <Combobox
          label={t("Breakdown")}
          placeholder={t("Property or cohort")}
          value={text ?? shown}
          options={options}
          onInput={setText}
          onChoose={choose}
          onLeave={() => {
            if (text !== null && text !== shown) choose(text.trim());
            setText(null);
          }}
        />
      </div>
      {shown && filter?.breakdown_type !== "cohort" && (
        <Select label={t("Values of the breakdown")} isNarrow value={String(filter?.breakdown_limit ?? 25)} choices={[...new Set(["5", "10", "25", "50", String(filter?.breakdown_limit ?? 25)])].map((value) => ({ value, label: t("top {n}", { n: value }) }))} onChange={(value) => onChange({ breakdownFilter: { ...filter, breakdown_limit: Number(value) } })} />
      )}
      {shown && <IconButton isSmall icon="close" label={t("Remove the breakdown")} onClick={() => onChange({ breakdownFilter: null })} />}
    </div>
  );
}

export function FunnelOptions({ source, onChange }: Props) {
  const filter = source.funnelsFilter ?? {};
  const change = (part: object) => onChange({ funnelsFilter: { ...filter, ...part } });
  const units = ["minute", "hour", "day", "week", "month"];
  return (
    <>
      <Field label={t("Show")}>
        {(attributes) => (
          <Select id={attributes.id} label={t("Show")} value={filter.funnelVizType ?? "steps"} onChange={(funnelVizType) => change({ funnelVizType })} choices={[{ value: "steps", label: t("Steps") }, { value: "trends", label: t("Conversion over time") }, { value: "time_to_convert", label: t("Time to convert") }]} />
        )}
      </Field>
      <Field label={t("Order of the steps")}>
        {(attributes) => (
          <Select id={attributes.id} label={t("Order of the steps")} value={filter.funnelOrderType ?? "ordered"} onChange={(funnelOrderType) => change({ funnelOrderType })} choices={[{ value: "ordered", label: t("In this order, others may be between") }, { value: "strict", label: t("Directly one after the other") }, { value: "unordered", label: t("In any order") }]} />
        )}
      </Field>
      <Field label={t("Time for all steps")}>
        {(attributes) => (
          <div class="row tight">
            <input {...attributes} class="input" type="number" min={1} value={filter.funnelWindowInterval ?? 14} onInput={(event) => Number(event.currentTarget.value) >= 1 && change({ funnelWindowInterval: Math.floor(Number(event.currentTarget.value)) })} />
            <Select label={t("Unit of the time for all steps")} value={filter.funnelWindowIntervalUnit ?? "day"} choices={units.map((value) => ({ value, label: t("{unit}s", { unit: value }) }))} onChange={(funnelWindowIntervalUnit) => change({ funnelWindowIntervalUnit })} />
          </div>
        )}
      </Field>
    </>
  );
}

export function RetentionOptions({ source, onChange }: Props) {
  const filter = source.retentionFilter ?? {};
  const change = (part: object) => onChange({ retentionFilter: { ...filter, ...part } });
  const entity = (name: "targetEntity" | "returningEntity", label: string) => (
    <div class="field">
      <span class="label">{label}</span>
      <EventInput label={label} series={toSeries(filter[name] ?? { id: "$pageview" })} onChange={(series) => change({ [name]: series.kind === "ActionsNode" ? { id: series.id, type: "actions", name: series.name } : { id: series.event ?? null, type: "events", name: series.event ?? t("All events") } })} />
    </div>
  );
  return (
    <>
      {entity("targetEntity", t("Persons who did"))}
      <Select label={t("Which time counts")} value={filter.retentionType ?? "retention_recurring"} choices={[{ value: "retention_first_time", label: t("for the first time") }, { value: "retention_recurring", label: t("at any time") }]} onChange={(retentionType) => change({ retentionType })} />
      {entity("returningEntity", t("and came back to do"))}
      <div class="row tight">
        <Field label={t("Within the last")}>
          {(attributes) => <input {...attributes} class="input" type="number" min={1} max={100} value={filter.totalIntervals ?? 8} onInput={(event) => Number(event.currentTarget.value) >= 1 && change({ totalIntervals: Math.min(100, Math.floor(Number(event.currentTarget.value))) })} />}
        </Field>
        <Field label={t("Unit")}>
          {(attributes) => <Select id={attributes.id} label={t("Unit")} value={filter.period ?? "Day"} choices={["Hour", "Day", "Week", "Month"].map((value) => ({ value, label: t("{unit}s", { unit: value.toLowerCase() }) }))} onChange={(period) => change({ period })} />}
        </Field>
      </div>
    </>
  );
}

export function PathsOptions({ source, onChange }: Props) {
  const filter = source.pathsFilter ?? {};
  const change = (part: object) => onChange({ pathsFilter: { ...filter, ...part } });
  const types = filter.includeEventTypes ?? [];
  const choices = [
    ["$pageview", t("Pages")],
    ["$screen", t("Screens")],
    ["custom_event", t("Own events")],
  ] as const;
  const point = (name: "startPoint" | "endPoint", label: string) => (
    <Field label={label}>{(attributes) => <input {...attributes} class="input" placeholder={t("Any")} value={filter[name] ?? ""} onInput={(event) => change({ [name]: event.currentTarget.value || undefined })} />}</Field>
  );
  return (
    <>
      <fieldset class="plain">
        <legend class="label">{t("What a path consists of")}</legend>
        <div class="row">
          {choices.map(([value, label]) => (
            <label class="check" key={value}>
              <input type="checkbox" checked={types.includes(value)} onChange={(event) => change({ includeEventTypes: event.currentTarget.checked ? [...types, value] : types.filter((each) => each !== value) })} />
              {label}
            </label>
          ))}
        </div>
      </fieldset>
      {point("startPoint", t("Starts at"))}
      {point("endPoint", t("Ends at"))}
      <Field label={t("Steps")}>
        {(attributes) => <input {...attributes} class="input" type="number" min={2} max={20} value={filter.stepLimit ?? 5} onInput={(event) => Number(event.currentTarget.value) >= 1 && change({ stepLimit: Math.min(20, Math.floor(Number(event.currentTarget.value))) })} />}
      </Field>
    </>
  );
}
