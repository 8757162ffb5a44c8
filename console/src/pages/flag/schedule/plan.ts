// What a scheduled change does and when, in words, and what the form sends. Pure.
import type { Flag, ScheduledChange } from "../../../api/types";
import { formatDate, t } from "../../../lib/text";

export type Operation = "on" | "off" | "rollout" | "steps" | "draft";
export type Repeat = "" | "daily" | "weekly" | "monthly" | "yearly" | "cron";

export interface Step {
  at: string;
  percentage: number;
}

/** What the form holds. Times are those of `<input type="datetime-local">`. */
export interface PlanDraft {
  operation: Operation;
  /** The condition whose rollout changes; the first is 0. */
  condition: number;
  percentage: number;
  at: string;
  repeat: Repeat;
  cron: string;
  until: string;
  steps: Step[];
}

const DAY_MS = 86_400_000;
const SHARES = [10, 25, 50, 100];

/** Return a time for an input, in the time zone of the browser. */
export function toInput(moment: Date): string {
  const pad = (value: number) => String(value).padStart(2, "0");
  return `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())}T${pad(moment.getHours())}:${pad(moment.getMinutes())}`;
}

export const toIso = (at: string): string => new Date(at).toISOString();

/** The next full hour, and a rollout in four steps from there, a day apart. */
export function newPlan(now: Date): PlanDraft {
  const start = new Date(now);
  start.setHours(now.getHours() + 1, 0, 0, 0);
  const steps = SHARES.map((percentage, index) => ({ at: toInput(new Date(start.getTime() + index * DAY_MS)), percentage }));
  return { operation: "on", condition: 0, percentage: 100, at: toInput(start), repeat: "", cron: "0 9 * * 1", until: "", steps };
}

/** Add a step a day after the last one. */
export function addStep(steps: Step[]): Step[] {
  const last = steps.at(-1);
  const at = last ? toInput(new Date(new Date(last.at).getTime() + DAY_MS)) : toInput(new Date());
  return [...steps, { at, percentage: 100 }];
}

/** What keeps the plan from being sent. The service checks everything again. */
export function findProblem(plan: PlanDraft): string | undefined {
  const times = plan.operation === "steps" ? plan.steps.map((each) => each.at) : [plan.at];
  if (times.some((at) => Number.isNaN(Date.parse(at)))) return t("Choose a date and a time.");
  if (times.some((at, index) => index > 0 && Date.parse(at) <= Date.parse(times[index - 1]!))) return t("Each step must be after the one before.");
  if (plan.repeat === "cron" && plan.operation !== "steps" && !plan.cron.trim()) return t("Enter a cron expression.");
  return undefined;
}

/** Return the path and the body of the request. `fields` are those of the unsaved draft of the flag. */
export function toRequest(plan: PlanDraft, flag: Flag, fields: Record<string, unknown>): { path: string; body: Record<string, unknown> } {
  const index = (flag.filters.groups?.length ?? 0) > 1 ? { condition_index: plan.condition } : {};
  if (plan.operation === "steps") {
    const steps = plan.steps.map((each) => ({ scheduled_at: toIso(each.at), rollout_percentage: each.percentage }));
    return { path: "scheduled_changes/rollout/", body: { record_id: flag.id, ...index, steps } };
  }
  const payload =
    plan.operation === "rollout"
      ? { operation: "update_rollout", value: { rollout_percentage: plan.percentage, ...index } }
      : plan.operation === "draft"
        ? { operation: "update_fields", value: fields }
        : { operation: "update_status", value: plan.operation === "on" };
  const recurrence = plan.repeat === "cron" ? { cron_expression: plan.cron.trim() } : { recurrence_interval: plan.repeat };
  const repeat = plan.repeat ? { is_recurring: true, ...recurrence, ...(plan.until ? { end_date: toIso(plan.until) } : {}) } : {};
  return { path: "scheduled_changes/", body: { record_id: flag.id, model_name: "FeatureFlag", payload, scheduled_at: toIso(plan.at), ...repeat } };
}

/** Return the body that schedules the same change again. */
export function toSame(change: ScheduledChange): Record<string, unknown> {
  const { record_id, model_name, payload, scheduled_at, is_recurring, recurrence_interval, cron_expression, end_date } = change;
  return { record_id, model_name, payload, scheduled_at, ...(is_recurring ? { is_recurring, recurrence_interval, cron_expression, end_date } : {}) };
}

const count = (value: unknown): number => (Array.isArray(value) ? value.length : 0);

export function describeOperation(payload: ScheduledChange["payload"]): string {
  const value = (payload.value ?? {}) as Record<string, unknown>;
  switch (payload.operation) {
    case "update_status":
      return payload.value ? t("Turn the flag on") : t("Turn the flag off");
    case "update_rollout":
      return typeof value.condition_index === "number"
        ? t("Roll out condition {number} to {share} %", { number: value.condition_index + 1, share: Number(value.rollout_percentage) })
        : t("Roll out to {share} %", { share: Number(value.rollout_percentage) });
    case "add_release_condition":
      return t("Add conditions: {n}", { n: count(value.groups) });
    case "update_variants":
      return t("Replace the variants: {n}", { n: count(value.variants) });
    default:
      return t("Change {names}", { names: Object.keys(value).join(", ") });
  }
}

const INTERVALS: Record<string, string> = { daily: t("Every day"), weekly: t("Every week"), monthly: t("Every month"), yearly: t("Every year") };

export function describeRepeat(change: ScheduledChange): string {
  if (!change.is_recurring) return t("Once");
  const how = change.cron_expression ? t("By cron: {cron}, {zone}", { cron: change.cron_expression, zone: change.timezone }) : (INTERVALS[change.recurrence_interval ?? ""] ?? "");
  return change.end_date ? t("{how}, until {date}", { how, date: formatDate(change.end_date) }) : how;
}
