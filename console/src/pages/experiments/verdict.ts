// What the results of an experiment say: in a sentence, as a scale, and as a table. Pure.
import type { ExperimentResults, MetricResult, VariantResult } from "../../api/types";
import { formatNumber, formatPercent, t } from "../../lib/text";

export type Tone = "good" | "bad" | "open";

export interface Verdict {
  tone: Tone;
  text: string;
}

const REASONS: Record<string, string> = {
  "no-exposures": t("no one got this variant yet"),
  "no-variation": t("all values are equal so far"),
  "values-too-large": t("the values are too large to compare"),
  "denominator-is-zero": t("the denominator is zero"),
  "baseline-not-comparable": t("control cannot be compared yet"),
  "too-few-conversions": t("there are too few conversions"),
  "baseline-mean-is-zero": t("control is zero, so a relative difference does not exist"),
  "baseline-mean-may-be-zero": t("control may be zero, so the difference could be anything"),
};

export const explainFailure = (code: string): string => REASONS[code] ?? code.replaceAll("-", " ");

/** The interval of the lift, by whichever method was used. */
export function getInterval(result: VariantResult): [number, number] | null {
  const found = (result.credible_interval ?? result.confidence_interval) as [number, number] | null;
  return found && found.every(Number.isFinite) ? found : null;
}

/** A relative difference, with its sign. */
export function formatLift(lift: number | null): string {
  if (lift === null) return "–";
  const percent = Math.round(lift * 1000) / 10;
  return `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${formatPercent(Math.abs(percent))}`;
}

export function formatChance(chance: number | null): string {
  if (chance === null) return "–";
  if (chance > 0.999) return `> ${formatPercent(99.9)}`;
  if (chance < 0.001) return `< ${formatPercent(0.1)}`;
  return formatPercent(Math.round(chance * 1000) / 10);
}

export function formatValue(value: number | null, type: string): string {
  if (value === null) return "–";
  return type === "funnel" ? formatPercent(Math.round(value * 10_000) / 100) : formatNumber(Math.round(value * 1000) / 1000);
}

/** Whether a significant result is what the metric wants. */
export function isBetter(metric: MetricResult, result: VariantResult): boolean {
  return (result.lift ?? 0) > 0 !== (metric.goal === "decrease");
}

/** Return results with an interval, the best first. */
function rank(metric: MetricResult): VariantResult[] {
  const sign = metric.goal === "decrease" ? -1 : 1;
  return metric.variant_results.filter((each) => each.lift !== null && getInterval(each)).sort((left, right) => sign * (right.lift! - left.lift!));
}

/** Return the variant to ship by the first metric: the best that is certain, control if the best is certainly worse, else the one that leads. */
export function findLeader(results: ExperimentResults | undefined): string | null {
  const metric = results?.metrics[0];
  const [best] = metric && !metric.error ? rank(metric) : [];
  if (!best || !metric) return null;
  const isWorse = best.lift !== 0 && !isBetter(metric, best);
  return isWorse ? (metric.baseline?.key ?? null) : best.key;
}

/** Return the sentence on one metric. The best variant that differs is named; otherwise how much is still possible for the one that leads. */
export function judgeMetric(metric: MetricResult, level: number): Verdict {
  if (metric.error) return { tone: "bad", text: t("{name} cannot be measured: {detail}", { name: metric.name, detail: metric.error.detail }) };
  const results = metric.variant_results;
  const certain = results.filter((each) => each.significant && each.lift !== null);
  const sure = formatPercent(Math.round(level * 1000) / 10);
  if (certain.length) {
    const best = rank({ ...metric, variant_results: certain })[0] ?? certain[0]!;
    const interval = getInterval(best);
    const values = {
      key: best.key,
      name: metric.name,
      lift: formatLift(best.lift),
      low: formatLift(interval?.[0] ?? null),
      high: formatLift(interval?.[1] ?? null),
      level: sure,
    };
    return isBetter(metric, best)
      ? { tone: "good", text: t("{key} is better than control: {name} differs by {lift}, with {level} certainty between {low} and {high}.", values) }
      : { tone: "bad", text: t("{key} is worse than control: {name} differs by {lift}, with {level} certainty between {low} and {high}.", values) };
  }
  const open = rank(metric)[0] ?? results.find((each) => getInterval(each));
  const interval = open && getInterval(open);
  if (open && interval)
    return {
      tone: "open",
      text: t("No difference in {name} is certain yet. Compared with control, {key} may be anywhere from {low} to {high}.", { name: metric.name, key: open.key, low: formatLift(interval[0]), high: formatLift(interval[1]) }),
    };
  const reason = [...(metric.baseline?.validation_failures ?? []), ...results.flatMap((each) => each.validation_failures)][0];
  return { tone: "open", text: reason ? t("Too early to tell about {name}: {reason}.", { name: metric.name, reason: explainFailure(reason) }) : t("Too early to tell about {name}.", { name: metric.name }) };
}

/** Return what all results together say: whether to trust them, then the first metric. */
export function judge(results: ExperimentResults): Verdict {
  const people = Object.entries(results.exposures.total_exposures).reduce((sum, [key, count]) => (key === "$multiple" ? sum : sum + count), 0);
  if (results.exposures.sample_ratio_mismatch?.is_mismatch)
    return { tone: "bad", text: t("Do not trust these figures: people are not split as the flag says. Perhaps one variant fails before it reports.") };
  if (results.status === "draft") return { tone: "open", text: t("The experiment is a draft. Launch it to count who sees which variant.") };
  if (!people) return { tone: "open", text: t("No one has seen a variant yet. Code must ask for the flag where the variant is shown.") };
  const [first] = results.metrics;
  return first ? judgeMetric(first, results.level) : { tone: "open", text: t("There is no metric. Add one to compare the variants.") };
}

/** Return round limits that contain all intervals and zero, and marks between them. */
export function buildScale(intervals: [number, number][]): { low: number; high: number; marks: number[] } {
  const low = Math.min(0, ...intervals.map((each) => each[0]));
  const high = Math.max(0, ...intervals.map((each) => each[1]));
  const span = high - low || 0.2;
  const power = 10 ** Math.floor(Math.log10(span / 4));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => span / each <= 5) ?? power * 10;
  const from = Math.floor((low - (high === low ? step : 0)) / step);
  const to = Math.ceil((high + (high === low ? step : 0)) / step);
  const marks = Array.from({ length: to - from + 1 }, (_, index) => Number(((from + index) * step).toPrecision(12)));
  return { low: marks[0]!, high: marks[marks.length - 1]!, marks };
}

const quote = (cell: unknown): string => {
  // A leading sign of a formula is data here, not a formula of a spreadsheet.
  const text = cell === null || cell === undefined ? "" : typeof cell === "number" ? String(cell) : String(cell).replace(/^(?=[=+@\t\r-])/, "'");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Return all metrics and variants as CSV. */
export function toCsv(results: ExperimentResults): string {
  const header = ["metric", "kind", "goal", "variant", "people", "sum", "value", "value_low", "value_high", "lift", "lift_low", "lift_high", "chance_to_win", "p_value", "significant"];
  const rows = [...results.metrics, ...results.metrics_secondary].flatMap((metric) =>
    [metric.baseline, ...metric.variant_results]
      .filter((each): each is VariantResult => !!each)
      .map((each) => {
        const interval = getInterval(each);
        const range = each.value_interval as [number, number] | null;
        return [metric.name, metric.metric_type, metric.goal, each.key, each.number_of_samples, each.sum, each.value, range?.[0], range?.[1], each.lift, interval?.[0], interval?.[1], each.chance_to_win, each.p_value, each.significant];
      }),
  );
  return [header, ...rows].map((row) => row.map(quote).join(",")).join("\r\n") + "\r\n";
}
