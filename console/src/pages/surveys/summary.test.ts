import { expect, it } from "vitest";
import type { DraftQuestion } from "./draft";
import { summarize } from "./summary";

const make = (fields: object): DraftQuestion => ({ uid: "1", question: "?", ...fields }) as DraftQuestion;

it("counts ratings sent as numbers or texts, with average and NPS", () => {
  const summary = summarize(make({ type: "rating", scale: 10 }), [["10", 2, ""], ['"9"', 1, ""], ["3", 1, ""]]);
  expect(summary).toMatchObject({ count: 4, average: 8, nps: 50 });
  expect(summary.bars).toHaveLength(11);
  expect(summarize(make({ type: "rating", scale: 5 }), [["5", 1, ""]])).toMatchObject({ average: 5, nps: null });
});

it("counts each of several choices, and texts of people's own", () => {
  const question = make({ type: "multiple_choice", choices: ["a", "b", "Other"], hasOpenChoice: true });
  const summary = summarize(question, [['["a","b"]', 2, ""], ['["a","mine"]', 1, ""], ['[]', 4, ""]]);
  expect(summary.count).toBe(3);
  expect(summary.bars).toEqual([["a", 3], ["b", 2], ["Other", 1]]);
  expect(summary.texts).toEqual([["mine", 1]]);
});

it("lists texts", () => {
  expect(summarize(make({ type: "open" }), [['"Good <b>"', 1, ""], ['""', 9, ""]])).toMatchObject({ count: 1, bars: null, texts: [["Good <b>", 1]] });
});
