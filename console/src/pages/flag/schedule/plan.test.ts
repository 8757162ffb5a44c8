import { describe, expect, it } from "vitest";
import type { Flag, ScheduledChange } from "../../../api/types";
import { addStep, describeOperation, findProblem, newPlan, toInput, toRequest, toSame } from "./plan";

const flag = (conditions: number) => ({ id: 7, filters: { groups: Array.from({ length: conditions }, () => ({})) } }) as unknown as Flag;
const NOW = new Date(2030, 0, 31, 22, 40);

describe("a plan", () => {
  it("begins at the next full hour, with steps a day apart", () => {
    const plan = newPlan(NOW);
    expect([plan.at, plan.steps[1]?.at]).toEqual(["2030-01-31T23:00", "2030-02-01T23:00"]);
    expect(addStep(plan.steps).at(-1)?.at).toBe("2030-02-04T23:00");
  });
  it("names a condition only if there are several", () => {
    const plan = { ...newPlan(NOW), operation: "rollout" as const, percentage: 20, condition: 1 };
    const at = new Date("2030-01-31T23:00").toISOString();
    expect(toRequest(plan, flag(1), {}).body).toEqual({ record_id: 7, model_name: "FeatureFlag", payload: { operation: "update_rollout", value: { rollout_percentage: 20 } }, scheduled_at: at });
    expect(toRequest(plan, flag(2), {}).body.payload).toEqual({ operation: "update_rollout", value: { rollout_percentage: 20, condition_index: 1 } });
  });
  it("repeats by an interval or by cron", () => {
    const plan = { ...newPlan(NOW), operation: "off" as const };
    expect(toRequest({ ...plan, repeat: "weekly" }, flag(1), {}).body).toMatchObject({ is_recurring: true, recurrence_interval: "weekly", payload: { operation: "update_status", value: false } });
    expect(toRequest({ ...plan, repeat: "cron", cron: " 0 17 * * 5 " }, flag(1), {}).body).toMatchObject({ is_recurring: true, cron_expression: "0 17 * * 5" });
  });
  it("must be in order and complete", () => {
    const plan = { ...newPlan(NOW), operation: "steps" as const };
    expect(findProblem(plan)).toBeUndefined();
    expect(findProblem({ ...plan, steps: [...plan.steps].reverse() })).toContain("after");
    expect(findProblem({ ...plan, operation: "on", at: "" })).toContain("date");
    expect(toInput(NOW)).toBe("2030-01-31T22:40");
  });
});

it("says what a change does", () => {
  const say = (operation: string, value: unknown) => describeOperation({ operation, value } as ScheduledChange["payload"]);
  expect(say("update_status", false)).toBe("Turn the flag off");
  expect(say("update_rollout", { rollout_percentage: 12.5, condition_index: 0 })).toBe("Roll out condition 1 to 12.5 %");
  expect(say("update_fields", { tags: [], name: "x" })).toBe("Change tags, name");
});

it("schedules the same again", () => {
  const once = { id: 1, record_id: "7", model_name: "FeatureFlag", payload: {}, scheduled_at: "x", is_recurring: false, recurrence_interval: null } as unknown as ScheduledChange;
  expect(toSame(once)).toEqual({ record_id: "7", model_name: "FeatureFlag", payload: {}, scheduled_at: "x" });
});
