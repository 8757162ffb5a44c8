import { describe, expect, it } from "vitest";
import type { Flag } from "../../api/types";
import { diff, distribute, emptyDraft, findProblems, isSame, mergeEdits, move, takeTheirs, toDraft, toFields, toFilters } from "./draft";

const flag = {
  key: "cart",
  name: "",
  active: true,
  tags: ["a"],
  ensure_experience_continuity: false,
  filters: {
    groups: [{ properties: [{ key: "plan", type: "person", value: ["pro"], operator: "exact" }], rollout_percentage: 50, variant: null, description: "x" }],
    multivariate: { variants: [{ key: "a", name: "", rollout_percentage: 100 }] },
    payloads: { a: "1" },
    early_exit: true,
  },
} as unknown as Flag;

describe("a draft", () => {
  it("returns what it got, with fields that the form does not know", () => {
    expect(toFilters(toDraft(flag))).toEqual(flag.filters);
  });
  it("forgets a variant that no longer exists", () => {
    const draft = toDraft(flag);
    draft.conditions[0]!.variant = "gone";
    expect(toFilters(draft).groups![0]!.variant).toBeNull();
  });
  it("names its problems", () => {
    expect(findProblems({ ...emptyDraft(), key: "a b" })).toHaveProperty("key");
    const draft = toDraft(flag);
    draft.variants[0]!.rollout = 40;
    draft.variants[0]!.payload = "{";
    expect(Object.keys(findProblems(draft))).toEqual(["variants", "payloads"]);
    expect(findProblems(toDraft(flag))).toEqual({});
  });
  it("distributes all of 100 %", () => {
    const three = [1, 2, 3].map((each) => ({ uid: `${each}`, key: "", name: "", rollout: 0, payload: "" }));
    expect(distribute(three).map((each) => each.rollout)).toEqual([34, 33, 33]);
  });
  it("moves items within the list only", () => {
    expect(move([1, 2, 3], 0, 2)).toEqual([2, 3, 1]);
    expect(move([1, 2, 3], 0, -1)).toEqual([1, 2, 3]);
    expect(move([1, 2, 3], 2, 3)).toEqual([1, 2, 3]);
  });
});

describe("a diff", () => {
  it("is empty for what means the same", () => {
    expect(diff({ a: null, b: [] }, { b: undefined })).toEqual([]);
    expect(isSame({ a: 0 }, { a: null })).toBe(false);
  });
  it("names the place", () => {
    const before = { filters: { groups: [{ rollout_percentage: 10 }] } };
    const after = { filters: { groups: [{ rollout_percentage: 20 }, { rollout_percentage: 5 }] } };
    expect(diff(before, after).map((each) => each.path)).toEqual(["filters.groups[1].rollout_percentage", "filters.groups[2]"]);
  });
});

describe("a merge of two edits", () => {
  const base = toFields(toDraft(flag));
  it("takes what only one side changed", () => {
    const { merged, conflicts } = mergeEdits(base, { ...base, name: "mine" }, { ...base, active: false });
    expect(conflicts).toEqual([]);
    expect(merged).toMatchObject({ name: "mine", active: false });
  });
  it("keeps mine and names the conflict if both changed the same", () => {
    const { merged, conflicts } = mergeEdits(base, { ...base, name: "mine" }, { ...base, name: "theirs" });
    expect(merged.name).toBe("mine");
    expect(conflicts).toEqual([{ path: "name", base: "", mine: "mine", theirs: "theirs" }]);
    expect(takeTheirs(merged, conflicts[0]!).name).toBe("theirs");
  });
  it("merges the parts of filters", () => {
    const filters = base.filters as Record<string, unknown>;
    const mine = { ...base, filters: { ...filters, payloads: { a: "2" } } };
    const theirs = { ...base, filters: { ...filters, groups: [] } };
    const { merged, conflicts } = mergeEdits(base, mine, theirs);
    expect(conflicts).toEqual([]);
    expect(merged.filters).toMatchObject({ payloads: { a: "2" }, groups: [] });
  });
});
