import { describe, expect, it } from "vitest";
import type { ExperimentResults, MetricResult, VariantResult } from "../../api/types";
import { buildScale, findLeader, formatLift, judge, judgeMetric, toCsv } from "./verdict";

const variant = (fields: Partial<VariantResult>): VariantResult =>
  ({ key: "test", number_of_samples: 100, sum: 60, value: 0.6, value_interval: [0.5, 0.7], lift: 1, credible_interval: [0.4, 1.8], chance_to_win: 0.99, significant: true, validation_failures: [], p_value: null, confidence_interval: null, ...fields }) as VariantResult;
const metric = (fields: Partial<MetricResult>): MetricResult =>
  ({ name: "paid", metric_type: "funnel", goal: "increase", error: null, baseline: variant({ key: "control", lift: null, credible_interval: null, significant: null }), variant_results: [variant({})], uuid: null, ...fields }) as MetricResult;
const results = (fields: object): ExperimentResults =>
  ({ status: "running", level: 0.95, metrics: [metric({})], metrics_secondary: [], exposures: { total_exposures: { control: 100, test: 100 }, sample_ratio_mismatch: null }, ...fields }) as unknown as ExperimentResults;

describe("the sentence on a metric", () => {
  it("names the better variant with its certainty", () => {
    expect(judgeMetric(metric({}), 0.95)).toEqual({ tone: "good", text: "test is better than control: paid differs by +100 %, with 95 % certainty between +40 % and +180 %." });
  });

  it("calls a rise bad if the metric should go down", () => {
    expect(judgeMetric(metric({ goal: "decrease" }), 0.95).tone).toBe("bad");
  });

  it("says what is still possible", () => {
    const open = metric({ variant_results: [variant({ significant: false, credible_interval: [-0.05, 0.12] })] });
    expect(judgeMetric(open, 0.95)).toEqual({ tone: "open", text: "No difference in paid is certain yet. Compared with control, test may be anywhere from −5 % to +12 %." });
    const several = metric({ variant_results: [variant({ key: "friendly", significant: false, lift: -0.03, credible_interval: [-0.17, 0.14] }), variant({ key: "firm", significant: false, lift: 0.07, credible_interval: [-0.07, 0.24] })] });
    expect(judgeMetric(several, 0.95).text).toContain("firm may be anywhere from −7 % to +24 %");
    const early = metric({ variant_results: [variant({ significant: null, lift: null, credible_interval: null, validation_failures: ["no-exposures"] })] });
    expect(judgeMetric(early, 0.95).text).toContain("no one got this variant yet");
  });
});

describe("the variant that is offered to ship", () => {
  const of = (...variant_results: VariantResult[]) => findLeader(results({ metrics: [metric({ variant_results })] }));

  it("is the best by the first metric, control if all are worse", () => {
    expect(of(variant({ key: "a", lift: 0.2 }), variant({ key: "b", lift: 0.1 }))).toBe("a");
    expect(of(variant({ key: "a", lift: -0.2 }), variant({ key: "b", lift: -0.1 }))).toBe("control");
    expect(findLeader(results({ metrics: [metric({ goal: "decrease", variant_results: [variant({ key: "a", lift: 0.2 }), variant({ key: "b", lift: -0.1 })] })] }))).toBe("b");
    expect([of(variant({ lift: null, credible_interval: null })), findLeader(undefined)]).toEqual([null, null]);
  });
});

describe("the sentence on an experiment", () => {
  it("warns of a wrong split before anything else", () => {
    const wrong = { total_exposures: { control: 100, test: 900 }, sample_ratio_mismatch: { is_mismatch: true } };
    expect(judge(results({ exposures: wrong })).tone).toBe("bad");
  });

  it("does not count people who saw several variants", () => {
    expect(judge(results({ exposures: { total_exposures: { $multiple: 5 }, sample_ratio_mismatch: null } })).text).toContain("No one has seen");
    expect(judge(results({})).tone).toBe("good");
    expect(judge(results({ metrics: [] })).text).toContain("no metric");
  });
});

describe("the scale of intervals", () => {
  it("is round and contains zero and all intervals", () => {
    for (const intervals of [[[0.4, 1.8]], [[-0.031, -0.012]], [[0, 0]], [[-12, 30]], []] as [number, number][][]) {
      const { low, high, marks } = buildScale(intervals);
      expect(low).toBeLessThanOrEqual(Math.min(0, ...intervals.map((each) => each[0])));
      expect(high).toBeGreaterThanOrEqual(Math.max(0, ...intervals.map((each) => each[1])));
      expect(high).toBeGreaterThan(low);
      expect(marks.length).toBeLessThanOrEqual(8);
      expect(marks).toContain(0);
    }
  });
});

it("formats differences with a sign and a table as CSV", () => {
  expect([formatLift(0.1), formatLift(-0.0312), formatLift(0), formatLift(null)]).toEqual(["+10 %", "−3.1 %", "0 %", "–"]);
  const csv = toCsv(results({ metrics: [metric({ name: '=a,"b"' })] }));
  expect(csv.split("\r\n")[2]).toBe('"\'=a,""b""",funnel,increase,test,100,60,0.6,0.5,0.7,1,0.4,1.8,0.99,,true');
});
