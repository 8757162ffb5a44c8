import { describe, expect, it } from "vitest";
import { changeKind, describeSource, isSame, listFilters, newSource, type Source, toRunnable, unwrap, wrap } from "./query";

const filter = { key: "plan", type: "event", operator: "exact", value: ["pro"] };

describe("the query of an insight", () => {
  it("keeps events, dates and filters when its kind changes", () => {
    const trend: Source = { ...newSource(), series: [{ kind: "EventsNode", event: "signed up", math: "dau" }, { kind: "ActionsNode", id: 3, name: "Paid" }], properties: [filter], breakdownFilter: { breakdown: "plan", breakdown_type: "event" } };
    const funnel = changeKind(trend, "FunnelsQuery");
    expect(funnel.series).toEqual([{ kind: "EventsNode", event: "signed up" }, { kind: "ActionsNode", id: 3, name: "Paid" }]);
    expect([funnel.properties, funnel.breakdownFilter, funnel.dateRange]).toEqual([trend.properties, trend.breakdownFilter, trend.dateRange]);
    const retention = changeKind(funnel, "RetentionQuery");
    expect(retention.retentionFilter).toMatchObject({ targetEntity: { id: "signed up", type: "events" }, returningEntity: { id: 3, type: "actions" } });
    expect(changeKind(retention, "TrendsQuery").series).toMatchObject([{ event: "signed up", math: "total" }]);
  });
  it("runs without what is not complete", () => {
    const draft: Source = { kind: "TrendsQuery", series: [{ kind: "EventsNode", event: null, properties: [{ ...filter, value: [] }, { key: "x", type: "event", operator: "is_set" }] }], properties: [{ ...filter, key: "" }, filter], breakdownFilter: { breakdown: "" } };
    expect(toRunnable(draft)).toEqual({ kind: "TrendsQuery", series: [{ kind: "EventsNode", event: null, properties: [{ key: "x", type: "event", operator: "is_set" }] }], properties: [filter] });
  });
  it("is the same in another order of names", () => {
    expect(isSame({ kind: "TrendsQuery", interval: "day", breakdownFilter: null }, { interval: "day", kind: "TrendsQuery" })).toBe(true);
    expect(isSame({ kind: "TrendsQuery", interval: "day" }, { kind: "TrendsQuery", interval: "week" })).toBe(false);
  });
  it("lists filters of simple groups only", () => {
    expect(listFilters({ type: "AND", values: [{ type: "AND", values: [filter] }] })).toEqual([filter]);
    expect(listFilters({ type: "OR", values: [filter, filter] })).toBeNull();
  });
  it("is found in its node", () => {
    expect(unwrap(wrap(newSource()))).toEqual(newSource());
    expect(describeSource({ kind: "FunnelsQuery", series: [{ kind: "EventsNode", event: "a" }, { kind: "EventsNode" }] })).toBe("a → All events");
  });
});
