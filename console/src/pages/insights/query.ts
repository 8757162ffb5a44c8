// The query of an insight as the editor changes it. Pure: the draft is the query itself, so that fields that the editor does not
// know stay as they are.
import type { PropertyFilter } from "../../api/types";
import { t } from "../../lib/text";

export type Kind = "TrendsQuery" | "FunnelsQuery" | "RetentionQuery" | "PathsQuery";

/** One series: the events with a name, those of an action, or all. */
export interface Series {
  kind: "EventsNode" | "ActionsNode";
  event?: string | null;
  id?: number;
  name?: string;
  custom_name?: string;
  math?: string;
  math_property?: string;
  math_hogql?: string;
  properties?: PropertyFilter[];
  [name: string]: unknown;
}

/** The event or action of a retention. */
export interface Entity {
  id?: string | number | null;
  type?: "events" | "actions";
  name?: string;
  [name: string]: unknown;
}

export interface Breakdown {
  breakdown?: string | number | (string | number)[] | null;
  breakdown_type?: string;
  breakdowns?: { property: string; type?: string }[];
  breakdown_limit?: number;
  [name: string]: unknown;
}

export interface Source {
  kind: string;
  series?: Series[];
  interval?: string;
  dateRange?: { date_from?: string | null; date_to?: string | null; [name: string]: unknown };
  properties?: unknown;
  filterTestAccounts?: boolean;
  breakdownFilter?: Breakdown | null;
  compareFilter?: { compare?: boolean; compare_to?: string | null };
  trendsFilter?: { display?: string; formula?: string; smoothingIntervals?: number; [name: string]: unknown };
  funnelsFilter?: {
    funnelVizType?: string;
    funnelOrderType?: string;
    funnelWindowInterval?: number;
    funnelWindowIntervalUnit?: string;
    [name: string]: unknown;
  };
  retentionFilter?: {
    period?: string;
    totalIntervals?: number;
    retentionType?: string;
    targetEntity?: Entity;
    returningEntity?: Entity;
    [name: string]: unknown;
  };
  pathsFilter?: {
    includeEventTypes?: string[];
    startPoint?: string;
    endPoint?: string;
    stepLimit?: number;
    edgeLimit?: number;
    [name: string]: unknown;
  };
  query?: string;
  [name: string]: unknown;
}

export const KINDS: { value: Kind; label: string }[] = [
  { value: "TrendsQuery", label: t("Trends") },
  { value: "FunnelsQuery", label: t("Funnel") },
  { value: "RetentionQuery", label: t("Retention") },
  { value: "PathsQuery", label: t("Paths") },
];

export const DISPLAYS = [
  { value: "ActionsLineGraph", label: t("Lines") },
  { value: "ActionsAreaGraph", label: t("Stacked areas") },
  { value: "ActionsBar", label: t("Stacked bars") },
  { value: "ActionsLineGraphCumulative", label: t("Running total") },
  { value: "ActionsBarValue", label: t("Bars of totals") },
  { value: "BoldNumber", label: t("Number") },
  { value: "ActionsTable", label: t("Table") },
];
/** Displays with one number for each series instead of one for each interval. */
export const TOTALS = ["ActionsTable", "ActionsPie", "ActionsBarValue", "WorldMap", "BoldNumber", "CalendarHeatmap"];

export const MATHS: { value: string; label: string; needs?: "property" | "hogql" }[] = [
  { value: "total", label: t("Count") },
  { value: "dau", label: t("Unique persons") },
  { value: "weekly_active", label: t("Active in 7 days") },
  { value: "monthly_active", label: t("Active in 30 days") },
  { value: "unique_session", label: t("Unique sessions") },
  { value: "first_time_for_user", label: t("First time for a person") },
  { value: "sum", label: t("Sum of"), needs: "property" },
  { value: "avg", label: t("Average of"), needs: "property" },
  { value: "median", label: t("Median of"), needs: "property" },
  { value: "min", label: t("Minimum of"), needs: "property" },
  { value: "max", label: t("Maximum of"), needs: "property" },
  { value: "p90", label: t("90th percentile of"), needs: "property" },
  { value: "p95", label: t("95th percentile of"), needs: "property" },
  { value: "p99", label: t("99th percentile of"), needs: "property" },
  { value: "avg_count_per_actor", label: t("Average per person") },
  { value: "median_count_per_actor", label: t("Median per person") },
  { value: "max_count_per_actor", label: t("Maximum per person") },
  { value: "hogql", label: t("HogQL expression"), needs: "hogql" },
];

export const RANGES = [
  { value: "-24h", label: t("Last 24 hours") },
  { value: "-7d", label: t("Last 7 days") },
  { value: "-14d", label: t("Last 14 days") },
  { value: "-30d", label: t("Last 30 days") },
  { value: "-90d", label: t("Last 90 days") },
  { value: "-180d", label: t("Last 180 days") },
  { value: "-1y", label: t("Last year") },
  { value: "mStart", label: t("This month") },
  { value: "yStart", label: t("This year") },
  { value: "all", label: t("All time") },
];
export const INTERVALS = ["minute", "hour", "day", "week", "month"];
export const DEFAULT_RANGE = "-30d";

export function newSource(kind: Kind = "TrendsQuery"): Source {
  return changeKind({ kind: "TrendsQuery", dateRange: { date_from: DEFAULT_RANGE }, series: [{ kind: "EventsNode", event: null, math: "total" }] }, kind);
}

const toEntity = (series: Series | undefined): Entity =>
  series?.kind === "ActionsNode"
    ? { id: series.id ?? null, type: "actions", ...(series.name ? { name: series.name } : {}) }
    : { id: series?.event ?? "$pageview", type: "events", name: series?.event ?? "$pageview" };

export const toSeries = (entity: Entity | undefined): Series =>
  entity?.type === "actions"
    ? { kind: "ActionsNode", id: Number(entity.id), ...(entity.name ? { name: entity.name } : {}) }
    : { kind: "EventsNode", event: entity?.id === undefined || entity.id === null ? null : String(entity.id) };

/** Return a query of another kind with what both kinds have: events, dates, filters, breakdown. */
export function changeKind(source: Source, kind: Kind): Source {
  const series = source.series ?? [toSeries(source.retentionFilter?.targetEntity)];
  const common: Source = {
    kind,
    ...(source.dateRange ? { dateRange: source.dateRange } : {}),
    ...(source.properties ? { properties: source.properties } : {}),
    ...(source.filterTestAccounts ? { filterTestAccounts: true } : {}),
  };
  const breakdown = source.breakdownFilter ? { breakdownFilter: source.breakdownFilter } : {};
  if (kind === "TrendsQuery") return { ...common, ...breakdown, series: series.map((each) => ({ math: "total", ...each })), interval: source.interval ?? "day", trendsFilter: { display: "ActionsLineGraph" } };
  if (kind === "FunnelsQuery") {
    const steps = series.map(({ kind, event, id, name, properties }) => ({ kind, ...(kind === "ActionsNode" ? { id: id!, name: name ?? "" } : { event: event ?? null }), ...(properties ? { properties } : {}) }) as Series);
    return { ...common, ...breakdown, series: steps, funnelsFilter: { funnelVizType: "steps", funnelOrderType: "ordered", funnelWindowInterval: 14, funnelWindowIntervalUnit: "day" } };
  }
  if (kind === "RetentionQuery")
    return { ...common, retentionFilter: { period: "Day", totalIntervals: 8, retentionType: "retention_first_time", targetEntity: toEntity(series[0]), returningEntity: toEntity(series[1] ?? series[0]) } };
  return { ...common, pathsFilter: { includeEventTypes: ["$pageview", "custom_event"], stepLimit: 5, edgeLimit: 30 } };
}

/** Return the query that a saved node shows. */
export function unwrap(query: Record<string, unknown>): Source {
  return (typeof query.source === "object" && query.source ? query.source : query) as Source;
}

export function wrap(source: Source): Record<string, unknown> {
  return source.kind === "HogQLQuery" ? { kind: "DataVisualizationNode", source } : { kind: "InsightVizNode", source };
}

/** Return the filters as a list, null if they are nested and only HogQL or the API can change them. */
export function listFilters(properties: unknown): PropertyFilter[] | null {
  if (!properties) return [];
  if (Array.isArray(properties)) return properties as PropertyFilter[];
  const group = properties as { type?: string; values?: unknown[] };
  if (group.type !== "AND" || !Array.isArray(group.values)) return null;
  const lists = group.values.map((each) => ("key" in (each as object) ? [each as PropertyFilter] : listFilters(each)));
  return lists.some((each) => each === null) ? null : (lists as PropertyFilter[][]).flat();
}

/** Leave out filters that are not complete, which the service would refuse. */
export function completeFilters(properties: unknown): unknown {
  if (!Array.isArray(properties)) return properties;
  return (properties as PropertyFilter[]).filter(
    (each) => each.key !== "" && (["is_set", "is_not_set"].includes(each.operator ?? "") || (Array.isArray(each.value) ? each.value.length > 0 : each.value !== "" && each.value !== undefined && each.value !== null)),
  );
}

/** Return the query to run: the draft without what is not complete yet. */
export function toRunnable(source: Source): Source {
  const series = source.series?.map((each) => ({ ...each, ...(each.properties ? { properties: completeFilters(each.properties) as PropertyFilter[] } : {}) }));
  const breakdown = source.breakdownFilter;
  const { breakdownFilter: _, ...rest } = source;
  return {
    ...rest,
    ...(series ? { series } : {}),
    ...(source.properties ? { properties: completeFilters(source.properties) } : {}),
    ...(breakdown && (breakdown.breakdown || breakdown.breakdowns?.length) ? { breakdownFilter: breakdown } : {}),
  };
}

/** Write a value with the names of objects in order: a database may return them in another one. */
function write(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(write);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, each]) => [name, write(each)]));
}

export const isSame = (one: Source, other: Source): boolean => JSON.stringify(write(toRunnable(one))) === JSON.stringify(write(toRunnable(other)));

export function isTotal(source: Source): boolean {
  return TOTALS.includes(source.trendsFilter?.display ?? "");
}

/** Return the name of a saved insight, or in short what it shows. */
export const nameInsight = (insight: { name?: string | null; derived_name?: string | null; query: Record<string, unknown> }): string => insight.name || insight.derived_name || describeSource(unwrap(insight.query));

/** Say in short what an insight shows, for one without a name. */
export function describeSource(source: Source): string {
  const names = (source.series ?? []).map((each) => each.custom_name || each.event || each.name || t("All events"));
  switch (source.kind) {
    case "TrendsQuery":
      return names.slice(0, 3).join(", ") || t("Trends");
    case "FunnelsQuery":
      return names.join(" → ") || t("Funnel");
    case "RetentionQuery":
      return t("Retention of {event}", { event: String(source.retentionFilter?.targetEntity?.name ?? source.retentionFilter?.targetEntity?.id ?? "$pageview") });
    case "PathsQuery":
      return t("Paths");
    case "HogQLQuery":
      return (source.query ?? "").replace(/\s+/g, " ").slice(0, 80);
    default:
      return source.kind;
  }
}

export function describeKind(source: Source): string {
  return KINDS.find((each) => each.value === source.kind)?.label ?? (source.kind === "HogQLQuery" ? t("SQL") : source.kind);
}
