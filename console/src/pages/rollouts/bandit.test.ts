import { expect, test } from "vitest";
import type { Bandit, BanditAllocation } from "../../api/types";
import { newStep } from "../experiments/metric-draft";
import { buildSplitSeries, describeSplit, findBanditProblem, newBandit, readBandit, writeBandit } from "./bandit";

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

test("a bandit is sent back as it was read", () => {
  const stored = { name: "Headlines", metric: { kind: "ExperimentMetric", metric_type: "funnel", goal: "increase", series: [{ kind: "EventsNode", event: "read" }] }, floor_percent: 10, interval_seconds: 7200, min_persons: 50 };
  const draft = readBandit(stored as unknown as Bandit);
  expect(draft.interval).toEqual({ count: "2", unit: "hours" });
  expect(writeBandit(draft)).toEqual(stored);
});

test("a draft needs its event, a floor that all variants can have, and a minute", () => {
  const draft = newBandit();
  expect(findBanditProblem(draft, 2)).toBeDefined();
  const metric = { ...draft.metric, steps: [newStep("read")] };
  expect(findBanditProblem({ ...draft, metric }, 2)).toBeUndefined();
  expect(findBanditProblem({ ...draft, metric, floor: "34" }, 3)).toMatch("33 %");
  expect(findBanditProblem({ ...draft, metric, interval: { count: "0.5", unit: "minutes" } }, 2)).toMatch("minute");
});
