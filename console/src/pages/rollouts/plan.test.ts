import { describe, expect, it } from "vitest";
import type { RolloutPlan } from "../../api/types";
import { describeSeconds, findPlanProblem, newPlan, readPlan, showFigure, showRelative, toLength, writePlan } from "./plan";

const PLAN = {
  flag: 3,
  condition_index: 1,
  name: "",
  steps: [{ rollout_percentage: 5, duration_seconds: 90 * 60 }, { rollout_percentage: 100, duration_seconds: 2 * 86_400 }],
  metrics: [
    { name: "paid", type: "ratio", event: "paid", properties: [{ key: "plan", type: "event", value: "pro" }], denominator_event: "seen", denominator_properties: [], harm: "decrease", min_persons: 200 },
    { name: "slow", type: "hogql", event: "", properties: [], expression: "toFloat(properties.ms)", harm: "increase", min_persons: 100 },
  ],
  alpha: 0.05,
  window_seconds: 300,
  on_harm: "pause",
  on_no_data: "advance",
  destinations: [4],
} as unknown as RolloutPlan;

describe("a rollout plan", () => {
  it("is the same after it was read and written", () => {
    const { steps, ...rest } = writePlan(readPlan(PLAN)) as Record<string, unknown>;
    expect(steps).toEqual(PLAN.steps);
    expect(rest).toEqual({ flag: 3, condition_index: 1, name: "", metrics: [PLAN.metrics[0], expect.objectContaining({ expression: "toFloat(properties.ms)", harm: "increase" })], alpha: 0.05, window_seconds: 300, on_harm: "pause", on_no_data: "advance", destinations: [4] });
  });

  it("names what is missing", () => {
    const draft = newPlan(null);
    expect(findPlanProblem(draft)).toContain("flag");
    draft.flag = 1;
    expect(findPlanProblem(draft)).toContain("event");
    draft.metrics[0]!.event = "paid";
    expect(findPlanProblem(draft)).toBeUndefined();
    draft.steps[1]!.percentage = "5";
    expect(findPlanProblem(draft)).toContain("higher percentage");
  });

  it("shows times and figures as people read them", () => {
    expect(toLength(5400)).toEqual({ count: "90", unit: "minutes" });
    expect(describeSeconds(86_400)).toBe("1 day");
    expect(describeSeconds(45)).toBe("45 seconds");
    expect(showFigure(0.1234, "conversion")).toBe("12.34 %");
    expect(showRelative(-0.042)).toBe("−4.2 %");
  });
});
