// A filter by what people did: as the form edits it, and as PostHog writes it. Pure.
import type { PropertyFilter } from "../../api/types";
import { t } from "../../lib/text";
import { type DraftFilter, newUid } from "../flag/draft";

export const BEHAVIORAL = "behavioral";

export const KINDS: { value: string; label: string }[] = [
  { value: "performed_event", label: t("at least once") },
  { value: "gte", label: t("at least") },
  { value: "lte", label: t("at most") },
  { value: "exact", label: t("exactly") },
  { value: "performed_event_first_time", label: t("for the first time") },
  { value: "performed_event_sequence", label: t("and then something else") },
  { value: "stopped_performing_event", label: t("and then stopped") },
];
const MULTIPLE = "performed_event_multiple";
const COUNTS = ["gte", "lte", "exact"];
export const INTERVALS: { value: string; label: string }[] = [
  { value: "minute", label: t("minutes") },
  { value: "hour", label: t("hours") },
  { value: "day", label: t("days") },
  { value: "week", label: t("weeks") },
  { value: "month", label: t("months") },
  { value: "year", label: t("years") },
];
// What the form can show. `event_filters` are kept.
const KNOWN = ["type", "key", "value", "event_type", "operator", "operator_value", "time_value", "time_interval", "negation", "seq_event", "seq_event_type", "seq_time_value", "seq_time_interval", "event_filters"];

export function newBehavior(): DraftFilter {
  return { uid: newUid(), type: BEHAVIORAL, key: "", value: "performed_event", event_type: "events", time_value: 30, time_interval: "day" };
}

/** Whether the form can show a filter as it is stored. */
export function isShowable(filter: Record<string, unknown>): boolean {
  const isEmpty = (value: unknown) => value === null || value === undefined || (Array.isArray(value) && !value.length);
  const isKnown = Object.entries(filter).every(([name, value]) => KNOWN.includes(name) || name === "uid" || isEmpty(value));
  const kind = readKind(filter);
  return isKnown && KINDS.some((each) => each.value === kind) && filter.time_value !== undefined && INTERVALS.some((each) => each.value === filter.time_interval);
}

/** Return the choice of `KINDS`: a count is one of its comparisons. */
export function readKind(filter: Record<string, unknown>): string {
  if (filter.value !== MULTIPLE) return String(filter.value);
  const operator = String(filter.operator ?? "exact");
  return operator === "eq" ? "exact" : operator;
}

export const isCount = (kind: string): boolean => COUNTS.includes(kind);
export const isSequence = (kind: string): boolean => kind === "performed_event_sequence";
export const isStopped = (kind: string): boolean => kind === "stopped_performing_event";

/** Change the choice, with the fields that it needs and without those that it does not. */
export function setKind(filter: DraftFilter, kind: string): DraftFilter {
  const { operator: _, operator_value: count, seq_event: second, seq_event_type: type, seq_time_value: within, seq_time_interval: unit, ...rest } = filter;
  if (isCount(kind)) return { ...rest, value: MULTIPLE, operator: kind, operator_value: count ?? 3 };
  const time = { seq_time_value: within ?? 1, seq_time_interval: unit ?? (isStopped(kind) ? "week" : "day") };
  if (isSequence(kind)) return { ...rest, value: kind, seq_event: second ?? "", seq_event_type: type ?? "events", ...time };
  return { ...rest, value: kind, ...(isStopped(kind) ? time : {}) };
}

export function findBehaviorProblem(filter: PropertyFilter): string | undefined {
  const kind = readKind(filter);
  const isNumber = (value: unknown) => Number.isInteger(Number(value)) && Number(value) > 0;
  if (!filter.key || (isSequence(kind) && !filter.seq_event)) return t("Choose the event or the action that people did.");
  if (isCount(kind) && !isNumber(filter.operator_value)) return t("How often people did it is a whole number from 1 on.");
  if (!isNumber(filter.time_value) || ((isSequence(kind) || isStopped(kind)) && !isNumber(filter.seq_time_value))) return t("A time is a whole number from 1 on.");
  return undefined;
}
