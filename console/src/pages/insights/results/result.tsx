// A result of an insight: the chart that its query asks for, and a table with the same figures.
import { lazy, Suspense } from "preact/compat";
import { useMemo, useState } from "preact/hooks";
import type { Mark } from "../../../charts/time-chart";
import "../../../charts/charts.css";
import { formatNumber, t, tn } from "../../../lib/text";
import { Value } from "../../../ui/show";
import { Empty, Loading } from "../../../ui/states";
import { type Actors, ActorsDialog } from "./actors";
import { isTotal, type Source } from "../query";
import { formatDuration, listPastRetention, listTrends, type PathEdge, type RateResult, type ResultTable, type RetentionRow, showBreakdown, showCell, toTable, type TrendResult } from "./results";
import { Funnel, Paths, Retention, Totals } from "./shapes";

const TimeChart = lazy(() => import("../../../charts/time-chart").then((module) => ({ default: module.TimeChart })));
const MAX_ROWS = 500;
const HEIGHT = 320;

interface Props {
  label: string;
  source: Source;
  results: unknown;
  columns?: string[] | null;
  height?: number;
  marks?: Mark[];
  onMark?: (mark: Mark) => void;
  /** Whether the table is shown instead of the chart. */
  asTable?: boolean;
  /** Without the persons behind numbers, for visitors of a shared link. */
  isAnonymous?: boolean;
}

export function InsightResult(props: Props) {
  const { source, results, asTable } = props;
  const [actors, setActors] = useState<Actors | null>(null);
  const isEmpty = !results || (Array.isArray(results) && results.length === 0);
  if (isEmpty) return <Empty title={t("No events match")}>{t("The query ran, and nothing in this period matches it. Try a longer period or other filters.")}</Empty>;
  return (
    <>
      {asTable ? <Twin table={toTable(source, results, props.columns ?? [])} label={props.label} /> : <Shape {...props} onPick={props.isAnonymous ? undefined : setActors} />}
      {actors && <ActorsDialog source={source} actors={actors} onClose={() => setActors(null)} />}
    </>
  );
}

function Shape({ source, results, onPick, ...props }: Props & { onPick: OnPick }) {
  const display = source.trendsFilter?.display;
  if (source.kind === "TrendsQuery") {
    if (display === "ActionsTable") return <Twin table={toTable(source, results)} label={props.label} />;
    if (isTotal(source)) return <Totals results={results as TrendResult[]} source={source} onPick={onPick} />;
    return <Trend {...props} source={source} results={results as TrendResult[]} onPick={onPick} />;
  }
  if (source.kind === "FunnelsQuery") {
    const view = source.funnelsFilter?.funnelVizType ?? "steps";
    if (view === "steps") return <Funnel results={results} onPick={onPick} />;
    if (view === "trends") return <Rates {...props} source={source} results={results as RateResult[]} />;
    return <Times {...props} results={results as { bins: [number, number][]; average_conversion_time: number }} />;
  }
  if (source.kind === "RetentionQuery") return <Retention rows={listPastRetention(results as RetentionRow[])} source={source} onPick={onPick} />;
  if (source.kind === "PathsQuery") return <Paths edges={results as PathEdge[]} height={props.height ?? 420} />;
  return <Twin table={toTable(source, results, props.columns ?? [])} label={props.label} />;
}

type OnPick = ((actors: Actors) => void) | undefined;
type ChartProps = Omit<Props, "source" | "results">;

/** As high as the chart will be, so that nothing below it moves when its code has arrived. */
function ChartPlace({ height = HEIGHT, hasLegend }: { height?: number | undefined; hasLegend: boolean }) {
  return (
    <div class="chart">
      <div style={{ minHeight: `${height}px` }}>
        <Loading />
      </div>
      {hasLegend && <div class="legend-place" />}
    </div>
  );
}

function Trend({ source, results, onPick, ...props }: ChartProps & { source: Source; results: TrendResult[]; onPick: OnPick }) {
  const display = source.trendsFilter?.display;
  const form = display === "ActionsAreaGraph" ? "area" : display?.includes("Bar") ? "bar" : "line";
  const series = useMemo(() => listTrends(results, source).filter((each) => form === "line" || !each.isPrevious), [results, source, form]);
  const days = useMemo(() => results.find((each) => each.compare_label !== "previous")?.days ?? results[0]?.days ?? [], [results]);
  const canPick = !!onPick && !source.trendsFilter?.formula && display !== "ActionsLineGraphCumulative";
  return (
    <Suspense fallback={<ChartPlace height={props.height} hasLegend={series.length > 1} />}>
      <TimeChart
        label={props.label}
        days={days}
        interval={source.interval ?? "day"}
        series={series}
        form={form}
        height={props.height ?? HEIGHT}
        {...(props.marks ? { marks: props.marks } : {})}
        {...(props.onMark ? { onMark: props.onMark } : {})}
        {...(canPick
          ? {
              onPick: (chosen, index) => {
                const result = results[chosen.index]!;
                onPick?.({ kind: "trend", series: result.action?.order ?? 0, day: days[index]!, value: result.breakdown_value, title: `${chosen.label}, ${days[index]}` });
              },
            }
          : {})}
      />
    </Suspense>
  );
}

function Rates({ source, results, ...props }: ChartProps & { source: Source; results: RateResult[] }) {
  const series = useMemo(
    () => results.map((each, index) => ({ label: each.breakdown_value === undefined ? t("Conversion") : showBreakdown(each.breakdown_value), values: each.data, color: index, isPrevious: false, index })),
    [results],
  );
  return (
    <Suspense fallback={<ChartPlace height={props.height} hasLegend={series.length > 1} />}>
      <TimeChart label={props.label} days={results[0]?.days ?? []} interval={source.interval ?? "day"} series={series} form="line" isPercent height={props.height ?? HEIGHT} {...(props.marks ? { marks: props.marks } : {})} {...(props.onMark ? { onMark: props.onMark } : {})} />
    </Suspense>
  );
}

/** How long conversions take, as bars. */
function Times({ results }: ChartProps & { results: { bins: [number, number][]; average_conversion_time: number | null } }) {
  const bins = results.bins ?? [];
  const most = Math.max(1, ...bins.map(([, count]) => count));
  return (
    <div class="stack">
      <p class="muted">{t("On average {time} from the first step to the last", { time: formatDuration(results.average_conversion_time) || "–" })}</p>
      <div class="bars">
        {bins.map(([from, count], index) => (
          <div class="hbar" key={index}>
            <span class="num">{t("from {time}", { time: formatDuration(from) })}</span>
            <div class="track">
              <span class="fill" style={{ width: `${(count / most) * 100}%`, background: "var(--chart-2)" }} />
            </div>
            <span class="num">{formatNumber(count)}</span>
          </div>
        ))}
      </div>
    </div>
  );
}

/** The same figures as a table. */
export function Twin({ table, label }: { table: ResultTable; label: string }) {
  const rows = table.rows.slice(0, MAX_ROWS);
  return (
    <div class="twin" tabIndex={0} role="region" aria-label={t("{label}, as a table", { label })}>
      <table class="table">
        <thead>
          <tr>
            {table.columns.map((name, index) => (
              <th scope="col" key={index} class={table.isNumber[index] ? "num" : ""}>
                <Value value={name} maxChars={50} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((value, column) => (
                <td key={column} class={table.isNumber[column] ? "num" : ""}>
                  {typeof value === "string" ? <Value value={value} maxChars={100} /> : showCell(value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > MAX_ROWS && <p class="muted small body">{tn(table.rows.length - MAX_ROWS, "{n} more row is in the download.", "{n} more rows are in the download.")}</p>}
    </div>
  );
}
