import { expect, test } from "vitest";
import { describeChange } from "./describe";
import { diff } from "./draft";

const condition = (properties: unknown[], rollout: number | null, variant: string | null = null) => ({ properties, rollout_percentage: rollout, variant });
const country = { key: "country", type: "person", operator: "exact", value: ["DE", "AT"] };
const describe = (before: unknown[], after: unknown[]) =>
  diff({ groups: before }, { groups: after }, "filters").map((each) => describeChange(each, (id) => (id === 4 ? "Buyers" : String(id))));

test("a new condition is a sentence", () => {
  expect(describe([], [condition([country], 20)])).toEqual([{ path: "Condition 1", before: undefined, after: "country is DE, AT · 20 % of them" }]);
  expect(describe([], [condition([], null, "short")])[0]?.after).toBe("everyone · 100 % of them · always short");
});

test("parts of a condition are named", () => {
  const cohort = { key: "id", type: "cohort", operator: "in", value: 4 };
  expect(describe([condition([], 10)], [condition([cohort], 50)])).toEqual([
    { path: "Condition 1 · filter 1", before: undefined, after: "in the cohort Buyers" },
    { path: "Condition 1 · rollout", before: "10 %", after: "50 %" },
  ]);
});

test("shapes that no form makes are shown too", () => {
  expect(describe([], [{ properties: "odd", rollout_percentage: 5 }])[0]?.after).toBe("everyone · 5 % of them");
  expect(describeChange({ path: "filters.multivariate", before: null, after: { variants: [] } })).toEqual({ path: "filters.multivariate", before: null, after: { variants: [] } });
});
