// Metrics as the form edits them, and as the API stores them. Pure.
import { newUid } from "../flag/draft";

type Document = Record<string, unknown>;
export type MetricKind = "funnel" | "count" | "sum" | "ratio";

/** An event of a metric. `rest` has what the form does not show, such as filters. */
export interface MetricStep {
  uid: string;
  event: string;
  rest: Record<string, unknown>;
}

export interface DraftMetric {
  uid: string;
  name: string;
  kind: MetricKind;
  steps: MetricStep[];
  /** The property that is summed. */
  property: string;
  isLowerBetter: boolean;
  windowDays: string;
  /** The window as it is stored, in any unit. It is kept unless other days are typed. */
  storedWindow: Document;
  rest: Record<string, unknown>;
  /** A document that the form cannot show, kept as it is. */
  document: Record<string, unknown> | null;
}

const DAYS: Record<string, number> = { hour: 1 / 24, day: 1, week: 7, month: 30 };
export const newStep = (event = "", rest: Record<string, unknown> = {}): MetricStep => ({ uid: newUid(), event, rest });

export function newMetric(): DraftMetric {
  return { uid: newUid(), name: "", kind: "funnel", steps: [newStep()], property: "", isLowerBetter: false, windowDays: "", storedWindow: {}, rest: {}, document: null };
}

function readStep(node: unknown): MetricStep {
  const { event, kind: _, math: __, math_property: ___, ...rest } = (node ?? {}) as Document;
  return newStep(typeof event === "string" ? event : "", rest);
}

/** Return a window in days, "" without one, null if the form cannot show it. */
function showDays(window: Document): string | null {
  const { conversion_window: count, conversion_window_unit: unit } = window;
  if (typeof count !== "number") return "";
  const days = count * (DAYS[String(unit)] ?? NaN);
  return Number.isNaN(days) ? null : String(Number(days.toPrecision(4)));
}

export function readMetric(stored: unknown): DraftMetric {
  const document = (stored ?? {}) as Document;
  const { kind, metric_type, name, goal, series, source, numerator, denominator, conversion_window, conversion_window_unit, ...rest } = document;
  const blank = { ...newMetric(), name: typeof name === "string" ? name : "", isLowerBetter: goal === "decrease", rest };
  const storedWindow: Document = conversion_window === undefined ? {} : { conversion_window, conversion_window_unit: conversion_window_unit ?? "day" };
  const windowDays = showDays(storedWindow);
  if ((kind !== undefined && kind !== "ExperimentMetric") || windowDays === null) return { ...blank, document };
  const found = { ...blank, windowDays, storedWindow };
  const of = source as Document | undefined;
  if (metric_type === "funnel" && Array.isArray(series)) return { ...found, kind: "funnel", steps: series.map(readStep) };
  if (metric_type === "mean" && of) return { ...found, kind: of.math === "sum" ? "sum" : "count", property: String(of.math_property ?? ""), steps: [readStep(of)] };
  const parts = [numerator, denominator] as Document[];
  if (metric_type === "ratio" && parts.every((each) => each && (each.math ?? "total") === "total")) return { ...found, kind: "ratio", steps: parts.map(readStep) };
  return { ...blank, document };
}

const writeStep = (step: MetricStep, more: Document = {}): Document => ({ ...step.rest, kind: "EventsNode", event: step.event, ...more });

export function writeMetric(metric: DraftMetric): Document {
  if (metric.document) return metric.document;
  const days = Number(metric.windowDays);
  const common: Document = {
    ...metric.rest,
    kind: "ExperimentMetric",
    ...(metric.name.trim() ? { name: metric.name.trim() } : {}),
    goal: metric.isLowerBetter ? "decrease" : "increase",
    ...(metric.windowDays === showDays(metric.storedWindow) ? metric.storedWindow : days > 0 ? { conversion_window: days, conversion_window_unit: "day" } : {}),
  };
  const [first, second] = metric.steps;
  if (metric.kind === "funnel") return { ...common, metric_type: "funnel", series: metric.steps.map((each) => writeStep(each)) };
  if (metric.kind === "ratio") return { ...common, metric_type: "ratio", numerator: writeStep(first ?? newStep()), denominator: writeStep(second ?? newStep()) };
  return { ...common, metric_type: "mean", source: writeStep(first ?? newStep(), metric.kind === "sum" ? { math: "sum", math_property: metric.property } : {}) };
}

/** Change the kind, with as many events as it needs. */
export function setKind(metric: DraftMetric, kind: MetricKind): DraftMetric {
  const steps = kind === "funnel" ? metric.steps : metric.steps.slice(0, kind === "ratio" ? 2 : 1);
  while (steps.length < (kind === "ratio" ? 2 : 1)) steps.push(newStep());
  return { ...metric, kind, steps };
}

export function findMetricProblem(metrics: DraftMetric[]): string | undefined {
  for (const metric of metrics) {
    if (metric.document) continue;
    if (metric.steps.some((each) => !each.event.trim())) return "Every metric needs its events.";
    if (metric.kind === "sum" && !metric.property.trim()) return "A sum needs the property that is summed.";
    if (metric.windowDays && !(Number(metric.windowDays) > 0)) return "The window must be a number of days above 0.";
  }
  return undefined;
}
