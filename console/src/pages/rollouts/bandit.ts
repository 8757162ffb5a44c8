// The splits of a bandit, as text and as a chart.
import type { BanditAllocation } from "../../api/types";
import { formatPercent } from "../../lib/text";

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
