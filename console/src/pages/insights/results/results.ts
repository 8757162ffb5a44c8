// Results of insights as series and as tables: the same figures for the chart, its table and the download. Pure.
import { formatNumber, formatPercent, t } from "../../../lib/text";
import { isTotal, MATHS, type Source } from "../query";

export interface TrendResult {
  label: string;
  data: number[] | null;
  days: string[];
  count: number;
  aggregated_value?: number;
  compare_label?: string;
  breakdown_value?: unknown;
  action: { order?: number; name?: string; custom_name?: string | null; math?: string } | null;
}
export interface FunnelStep {
  name: string;
  custom_name: string | null;
  order: number;
  count: number;
  average_conversion_time: number | null;
  median_conversion_time: number | null;
  breakdown_value?: unknown;
}
export interface RateResult {
  data: number[];
  days: string[];
  breakdown_value?: unknown;
}
export interface RetentionRow {
  values: { count: number; label: string }[];
  label: string;
  date: string;
  breakdown_value?: unknown;
}
export interface PathEdge {
  source: string;
  target: string;
  value: number;
  average_conversion_time: number;
}
export interface TimeSeries {
  label: string;
  values: number[];
  /** The number of its color. Series and the same one before share it. */
  color: number;
  isPrevious: boolean;
  /** Its place in the results. */
  index: number;
}
export interface ResultTable {
  columns: string[];
  rows: (string | number | null)[][];
  /** Whether a column holds numbers. */
  isNumber: boolean[];
  /** Columns whose numbers are percentages. */
  isPercent?: boolean[];
}

const MISSING = "$$_posthog_breakdown_null_$$";
const OTHER = "$$_posthog_breakdown_other_$$";

/** Return a value of a breakdown as people read it. */
export function showBreakdown(value: unknown): string {
  if (Array.isArray(value)) return value.map(showBreakdown).join(", ");
  // In funnels and retention, a missing value is empty.
  if (value === MISSING || value === "" || value === null || value === undefined) return t("(no value)");
  if (value === OTHER) return t("(all others)");
  if (value === "all") return t("All persons");
  return String(value);
}

export function labelTrend(result: TrendResult, source: Source): string {
  const { action } = result;
  const math = MATHS.find((each) => each.value === action?.math);
  const name = action ? action.custom_name || action.name || result.label : result.label;
  const isPlain = !math || math.value === "total" || !!action?.custom_name;
  const whole = isPlain ? name : `${name} · ${math.label.toLowerCase()}${math.needs === "property" ? ` ${(action as { math_property?: string }).math_property ?? ""}` : ""}`;
  const parts = [];
  if (result.breakdown_value !== undefined) {
    const value = String(source.breakdownFilter?.breakdown_type) === "cohort" ? result.label : showBreakdown(result.breakdown_value);
    parts.push((source.series?.length ?? 1) > 1 ? `${whole} · ${value}` : value);
  } else parts.push(whole);
  if (result.compare_label === "previous") parts.push(t("(before)"));
  return parts.join(" ");
}

export function listTrends(results: TrendResult[], source: Source): TimeSeries[] {
  const identify = (each: TrendResult) => JSON.stringify([each.action?.order ?? each.label, each.breakdown_value]);
  const current = results.filter((each) => each.compare_label !== "previous");
  const colors = new Map(current.map((each, index) => [identify(each), index]));
  return results.map((each, index) => ({
    label: labelTrend(each, source),
    values: each.data ?? [],
    color: colors.get(identify(each)) ?? index,
    isPrevious: each.compare_label === "previous",
    index,
  }));
}

/** Return the funnels of a result: one, or one for each value of the breakdown. */
export function listFunnels(results: unknown): { label: string; steps: FunnelStep[] }[] {
  const all = (Array.isArray(results) ? results : []) as (FunnelStep | FunnelStep[])[];
  if (!all.length) return [];
  if (!Array.isArray(all[0])) return [{ label: "", steps: all as FunnelStep[] }];
  return (all as FunnelStep[][]).map((steps) => ({ label: showBreakdown(steps[0]?.breakdown_value), steps }));
}

export const showStep = (step: FunnelStep): string => step.custom_name || step.name || t("All events");

/** Return a share in percent, 0 if there is nothing to share. */
export const share = (part: number, whole: number): number => (whole ? (part / whole) * 100 : 0);

/** Return a duration as people say it: "3 min", "2.5 days". */
export function formatDuration(seconds: number | null): string {
  if (seconds === null || !Number.isFinite(seconds)) return "";
  const units: [number, string][] = [
    [86_400, t("d")],
    [3600, t("h")],
    [60, t("min")],
  ];
  for (const [length, unit] of units) if (seconds >= length) return `${formatNumber(Math.round((seconds / length) * 10) / 10)} ${unit}`;
  return `${formatNumber(Math.round(seconds * 10) / 10)} ${t("s")}`;
}

/** Return the nodes and edges of paths. The service numbers the steps of names: "1_/home". */
export function splitNode(name: string): { step: number; label: string } {
  const cut = name.indexOf("_");
  return { step: Number(name.slice(0, cut)) || 1, label: name.slice(cut + 1) };
}

/** Return the average share of persons that came back, by number of intervals. Cohorts count by their size. */
/** Leave out the intervals after the range, which are always 0. */
export function listPastRetention(rows: RetentionRow[]): RetentionRow[] {
  const of = (row: RetentionRow) => JSON.stringify(row.breakdown_value ?? null);
  const left = new Map<string, number>();
  for (const row of rows) left.set(of(row), (left.get(of(row)) ?? 0) + 1);
  return rows.map((row) => {
    const count = left.get(of(row))!;
    left.set(of(row), count - 1);
    return { ...row, values: row.values.slice(0, count) };
  });
}

export function averageRetention(rows: RetentionRow[]): (number | null)[] {
  const length = Math.max(0, ...rows.map((each) => each.values.length));
  return Array.from({ length }, (_, gap) => {
    const known = rows.filter((each) => each.values.length > gap);
    const size = known.reduce((sum, each) => sum + (each.values[0]?.count ?? 0), 0);
    return size ? share(known.reduce((sum, each) => sum + (each.values[gap]?.count ?? 0), 0), size) : null;
  });
}

const table = (columns: string[], rows: ResultTable["rows"], texts = 1): ResultTable => ({ columns, rows, isNumber: columns.map((_, index) => index >= texts) });

function tabulateTrends(source: Source, results: TrendResult[]): ResultTable {
  const labels = results.map((each) => labelTrend(each, source));
  if (isTotal(source)) return table([t("Series"), t("Value")], results.map((each, index) => [labels[index]!, each.aggregated_value ?? 0]));
  const days = results.find((each) => each.compare_label !== "previous")?.days ?? results[0]?.days ?? [];
  return table([t("Date"), ...labels], days.map((day, index) => [day, ...results.map((each) => each.data?.[index] ?? null)]));
}

function tabulateFunnel(source: Source, results: unknown): ResultTable {
  const view = source.funnelsFilter?.funnelVizType ?? "steps";
  if (view === "time_to_convert") {
    const bins = (results as { bins?: [number, number][] }).bins ?? [];
    return table([t("Time to convert, from"), t("Persons")], bins.map(([from, count]) => [formatDuration(from), count]));
  }
  if (view === "trends") {
    const rates = results as RateResult[];
    const labels = rates.map((each) => (each.breakdown_value === undefined ? t("Conversion, %") : `${showBreakdown(each.breakdown_value)}, %`));
    return table([t("Date"), ...labels], (rates[0]?.days ?? []).map((day, index) => [day, ...rates.map((each) => each.data[index] ?? null)]));
  }
  const funnels = listFunnels(results);
  const hasValues = funnels.length > 1 || !!funnels[0]?.label;
  const rows = funnels.flatMap(({ label, steps }) =>
    steps.map((step, index) => [
      ...(hasValues ? [label] : []),
      `${index + 1}. ${showStep(step)}`,
      step.count,
      Math.round(share(step.count, steps[0]!.count) * 100) / 100,
      index ? Math.round(share(step.count, steps[index - 1]!.count) * 100) / 100 : null,
      formatDuration(step.median_conversion_time),
    ]),
  );
  const columns = [...(hasValues ? [t("Value")] : []), t("Step"), t("Persons"), t("Of the first, %"), t("Of the one before, %"), t("Median time")];
  return table(columns, rows, hasValues ? 2 : 1);
}

function tabulateRetention(rows: RetentionRow[]): ResultTable {
  const longest = rows.reduce<RetentionRow | null>((best, each) => (each.values.length > (best?.values.length ?? 0) ? each : best), null);
  const hasValues = rows.some((each) => (each.breakdown_value ?? null) !== null);
  const columns = [...(hasValues ? [t("Value")] : []), t("Start"), ...(longest?.values.map((each) => each.label) ?? [])];
  const width = longest?.values.length ?? 0;
  return table(
    columns,
    rows.map((row) => [...(hasValues ? [showBreakdown(row.breakdown_value)] : []), row.date.slice(0, 16).replace("T", " ").replace(" 00:00", ""), ...Array.from({ length: width }, (_, gap) => row.values[gap]?.count ?? null)]),
    hasValues ? 2 : 1,
  );
}

/** Return a result as a table. */
export function toTable(source: Source, results: unknown, columns: string[] = []): ResultTable {
  if (source.kind === "TrendsQuery") return tabulateTrends(source, (results ?? []) as TrendResult[]);
  if (source.kind === "FunnelsQuery") return tabulateFunnel(source, results ?? []);
  if (source.kind === "RetentionQuery") return tabulateRetention(listPastRetention((results ?? []) as RetentionRow[]));
  if (source.kind === "PathsQuery") {
    const edges = (results ?? []) as PathEdge[];
    const rows = edges.map((each) => {
      const from = splitNode(each.source);
      return [from.step, from.label, splitNode(each.target).label, each.value, formatDuration(each.average_conversion_time / 1000)];
    });
    const made = table([t("Step"), t("From"), t("To"), t("Times"), t("Average time")], rows);
    return { ...made, isNumber: [false, false, false, true, true] };
  }
  const rows = (Array.isArray(results) ? results : []) as unknown[][];
  const isNumber = columns.map((_, index) => typeof rows[0]?.[index] === "number");
  return { columns, rows: rows.map((row) => row.map((each) => (typeof each === "number" || each === null ? each : typeof each === "string" ? each : JSON.stringify(each)))), isNumber };
}

export const showCell = (value: string | number | null): string => (value === null ? "" : typeof value === "number" ? formatNumber(Math.round(value * 100) / 100) : value);
export { formatPercent };
