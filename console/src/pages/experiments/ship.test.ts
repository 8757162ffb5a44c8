import { describe, expect, it } from "vitest";
import type { FlagFilters } from "../../api/types";
import { findShipped, shipVariant } from "./ship";

const split = {
  groups: [{ properties: [{ key: "plan", value: "pro", type: "person" }], rollout_percentage: 50, variant: "control" }],
  multivariate: { variants: [{ key: "control", rollout_percentage: 50 }, { key: "test", rollout_percentage: 50 }] },
} as unknown as FlagFilters;

describe("a shipped variant", () => {
  it("is for everyone, before all other conditions", () => {
    expect(findShipped(split)).toBe(null);
    const shipped = shipVariant(split, "test");
    expect(findShipped(shipped)).toBe("test");
    expect(shipped.groups?.[1]).toEqual(split.groups?.[0]);
  });

  it("can be replaced by another without more conditions", () => {
    const again = shipVariant(shipVariant(split, "test"), "control");
    expect([findShipped(again), again.groups?.length]).toEqual(["control", 2]);
  });
});
