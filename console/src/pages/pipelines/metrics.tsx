// What a record did over time: a chart, its table, and a download.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import { formatNumber, t } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, Choices } from "../../ui/controls";
import { Await, Empty } from "../../ui/states";
import { type Bucket, fillBuckets, type RecordProps } from "./model";

const EVERY_MS = 10_000;
const SPANS = {
  "24": { hours: 24, step: 1, label: t("24 hours") },
  "168": { hours: 168, step: 3, label: t("7 days") },
  "720": { hours: 720, step: 24, label: t("30 days") },
} as const;
type SpanName = keyof typeof SPANS;

interface Series {
  name: string;
  label: string;
  color: string;
}

const DELIVERIES: Series[] = [
  { name: "delivered", label: t("Delivered"), color: "var(--series-1)" },
  { name: "retried", label: t("Failed, retried"), color: "var(--series-3)" },
  { name: "dead", label: t("Dead letters"), color: "var(--series-5)" },
];
const TRANSFORMATIONS: Series[] = [
  { name: "changed", label: t("Changed"), color: "var(--series-1)" },
  { name: "dropped", label: t("Dropped"), color: "var(--series-3)" },
  { name: "failed", label: t("Failed"), color: "var(--series-5)" },
];

interface Hour {
  hour: string;
  latency_ms?: { p50: number | null; p95: number | null; p99: number | null };
  [name: string]: unknown;
}

export function MetricsPanel({ family, record, path }: RecordProps) {
  const { api } = useProject();
  const [url, change] = useUrlState();
  const name: SpanName = (url.get("hours") ?? "") in SPANS ? (url.get("hours") as SpanName) : "24";
  const span = SPANS[name];
  const series = family.name === "transformations" ? TRANSFORMATIONS : DELIVERIES;
  const metrics = useQuery({
    queryKey: ["pipelines", api, path, "metrics", name],
    queryFn: ({ signal }) => get<{ hours: Hour[] }>(`${path}/metrics/`, { hours: span.hours }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: EVERY_MS,
  });
  return (
    <section class="panel" aria-label={t("Over time")}>
      <div class="head">
        <h2>{t("Over time")}</h2>
        <Choices
          label={t("Period")}
          value={name}
          choices={Object.entries(SPANS).map(([value, each]) => ({ value: value as SpanName, label: each.label }))}
          onChange={(hours) => change({ hours: hours === "24" ? null : hours })}
        />
      </div>
      <div class="body stack">
        <Await query={metrics} rows={4}>
          {({ hours }) => {
            const buckets = fillBuckets(
              hours,
              series.map((each) => each.name),
              span,
              Date.now(),
            );
            const totals = series.map((_, index) => buckets.reduce((sum, each) => sum + each.values[index]!, 0));
            if (totals.every((each) => each === 0)) return <Empty title={t("Nothing happened in this time")}>{t("Counts appear here within a second of the first event.")}</Empty>;
            return (
              <>
                <ul class="row legend">
                  {series.map((each, index) => (
                    <li key={each.name} class="row tight">
                      <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
                        <rect width="10" height="10" rx="2" fill={each.color} />
                      </svg>
                      {each.label} <strong>{formatNumber(totals[index]!)}</strong>
                    </li>
                  ))}
                  <Latency hours={hours} />
                </ul>
                <Bars buckets={buckets} series={series} step={span.step} />
                <Twin buckets={buckets} series={series} step={span.step} file={`${record.name || "pipeline"}.csv`} />
              </>
            );
          }}
        </Await>
      </div>
    </section>
  );
}

/** The response times of the newest hour that has some. */
function Latency({ hours }: { hours: Hour[] }) {
  const last = [...hours].reverse().find((each) => each.latency_ms?.p50 != null)?.latency_ms;
  if (!last) return null;
  const show = (value: number | null) => (value === null ? t("over 10 s") : t("at most {ms} ms", { ms: value }));
  return <li class="muted">{t("Response time of the last hour: half {p50}, 95 % {p95}", { p50: show(last.p50), p95: show(last.p95) })}</li>;
}

const showTime = (at: number, step: number): string =>
  new Intl.DateTimeFormat(undefined, step >= 24 ? { month: "short", day: "numeric" } : { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" }).format(at);

function Bars({ buckets, series, step }: { buckets: Bucket[]; series: Series[]; step: number }) {
  const most = Math.max(1, ...buckets.map((each) => each.values.reduce((sum, value) => sum + value, 0)));
  const width = 100 / buckets.length;
  const first = buckets[0]!;
  const last = buckets[buckets.length - 1]!;
  return (
    <div class="bars-chart">
      <span class="muted small top-label">{formatNumber(most)}</span>
      <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={t("Counts over time, at most {most}. The table below has the numbers.", { most })}>
        <line x1="0" x2="100" y1="39.900" y2="39.900" stroke="var(--line)" stroke-width="0.200" />
        {buckets.map((bucket, index) => {
          let top = 40;
          const text = `${showTime(bucket.at, step)}: ${series.map((each, at) => `${each.label} ${formatNumber(bucket.values[at]!)}`).join(", ")}`;
          return (
            <g key={bucket.at}>
              <title>{text}</title>
              <rect x={index * width} width={width} y={0} height={40} fill="transparent" />
              {bucket.values.map((value, at) => {
                const height = value ? Math.max(0.6, (value / most) * 38) : 0;
                top -= height;
                return <rect key={series[at]!.name} x={index * width + width * 0.1} width={width * 0.8} y={top} height={height} fill={series[at]!.color} />;
              })}
            </g>
          );
        })}
      </svg>
      <div class="row spread muted small">
        <span>{showTime(first.at, step)}</span>
        <span>{showTime(last.at, step)}</span>
      </div>
    </div>
  );
}

const quote = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function Twin({ buckets, series, step, file }: { buckets: Bucket[]; series: Series[]; step: number; file: string }) {
  const download = () => {
    const rows = [["time", ...series.map((each) => each.name)], ...buckets.map((each) => [new Date(each.at).toISOString(), ...each.values.map(String)])];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([rows.map((row) => row.map(quote).join(",")).join("\r\n")], { type: "text/csv" }));
    link.download = file;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <details>
      <summary class="muted small">{t("As a table")}</summary>
      <div class="stack s">
        <div class="row">
          <Button isSmall icon="download" onClick={download}>
            {t("Download CSV")}
          </Button>
        </div>
        <div class="virtual" tabIndex={0} role="region" aria-label={t("Counts over time")}>
          <table class="table">
            <thead>
              <tr>
                <th scope="col">{t("From")}</th>
                {series.map((each) => (
                  <th scope="col" class="num" key={each.name}>
                    {each.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {[...buckets].reverse().map((bucket) => (
                <tr key={bucket.at}>
                  <td>{showTime(bucket.at, step)}</td>
                  {bucket.values.map((value, index) => (
                    <td class="num" key={series[index]!.name}>
                      {formatNumber(value)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </details>
  );
}
