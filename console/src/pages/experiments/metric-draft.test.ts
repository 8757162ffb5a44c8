import { describe, expect, it } from "vitest";
import { findMetricProblem, newMetric, readMetric, setKind, writeMetric } from "./metric-draft";

const step = (event: string, more: object = {}) => ({ kind: "EventsNode", event, ...more });
const DOCUMENTS = [
  { kind: "ExperimentMetric", metric_type: "funnel", name: "Paid", goal: "increase", uuid: "u", series: [step("seen"), step("paid", { properties: [{ key: "a", value: 1 }] })], conversion_window: 3, conversion_window_unit: "day" },
  { kind: "ExperimentMetric", metric_type: "mean", goal: "decrease", source: step("paid", { math: "sum", math_property: "price" }) },
  { kind: "ExperimentMetric", metric_type: "mean", goal: "increase", source: step("paid") },
  { kind: "ExperimentMetric", metric_type: "ratio", goal: "increase", numerator: step("paid"), denominator: step("seen") },
  { kind: "ExperimentTrendsQuery", count_query: { series: [] } },
  { kind: "ExperimentMetric", metric_type: "ratio", numerator: step("paid", { math: "sum", math_property: "x" }), denominator: step("seen") },
];

describe("a metric", () => {
  it("comes back as it was, with what the form does not know", () => {
    for (const document of DOCUMENTS) expect(writeMetric(readMetric(document))).toEqual(document);
  });

  it("keeps its events when its kind changes", () => {
    const ratio = setKind(readMetric(DOCUMENTS[0]), "ratio");
    expect(ratio.steps.map((each) => each.event)).toEqual(["seen", "paid"]);
    expect(setKind(ratio, "count").steps).toHaveLength(1);
  });

  it("needs events, a property for sums, and a positive window", () => {
    expect(findMetricProblem([newMetric()])).toBeTruthy();
    expect(findMetricProblem(DOCUMENTS.map(readMetric))).toBeUndefined();
    expect(findMetricProblem([{ ...readMetric(DOCUMENTS[1]), property: " " }])).toBeTruthy();
    expect(findMetricProblem([{ ...readMetric(DOCUMENTS[0]), windowDays: "-1" }])).toBeTruthy();
  });
});

it("a window keeps its unit unless other days are typed", () => {
  const stored = { metric_type: "funnel", series: [{ event: "paid" }], conversion_window: 1, conversion_window_unit: "hour" };
  const draft = readMetric(stored);
  expect(draft.windowDays).toBe("0.04167");
  expect(writeMetric(draft)).toMatchObject({ conversion_window: 1, conversion_window_unit: "hour" });
  expect(writeMetric({ ...draft, windowDays: "2" })).toMatchObject({ conversion_window: 2, conversion_window_unit: "day" });
  expect(writeMetric({ ...draft, windowDays: "" })).not.toHaveProperty("conversion_window");
});
