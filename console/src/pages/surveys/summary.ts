// Answers to one question, counted. Pure.
import type { DraftQuestion } from "./draft";

/** An answer as JSON text, how often it was given, and when last. */
type Row = [answer: string, count: number, last: string];

export interface Summary {
  count: number;
  /** Labels with their counts: choices or ratings. Null for texts. */
  bars: [string, number][] | null;
  texts: [string, number][] | null;
  average: number | null;
  nps: number | null;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function countAll(rows: Row[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [raw, count] of rows) {
    const answer = parse(raw);
    for (const each of Array.isArray(answer) ? answer : [answer]) {
      const label = typeof each === "string" ? each : JSON.stringify(each);
      if (label) counts.set(label, (counts.get(label) ?? 0) + Number(count));
    }
  }
  return counts;
}

function summarizeRating(question: DraftQuestion, counts: Map<string, number>): Partial<Summary> {
  const scale = question.scale ?? 10;
  const first = scale === 10 ? 0 : 1;
  const bars = Array.from({ length: scale - first + 1 }, (_, index): [string, number] => [String(first + index), counts.get(String(first + index)) ?? 0]);
  const count = bars.reduce((sum, [, each]) => sum + each, 0);
  const sum = (from: number, to: number) => bars.filter(([label]) => Number(label) >= from && Number(label) <= to).reduce((all, [, each]) => all + each, 0);
  return {
    bars,
    average: count ? bars.reduce((all, [label, each]) => all + Number(label) * each, 0) / count : null,
    nps: scale === 10 && count && question.isNpsQuestion !== false ? ((sum(9, 10) - sum(0, 6)) / count) * 100 : null,
  };
}

/** Return the answers to a question as bars or texts. Several choices of one person count as one answer. */
export function summarize(question: DraftQuestion, rows: Row[]): Summary {
  const kept = rows.filter(([raw]) => raw !== '""' && raw !== "[]");
  const count = kept.reduce((sum, [, each]) => sum + Number(each), 0);
  const counts = countAll(kept);
  const blank: Summary = { count, bars: null, texts: null, average: null, nps: null };
  if (question.type === "rating") return { ...blank, ...summarizeRating(question, counts) };
  if (question.type === "single_choice" || question.type === "multiple_choice") {
    const choices = question.choices ?? [];
    const closed = question.hasOpenChoice ? choices.slice(0, -1) : choices;
    const others = [...counts].filter(([label]) => !closed.includes(label));
    const rest = others.reduce((sum, [, each]) => sum + each, 0);
    const open = question.hasOpenChoice ? choices[choices.length - 1] : undefined;
    const bars: [string, number][] = closed.map((choice) => [choice, counts.get(choice) ?? 0]);
    if (rest || open !== undefined) bars.push([open ?? "…", rest]);
    return { ...blank, bars, texts: others.length ? others : null };
  }
  return { ...blank, texts: [...counts] };
}
