import { describe, expect, it } from "vitest";
import type { Survey } from "../../api/types";
import { findProblem, getState, newQuestion, readDraft, readTargeting, setType, stripTags, toFields } from "./draft";

const filter = { key: "plan", type: "person", operator: "exact", value: ["pro"] };
const saved = {
  name: "Checkout",
  description: "",
  type: "popover",
  questions: [{ id: "q1", type: "rating", question: "How was it?", scale: 10, display: "number", translations: { de: {} } }],
  conditions: { url: "/done", selector: ".x" },
  appearance: null,
  linked_flag_id: null,
  targeting_flag: { filters: { groups: [{ properties: [filter], rollout_percentage: 100 }] } },
  responses_limit: null,
  start_date: null,
  end_date: null,
  archived: false,
} as unknown as Survey;

describe("a survey", () => {
  it("sends only what differs", () => {
    expect(toFields(readDraft(saved), saved)).toEqual({});
    expect(toFields({ ...readDraft(saved), name: "New", limit: "50" }, saved)).toEqual({ name: "New", responses_limit: 50 });
    const draft = readDraft(saved);
    expect(toFields({ ...draft, conditions: { ...draft.conditions, url: "" } }, saved)).toEqual({ conditions: { selector: ".x" } });
  });

  it("changes or removes its targeting", () => {
    expect(toFields({ ...readDraft(saved), groups: [] }, saved)).toEqual({ remove_targeting_flag: true });
    const fields = toFields({ ...readDraft(null), name: "n", groups: readDraft(saved).groups }, null);
    expect(fields.targeting_flag_filters).toEqual({ groups: [{ properties: [filter], rollout_percentage: 100 }] });
  });

  it("does not show conditions that the form cannot keep", () => {
    expect(readTargeting({ groups: [{ properties: [filter], rollout_percentage: 50 }] })).toBeNull();
    expect(readTargeting({ groups: [{ properties: [], rollout_percentage: 100 }] })).toEqual([]);
  });

  it("keeps the texts of a question when its type changes", () => {
    const question = setType({ ...newQuestion(), question: "Why?", id: "q", optional: true }, "single_choice");
    expect(question).toMatchObject({ type: "single_choice", question: "Why?", id: "q", optional: true, choices: ["Yes", "No"] });
    expect(setType(question, "open")).not.toHaveProperty("choices");
  });

  it("needs a name, and questions with texts and choices", () => {
    expect(findProblem(readDraft(saved))).toBeUndefined();
    expect(findProblem(readDraft(null))).toBeTruthy();
    expect(findProblem({ ...readDraft(saved), questions: [] })).toBeTruthy();
    expect(findProblem({ ...readDraft(saved), questions: [{ ...newQuestion(), type: "single_choice", question: "x", choices: [" "] }] })).toBeTruthy();
  });
});

it("names the state of a survey and strips tags", () => {
  expect(getState(saved)).toBe("draft");
  expect(getState({ ...saved, start_date: "2026-01-01" } as Survey)).toBe("running");
  expect(getState({ ...saved, start_date: "2026-01-01", end_date: "2026-01-02" } as Survey)).toBe("ended");
  expect(stripTags("<b>How</b> was<br>it?")).toBe("How was it?");
});
