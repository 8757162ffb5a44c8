import { describe, expect, it } from "vitest";
import { setKind } from "./behavior";
import { countIds, findProblem, readDefinition, stripUids, writeDefinition } from "./definition";

const plan = { type: "person", key: "plan", operator: "exact", value: ["pro"] };
const country = { type: "person", key: "country", operator: "exact", value: ["NO"] };
const PAID = { type: "behavioral", key: "paid", value: "performed_event", event_type: "events", time_value: 30, time_interval: "day" };
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
    expect(read({ type: "AND", values: [plan, { ...PAID, explicit_datetime: "-7d" }] })).toBeNull();
    expect(read({ type: "AND", values: [{ ...PAID, value: "performed_event_regularly" }] })).toBeNull();
  });

  it("fills in what is left out", () => {
    expect(read({ type: "OR", values: [{ key: "a", value: 1 }] })).toEqual([[{ type: "person", key: "a", value: 1, operator: "exact" }]]);
  });

  it("comes back as it was", () => {
    const definition = { type: "OR", values: [{ type: "AND", values: [plan, country] }, { type: "AND", values: [plan] }] };
    expect(writeDefinition(readDefinition(definition)!)).toEqual(definition);
  });

  it("asks what people did, and what they did not do", () => {
    const often = { ...PAID, value: "performed_event_multiple", operator: "gte", operator_value: 3, negation: true, event_filters: [{ key: "plan", type: "event", value: "pro" }] };
    const definition = { type: "OR", values: [{ type: "AND", values: [plan, often] }] };
    const groups = readDefinition(definition)!;
    expect(writeDefinition(groups)).toEqual(definition);
    expect(findProblem(groups)).toBeUndefined();
    const filter = groups[0]!.filters[1]!;
    const sequence = setKind(filter, "performed_event_sequence");
    expect(sequence).toMatchObject({ value: "performed_event_sequence", seq_event: "", seq_time_value: 1 });
    expect(sequence).not.toHaveProperty("operator_value");
    expect(findProblem([{ uid: "1", filters: [sequence] }])).toContain("event");
    expect(findProblem([{ uid: "1", filters: [{ ...filter, operator_value: 0 }] }])).toContain("How often");
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
