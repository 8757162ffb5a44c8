import { describe, expect, it } from "vitest";
import { findInterval, shortNumber } from "../../../charts/time-labels";
import { moveTile, pack, resize } from "../../dashboards/layout";
import { placeNodes } from "./shapes";
import { averageRetention, formatDuration, listFunnels, listPastRetention, listTrends, toTable } from "./results";

const action = { order: 0, name: "signed up", math: "dau" };
const days = ["2026-11-01", "2026-11-02"];

describe("results as tables", () => {
  it("have a row for each interval of a trend", () => {
    const results = [
      { label: "signed up", data: [1, 2], days, count: 3, action, compare_label: "current" },
      { label: "signed up", data: [4, 5], days: ["2026-10-30", "2026-10-31"], count: 9, action, compare_label: "previous" },
    ];
    const source = { kind: "TrendsQuery", series: [{ kind: "EventsNode" as const, event: "signed up" }] };
    expect(toTable(source, results)).toMatchObject({
      columns: ["Date", "signed up · unique persons", "signed up · unique persons (before)"],
      rows: [
        ["2026-11-01", 1, 4],
        ["2026-11-02", 2, 5],
      ],
    });
    expect(listTrends(results, source).map((each) => [each.color, each.isPrevious])).toEqual([
      [0, false],
      [0, true],
    ]);
  });
  it("have a row for each step of a funnel", () => {
    const step = { custom_name: null, average_conversion_time: null };
    const steps = [
      { ...step, name: "a", order: 0, count: 200, median_conversion_time: null },
      { ...step, name: "b", order: 1, count: 50, median_conversion_time: 90 },
    ];
    expect(toTable({ kind: "FunnelsQuery" }, steps).rows).toEqual([
      ["1. a", 200, 100, null, ""],
      ["2. b", 50, 25, 25, "1.5 min"],
    ]);
    expect(listFunnels([steps.map((each) => ({ ...each, breakdown_value: ["$$_posthog_breakdown_null_$$"] }))])[0]!.label).toBe("(no value)");
  });
  it("average retention by the size of cohorts", () => {
    const row = (...counts: number[]) => ({ values: counts.map((count, gap) => ({ count, label: `Day ${gap}` })), label: "", date: "2026-11-01T00:00:00Z" });
    expect(averageRetention([row(100, 50), row(300)])).toEqual([100, 50]);
    expect(averageRetention([row(0)])).toEqual([null]);
    expect(averageRetention(listPastRetention([row(100, 50), row(300, 0)]))).toEqual([100, 50]);
  });
  it("say durations", () => {
    expect([formatDuration(null), formatDuration(30), formatDuration(5400), formatDuration(172_800)]).toEqual(["", "30 s", "1.5 h", "2 d"]);
  });
});

describe("charts", () => {
  it("find the interval of a note", () => {
    expect([findInterval(days, "2026-11-02 23:00:00"), findInterval(days, "2026-10-31 10:00:00"), findInterval(days, "2026-11-09 10:00:00")]).toEqual([1, -1, -1]);
    expect(shortNumber(12_500)).toBe("12.5k");
  });
  it("place all nodes of paths within the height", () => {
    const nodes = placeNodes([{ source: "1_a", target: "2_b", value: 3, average_conversion_time: 1 }, { source: "1_a", target: "2_c", value: 1, average_conversion_time: 1 }], 200);
    expect([...nodes.values()].every((each) => each.y + each.height <= 200)).toBe(true);
    expect(nodes.get("1_a")!.value).toBe(4);
  });
});

describe("the layout of a dashboard", () => {
  const places = [6, 6, 4].map((w, index) => ({ id: index + 1, w, h: index + 3 }));
  it("fills rows", () => {
    expect(pack(places).map(({ x, y }) => [x, y])).toEqual([
      [0, 0],
      [6, 0],
      [0, 4],
    ]);
  });
  it("moves and resizes within bounds", () => {
    expect(moveTile(places, 0, 2).map((each) => each.id)).toEqual([2, 3, 1]);
    expect(moveTile(places, 0, -1)).toBe(places);
    expect(resize(places[0]!, 1, 0).w).toBe(8);
    expect(resize({ id: 1, w: 12, h: 1 }, 1, -1)).toEqual({ id: 1, w: 12, h: 1 });
  });
});
