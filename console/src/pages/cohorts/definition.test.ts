import { describe, expect, it } from "vitest";
import { countIds, findProblem, readDefinition, stripUids, writeDefinition } from "./definition";

const plan = { type: "person", key: "plan", operator: "exact", value: ["pro"] };
const country = { type: "person", key: "country", operator: "exact", value: ["NO"] };
const read = (definition: unknown) => readDefinition(definition)?.map((group) => stripUids(group.filters)) ?? null;

describe("the definition of a cohort", () => {
  it("is shown as groups, however PostHog nests it", () => {
    expect(read({})).toEqual([]);
    expect(read({ type: "OR", values: [{ type: "AND", values: [plan, country] }] })).toEqual([[plan, country]]);
    expect(read({ type: "OR", values: [{ type: "OR", values: [plan, country] }] })).toEqual([[plan], [country]]);
    expect(read({ type: "AND", values: [{ type: "AND", values: [plan] }, country] })).toEqual([[plan, country]]);
    expect(read({ type: "AND", values: [{ type: "OR", values: [plan, country] }] })).toEqual([[plan], [country]]);
  });

  it("is not shown as groups where they would mean something else", () => {
    expect(read({ type: "AND", values: [{ type: "OR", values: [plan, country] }, plan] })).toBeNull();
    expect(read({ type: "OR", values: [{ ...plan, negation: true }] })).toBeNull();
  });

  it("fills in what is left out", () => {
    expect(read({ type: "OR", values: [{ key: "a", value: 1 }] })).toEqual([[{ type: "person", key: "a", value: 1, operator: "exact" }]]);
  });

  it("comes back as it was", () => {
    const definition = { type: "OR", values: [{ type: "AND", values: [plan, country] }, { type: "AND", values: [plan] }] };
    expect(writeDefinition(readDefinition(definition)!)).toEqual(definition);
  });

  it("needs filters with properties", () => {
    expect(findProblem(readDefinition({ type: "OR", values: [plan] })!)).toBeUndefined();
    expect(findProblem([{ uid: "1", filters: [] }])).toBeTruthy();
    expect(findProblem([{ uid: "1", filters: [{ ...plan, key: "", uid: "2" }] }])).toBeTruthy();
  });
});

it("counts the ids of a CSV as the service does", () => {
  expect(countIds('\ufeffdistinct_id,plan\r\nann,pro\r\nbob\n\n"a,b",x\nann\n')).toBe(3);
});
