import { expect, test } from "vitest";
import type { BanditAllocation } from "../../api/types";
import { buildSplitSeries, describeSplit } from "./bandit";

function entry(at: string, split: Record<string, number>): BanditAllocation {
  const variants = Object.entries(split).map(([key, share]) => ({ key, persons: 0, total: 0, denominator: null, value: null, posterior: null, probability_best: null, rollout_percentage_before: share, rollout_percentage: share }));
  return { kind: "checked", created_at: at, why: "", variants } as unknown as BanditAllocation;
}

test("splits are in order of time, and entries without evidence are left out", () => {
  const { days, series } = buildSplitSeries([entry("3", { a: 20, b: 80 }), entry("2", {}), entry("1", { a: 50, b: 50 })]);
  expect(days).toEqual(["1", "3"]);
  expect(series.map(({ label, values }) => [label, values])).toEqual([
    ["a", [50, 20]],
    ["b", [50, 80]],
  ]);
  expect(describeSplit(entry("3", { a: 20, b: 80 }))).toMatch(/^a 20\s?%, b 80\s?%$/u);
});
