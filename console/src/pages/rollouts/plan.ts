// A rollout plan: as the form edits it, as the API stores it, and in words. Pure.
import type { Guardrail, RolloutPlan, RolloutStep } from "../../api/types";
import { formatPercent, t, tn } from "../../lib/text";
import type { Labels } from "../../ui/show";
import { newUid } from "../flag/draft";

export const UNITS: { value: string; label: string; seconds: number }[] = [
  { value: "minutes", label: t("minutes"), seconds: 60 },
  { value: "hours", label: t("hours"), seconds: 3600 },
  { value: "days", label: t("days"), seconds: 86_400 },
];
const DEFAULT_MIN_PERSONS = 100;

export interface Length {
  count: string;
  unit: string;
}

export interface DraftStep {
  uid: string;
  percentage: string;
  length: Length;
}

export interface DraftGuardrail {
  uid: string;
  name: string;
  type: string;
  event: string;
  denominator: string;
  property: string;
  expression: string;
  harm: string;
  minPersons: string;
  /** Filters, which the form keeps and does not show. */
  rest: Partial<Guardrail>;
}

export interface PlanDraft {
  flag: number | null;
  condition: number;
  name: string;
  steps: DraftStep[];
  metrics: DraftGuardrail[];
  alpha: string;
  window: Length;
  onHarm: string;
  onNoData: string;
  destinations: number[];
}

export const TYPES: { value: string; label: string; fields: ("event" | "denominator" | "property" | "expression")[] }[] = [
  { value: "conversion", label: t("Share of people with an event"), fields: ["event"] },
  { value: "count", label: t("Events per person"), fields: ["event"] },
  { value: "mean", label: t("Mean of a property, such as a latency"), fields: ["event", "property"] },
  { value: "sum", label: t("Sum of a property per person"), fields: ["event", "property"] },
  { value: "ratio", label: t("Events per other event"), fields: ["event", "denominator"] },
  { value: "hogql", label: t("Mean of a HogQL expression"), fields: ["expression", "event"] },
];
export const fieldsOf = (type: string) => TYPES.find((each) => each.value === type)?.fields ?? [];

/** Return a time in the largest unit in which it is whole. */
export function toLength(seconds: number): Length {
  const unit = UNITS.findLast((each) => seconds % each.seconds === 0) ?? UNITS[0]!;
  return { count: String(seconds / unit.seconds), unit: unit.value };
}

export const toSeconds = (length: Length): number => Math.round(Number(length.count) * (UNITS.find((each) => each.value === length.unit)?.seconds ?? 1));

export function describeSeconds(seconds: number): string {
  const { count, unit } = toLength(seconds);
  const number = Number(count);
  if (!Number.isInteger(number)) return tn(seconds, "{n} second", "{n} seconds");
  if (unit === "days") return tn(number, "{n} day", "{n} days");
  return unit === "hours" ? tn(number, "{n} hour", "{n} hours") : tn(number, "{n} minute", "{n} minutes");
}

export const newStep = (percentage: string, count: string, unit: string): DraftStep => ({ uid: newUid(), percentage, length: { count, unit } });

export function newGuardrail(): DraftGuardrail {
  return { uid: newUid(), name: "", type: "conversion", event: "", denominator: "", property: "", expression: "", harm: "decrease", minPersons: String(DEFAULT_MIN_PERSONS), rest: {} };
}

export function newPlan(flag: number | null): PlanDraft {
  return {
    flag,
    condition: 0,
    name: "",
    steps: [newStep("5", "1", "hours"), newStep("25", "1", "days"), newStep("50", "1", "days"), newStep("100", "1", "hours")],
    metrics: [newGuardrail()],
    alpha: "5",
    window: { count: "5", unit: "minutes" },
    onHarm: "roll_back",
    onNoData: "wait",
    destinations: [],
  };
}

function readMetric(metric: Guardrail): DraftGuardrail {
  const { name, type, event, denominator_event, property, expression, harm, min_persons, ...rest } = metric;
  return { uid: newUid(), name, type, event: event ?? "", denominator: denominator_event ?? "", property: property ?? "", expression: expression ?? "", harm, minPersons: String(min_persons), rest };
}

export function readPlan(plan: RolloutPlan): PlanDraft {
  return {
    flag: plan.flag,
    condition: plan.condition_index,
    name: plan.name,
    steps: plan.steps.map((each) => ({ uid: newUid(), percentage: String(each.rollout_percentage), length: toLength(each.duration_seconds) })),
    metrics: plan.metrics.map(readMetric),
    alpha: String(Number((plan.alpha * 100).toFixed(4))),
    window: toLength(plan.window_seconds),
    onHarm: plan.on_harm,
    onNoData: plan.on_no_data,
    destinations: [...plan.destinations],
  };
}

function writeMetric(draft: DraftGuardrail): Record<string, unknown> {
  const fields = fieldsOf(draft.type);
  const kept = fields.includes("denominator") ? draft.rest : { ...(draft.rest.properties ? { properties: draft.rest.properties } : {}) };
  return {
    ...kept,
    type: draft.type,
    harm: draft.harm,
    ...(draft.name.trim() ? { name: draft.name.trim() } : {}),
    ...(fields.includes("event") && (draft.event.trim() || draft.type !== "hogql") ? { event: draft.event.trim() } : {}),
    ...(fields.includes("denominator") ? { denominator_event: draft.denominator.trim() } : {}),
    ...(fields.includes("property") ? { property: draft.property.trim() } : {}),
    ...(fields.includes("expression") ? { expression: draft.expression.trim() } : {}),
    ...(draft.minPersons.trim() ? { min_persons: Number(draft.minPersons) } : {}),
  };
}

export function writePlan(draft: PlanDraft): Record<string, unknown> {
  return {
    flag: draft.flag,
    condition_index: draft.condition,
    name: draft.name.trim(),
    steps: draft.steps.map((each): RolloutStep => ({ rollout_percentage: Number(each.percentage), duration_seconds: toSeconds(each.length) })),
    metrics: draft.metrics.map(writeMetric),
    alpha: Number((Number(draft.alpha) / 100).toFixed(8)),
    window_seconds: toSeconds(draft.window),
    on_harm: draft.onHarm,
    on_no_data: draft.onNoData,
    destinations: draft.destinations,
  };
}

export function findPlanProblem(draft: PlanDraft): string | undefined {
  if (draft.flag === null) return t("Choose the flag that is rolled out.");
  const percentages = draft.steps.map((each) => Number(each.percentage));
  if (draft.steps.some((each) => !(toSeconds(each.length) > 0))) return t("Every step needs its duration.");
  if (percentages.some((each, index) => !(each > (index ? percentages[index - 1]! : 0) && each <= 100))) return t("Every step needs a higher percentage than the one before, up to 100 %.");
  if (!draft.metrics.length) return t("A plan needs at least one metric that must not get worse.");
  for (const metric of draft.metrics) {
    const fields = fieldsOf(metric.type);
    const lacks = (field: "event" | "denominator" | "property" | "expression") => fields.includes(field) && !metric[field].trim();
    if (lacks("property") || lacks("denominator") || lacks("expression") || (metric.type !== "hogql" && lacks("event"))) return t("Every metric needs its event, and what is measured of it.");
  }
  return undefined;
}

export const STATES: Labels = {
  draft: { label: t("Draft"), tone: "" },
  running: { label: t("Running"), tone: "on" },
  paused: { label: t("Paused"), tone: "warn" },
  rolled_back: { label: t("Rolled back"), tone: "bad" },
  completed: { label: t("Completed"), tone: "info" },
  stopped: { label: t("Stopped"), tone: "" },
};

export const isActive = (plan: RolloutPlan): boolean => plan.state === "running" || plan.state === "paused";

export const VERDICTS: Labels = {
  harm: { label: t("Harm"), tone: "bad" },
  no_harm_found: { label: t("No harm found"), tone: "on" },
  too_few_persons: { label: t("Too few people yet"), tone: "" },
  no_data: { label: t("No data"), tone: "warn" },
  too_little_data: { label: t("Too little data"), tone: "" },
};

const small = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 4 });

/** Return a figure of a metric, such as a share of people in percent. */
export function showFigure(value: number | null, type: string | undefined): string {
  if (value === null) return "–";
  return type === "conversion" ? `${small.format(value * 100)} %` : small.format(value);
}

/** Return a relative difference, such as "−4.2 %". */
export function showRelative(value: number | null): string {
  if (value === null) return "–";
  const sign = value > 0 ? "+" : value < 0 ? "−" : "";
  return `${sign}${formatPercent(Math.abs(value) * 100)}`;
}
