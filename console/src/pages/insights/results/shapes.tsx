// Results that are not lines over time: funnels, retention, paths, totals.
import { useEffect, useRef, useState } from "preact/hooks";
import { colorOf } from "../../../charts/colors";
import { longDay, shortDay, shortNumber } from "../../../charts/time-labels";
import { formatNumber, formatPercent, t, tn } from "../../../lib/text";
import { Value } from "../../../ui/show";
import type { Actors } from "./actors";
import type { Source } from "../query";
import { averageRetention, formatDuration, labelTrend, listFunnels, type PathEdge, type RetentionRow, share, showBreakdown, showStep, splitNode, type TrendResult } from "./results";

type Pick = ((actors: Actors) => void) | undefined;

export function Funnel({ results, onPick }: { results: unknown; onPick: Pick }) {
  const funnels = listFunnels(results);
  const steps = funnels[0]?.steps ?? [];
  const isSingle = funnels.length === 1 && !funnels[0]!.label;
  return (
    <ol class="funnel" aria-label={t("Steps")}>
      {steps.map((step, index) => (
        <li key={index} class="funnel-step">
          <div class="row spread">
            <strong>
              {index + 1}. <Value value={showStep(step)} maxChars={80} />
            </strong>
            {isSingle && index > 0 && step.median_conversion_time !== null && <span class="muted small">{t("median {time}", { time: formatDuration(step.median_conversion_time) })}</span>}
          </div>
          {funnels.map((funnel, number) => {
            const own = funnel.steps[index]!;
            const part = share(own.count, funnel.steps[0]!.count);
            const dropped = index ? funnel.steps[index - 1]!.count - own.count : 0;
            const about = { breakdown: funnel.label || undefined, value: own.breakdown_value };
            return (
              <div key={number} class={`funnel-bar ${isSingle ? "single" : ""}`}>
                {!isSingle && (
                  <span class="cut">
                    <Value value={funnel.label} maxChars={40} />
                  </span>
                )}
                <div class={`track ${isSingle ? "" : "thin"}`}>
                  <span class="fill" style={{ width: `${part}%`, background: colorOf(number) }} />
                </div>
                <span class="num">
                  <Pickable onPick={onPick} actors={{ kind: "funnel", step: index + 1, ...about, title: t("Reached {step}", { step: showStep(own) }) }}>
                    {formatNumber(own.count)}
                  </Pickable>{" "}
                  <span class="muted">{formatPercent(Math.round(part * 10) / 10)}</span>
                  {index > 0 && dropped > 0 && (
                    <span class="small muted" style={{ display: "block" }}>
                      <Pickable onPick={onPick} actors={{ kind: "funnel", step: -(index + 1), ...about, title: t("Did not reach {step}", { step: showStep(own) }) }}>
                        {tn(dropped, "{n} left", "{n} left")}
                      </Pickable>
                    </span>
                  )}
                </span>
              </div>
            );
          })}
        </li>
      ))}
    </ol>
  );
}

function Pickable({ actors, onPick, children }: { actors: Actors; onPick: Pick; children: preact.ComponentChildren }) {
  if (!onPick) return <>{children}</>;
  return (
    <button type="button" class="link" title={t("Show the persons")} onClick={() => onPick(actors)}>
      {children}
    </button>
  );
}

export function Retention({ rows, source, onPick }: { rows: RetentionRow[]; source: Source; onPick: Pick }) {
  const hasValues = rows.some((each) => (each.breakdown_value ?? null) !== null);
  const period = (source.retentionFilter?.period ?? "Day").toLowerCase();
  const labels = rows.reduce<string[]>((best, each) => (each.values.length > best.length ? each.values.map((value) => value.label) : best), []);
  const average = averageRetention(rows);
  const day = (text: string) => (period === "hour" ? text.slice(0, 16).replace("T", " ") : shortDay(text.slice(0, 10), period));
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={t("Retention")}>
      <table class="heat">
        <thead>
          <tr>
            {hasValues && <th scope="col">{t("Value")}</th>}
            <th scope="col">{t("Start")}</th>
            <th scope="col">{t("Persons")}</th>
            {labels.map((each) => (
              <th scope="col" key={each}>
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {!hasValues && (
            <tr>
              <th scope="row">{t("Average")}</th>
              <td />
              {average.map((part, gap) => (
                <Heat key={gap} part={part} />
              ))}
            </tr>
          )}
          {rows.map((row, index) => {
            const size = row.values[0]?.count ?? 0;
            return (
              <tr key={index}>
                {hasValues && (
                  <th scope="row">
                    <Value value={showBreakdown(row.breakdown_value)} maxChars={30} />
                  </th>
                )}
                <th scope="row" title={longDay(row.date.slice(0, 10), period)}>
                  {day(row.date)}
                </th>
                <td>
                  {onPick && size && !hasValues ? (
                    <Pickable onPick={onPick} actors={{ kind: "retention", interval: index, title: t("Started on {day}", { day: longDay(row.date.slice(0, 10), period) }) }}>
                      {formatNumber(size)}
                    </Pickable>
                  ) : (
                    formatNumber(size)
                  )}
                </td>
                {row.values.map((each, gap) => (
                  <Heat key={gap} part={size ? share(each.count, size) : null} title={tn(each.count, "{n} person", "{n} persons")} />
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** A cell that is darker for a larger share. */
function Heat({ part, title }: { part: number | null; title?: string }) {
  if (part === null) return <td class="muted">–</td>;
  // Above two thirds the text changes to the light color. Shades between would have too little contrast with both.
  const shade = part >= 60 ? 78 + (part - 60) * 0.55 : part * 0.55;
  return (
    <td class={`h ${part >= 60 ? "strong" : ""}`} style={{ "--heat": `${shade}%` } as never} title={title}>
      {formatPercent(Math.round(part * 10) / 10)}
    </td>
  );
}

interface Node {
  name: string;
  label: string;
  step: number;
  value: number;
  y: number;
  height: number;
  /** Where the next edge leaves and arrives. */
  out: number;
  in: number;
}
const MIN_WIDTH = 560;
const LABEL_PX = 175;
const NODE_PX = 10;
const GAP_PX = 16;

/** Place the nodes of paths in columns by step, the largest first. */
export function placeNodes(edges: PathEdge[], height: number): Map<string, Node> {
  const out = new Map<string, number>();
  const into = new Map<string, number>();
  for (const each of edges) {
    out.set(each.source, (out.get(each.source) ?? 0) + each.value);
    into.set(each.target, (into.get(each.target) ?? 0) + each.value);
  }
  const names = [...new Set([...out.keys(), ...into.keys()])];
  const nodes = names.map((name): Node => ({ name, ...splitNode(name), value: Math.max(out.get(name) ?? 0, into.get(name) ?? 0), y: 0, height: 0, out: 0, in: 0 }));
  const columns = new Map<number, Node[]>();
  for (const each of nodes) columns.set(each.step, [...(columns.get(each.step) ?? []), each]);
  const scale = Math.min(...[...columns.values()].map((column) => (height - GAP_PX * column.length) / Math.max(1, column.reduce((sum, each) => sum + each.value, 0))));
  for (const column of columns.values()) {
    let y = GAP_PX;
    for (const node of column.sort((a, b) => b.value - a.value)) {
      Object.assign(node, { y, height: Math.max(2, node.value * scale) });
      y += node.height + GAP_PX;
    }
  }
  return new Map(nodes.map((each) => [each.name, each]));
}

export function Paths({ edges, height = 420 }: { edges: PathEdge[]; height?: number }) {
  const nodes = placeNodes(edges, height);
  const last = Math.max(2, ...[...nodes.values()].map((each) => each.step));
  const place = useRef<HTMLDivElement>(null);
  const [shownWidth, setWidth] = useState(0);
  // Each column has the space for its labels; what does not fit is scrolled.
  const width = Math.max(MIN_WIDTH, shownWidth, last * LABEL_PX);
  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(place.current?.clientWidth ?? 0));
    if (place.current) observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  const x = (step: number) => ((step - 1) / (last - 1)) * (width - LABEL_PX);
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={t("Paths")} ref={place}>
      <svg class="paths" width={width} height={height} role="img" aria-label={t("Paths: the table below has the same figures")}>
        {edges.map((edge) => {
          const from = nodes.get(edge.source)!;
          const to = nodes.get(edge.target)!;
          const width = Math.max(1, (edge.value / from.value) * from.height);
          const y1 = from.y + from.out + width / 2;
          const y2 = to.y + to.in + width / 2;
          from.out += width;
          to.in += width;
          const [x1, x2] = [x(from.step) + NODE_PX, x(to.step)];
          const middle = (x1 + x2) / 2;
          return (
            <path key={`${edge.source}>${edge.target}`} class="edge" d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`} stroke-width={width}>
              <title>{`${from.label} → ${to.label}: ${formatNumber(edge.value)}`}</title>
            </path>
          );
        })}
        {[...nodes.values()].map((node) => (
          <g key={node.name}>
            <rect x={x(node.step)} y={node.y} width={NODE_PX} height={node.height} rx={2} />
            <text x={x(node.step) + NODE_PX + 4} y={node.y + Math.min(node.height / 2, 12) + 4}>
              {`${shorten(node.label)} · ${shortNumber(node.value)}`}
              <title>{node.label}</title>
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}

/** Cut a long name in its middle: the ends of addresses differ. */
const shorten = (text: string): string => {
  const page = /^https?:\/\/[^/]+(.*)$/.exec(text);
  const plain = page ? page[1] || "/" : text;
  return plain.length > 24 ? `${plain.slice(0, 10)}…${plain.slice(-12)}` : plain;
};

export function Totals({ results, source, onPick }: { results: TrendResult[]; source: Source; onPick: Pick }) {
  const shown = results.filter((each) => each.compare_label !== "previous");
  const before = results.filter((each) => each.compare_label === "previous");
  const value = (each: TrendResult | undefined) => each?.aggregated_value ?? 0;
  if (source.trendsFilter?.display === "BoldNumber" && shown.length <= 1) {
    const now = value(shown[0]);
    const change = before.length ? share(now - value(before[0]), value(before[0])) : null;
    return (
      <div>
        <p class="big-number">{formatNumber(Math.round(now * 100) / 100)}</p>
        {change !== null && (
          <p class="muted">
            {value(before[0]) ? t("{sign}{change} compared with {before} before", { sign: change > 0 ? "+" : "", change: formatPercent(Math.round(change * 10) / 10), before: formatNumber(value(before[0])) }) : t("0 before")}
          </p>
        )}
      </div>
    );
  }
  const most = Math.max(1, ...results.map(value));
  return (
    <div class="bars">
      {results.map((each, index) => (
        <div class="hbar" key={index}>
          <span class="cut" title={labelTrend(each, source)}>
            <Value value={labelTrend(each, source)} maxChars={60} />
          </span>
          <div class="track">
            <span class="fill" style={{ width: `${share(value(each), most)}%`, background: colorOf(shown.length > 1 && !source.breakdownFilter ? index : 1), opacity: each.compare_label === "previous" ? 0.5 : 1 }} />
          </div>
          <span class="num">
            <Pickable onPick={source.trendsFilter?.formula ? undefined : onPick} actors={{ kind: "trend", series: each.action?.order ?? 0, value: each.breakdown_value, isPrevious: each.compare_label === "previous", title: labelTrend(each, source) }}>
              {formatNumber(Math.round(value(each) * 100) / 100)}
            </Pickable>
          </span>
        </div>
      ))}
    </div>
  );
}
