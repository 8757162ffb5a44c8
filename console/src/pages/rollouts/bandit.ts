// A bandit: as the form edits it, as the API stores it, and its splits as text and as a chart. Pure.
import type { Bandit, BanditAllocation } from "../../api/types";
import { formatPercent, t } from "../../lib/text";
import { type DraftMetric, findMetricProblem, newMetric, readMetric, writeMetric } from "../experiments/metric-draft";
import { type Length, toLength, toSeconds } from "./plan";

const DEFAULT_FLOOR_PERCENT = 5;
const DEFAULT_MIN_PERSONS = 100;

export interface BanditDraft {
  name: string;
  metric: DraftMetric;
  floor: string;
  interval: Length;
  minPersons: string;
}

export const newBandit = (): BanditDraft => ({ name: "", metric: newMetric(), floor: String(DEFAULT_FLOOR_PERCENT), interval: { count: "1", unit: "hours" }, minPersons: String(DEFAULT_MIN_PERSONS) });

export function readBandit(bandit: Bandit): BanditDraft {
  return { name: bandit.name, metric: readMetric(bandit.metric), floor: String(bandit.floor_percent), interval: toLength(bandit.interval_seconds), minPersons: String(bandit.min_persons) };
}

export function writeBandit(draft: BanditDraft): Record<string, unknown> {
  return { name: draft.name.trim(), metric: writeMetric(draft.metric), floor_percent: Number(draft.floor), interval_seconds: toSeconds(draft.interval), min_persons: Number(draft.minPersons) };
}

export function findBanditProblem(draft: BanditDraft, variants: number): string | undefined {
  const problem = findMetricProblem([draft.metric]);
  if (problem) return problem;
  if (!(Number(draft.floor) >= 1 && Number(draft.floor) * variants <= 100)) return t("{n} variants can keep 1 to {most} % each.", { n: variants, most: Math.floor(100 / variants) });
  if (!(toSeconds(draft.interval) >= 60)) return t("The split can be computed once a minute at most.");
  return undefined;
}

/** "control 20 %, blue 80 %"; "" without evidence. */
export function describeSplit(entry: Pick<BanditAllocation, "variants">): string {
  return entry.variants.map((each) => `${each.key} ${formatPercent(each.rollout_percentage)}`).join(", ");
}

/** The share of each variant at each entry with evidence, oldest first. `entries` are newest first, as the list is. */
export function buildSplitSeries(entries: readonly Pick<BanditAllocation, "created_at" | "variants">[]) {
  const known = entries.filter((each) => each.variants.length).reverse();
  const keys = known.at(-1)?.variants.map((each) => each.key) ?? [];
  return {
    days: known.map((each) => each.created_at),
    series: keys.map((key, index) => ({ label: key, color: index, index, isPrevious: false, values: known.map((each) => each.variants.find((variant) => variant.key === key)?.rollout_percentage ?? 0) })),
  };
}
