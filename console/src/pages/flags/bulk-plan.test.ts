import { describe, expect, it } from "vitest";
import type { Flag } from "../../api/types";
import { describeBulk, planBulk } from "./bulk-plan";

const make = (fields: Partial<Flag>): Flag => ({ id: 1, active: true, tags: [], experiment_set: [], features: [], surveys: [], last_called_at: null, ...fields }) as unknown as Flag;
const on = make({ tags: ["a"], last_called_at: "2026-01-31T12:00:00Z", experiment_set: [1] });
const off = make({ id: 2, active: false });

describe("a change of several flags", () => {
  it("concerns only flags that differ, and can be taken back", () => {
    expect(planBulk([on, off], { kind: "off" })).toEqual([{ flag: on, body: { active: false }, undo: { active: true } }]);
    expect(planBulk([on, off], { kind: "tag", tag: "a" })).toEqual([{ flag: off, body: { tags: ["a"] }, undo: { tags: [] } }]);
    expect(planBulk([on, off], { kind: "untag", tag: "a" })).toEqual([{ flag: on, body: { tags: [] }, undo: { tags: ["a"] } }]);
    expect(planBulk([off], { kind: "delete" })).toEqual([{ flag: off, body: { deleted: true }, undo: { deleted: false, active: false } }]);
    expect(planBulk([on], { kind: "tag", tag: "" })).toEqual([]);
  });

  it("says its numbers before it happens", () => {
    const lines = describeBulk([on, off], planBulk([on, off], { kind: "off" }), { kind: "off" }, Date.parse("2026-01-31T13:00:00Z"));
    expect(lines.join(" ")).toContain("1 flag is turned off");
    expect(lines.join(" ")).toContain("1 is so already");
    expect(lines.join(" ")).toContain("1 of them was called in the last 24 hours");
    expect(lines.join(" ")).toContain("1 of them has an experiment");
  });
});
