// A chart over time: lines, stacked areas or stacked bars, drawn by uPlot. Arrow keys move through the points, whose values are
// spoken; a table with the same figures belongs beside it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatNumber, t } from "../lib/text";
import type { TimeSeries } from "../pages/insights/results/results";
import { Value } from "../ui/show";
import { colorName, colorOf, dashOf, readColor, useThemeName } from "./colors";
import "./charts.css";
import { findInterval, longDay, shortDay, shortNumber } from "./time-labels";

export interface Mark {
  id: number;
  at: string;
  text: string;
}
interface Props {
  label: string;
  days: string[];
  interval?: string;
  series: TimeSeries[];
  form: "line" | "area" | "bar";
  height?: number;
  isPercent?: boolean;
  marks?: Mark[];
  onMark?: (mark: Mark) => void;
  /** Called with a series and the number of an interval. */
  onPick?: (series: TimeSeries, index: number) => void;
}
const FONT = "11px Inter, system-ui, sans-serif";
const TIP_ROWS = 8;

export function TimeChart(props: Props) {
  const { days, series, form, height = 320, interval = "day", isPercent } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hidden, setHidden] = useState<string[]>([]);
  const [at, setAt] = useState<number | null>(null);
  const [left, setLeft] = useState(0);
  // The interval that the keys have reached: a chart that is drawn anew, with newer data or in another size, goes back to it.
  const reached = useRef<number | null>(null);
  const [places, setPlaces] = useState<{ mark: Mark; left: number }[]>([]);
  const theme = useThemeName();
  const shown = series.filter((each) => !hidden.includes(each.label));
  const isStacked = form !== "line";
  const { data, order } = useMemo(() => arrange(days.length, shown, isStacked), [days, series, hidden, isStacked]);
  const show = (value: number | null | undefined) => (value === null || value === undefined ? "–" : `${formatNumber(Math.round(value * 100) / 100)}${isPercent ? " %" : ""}`);

  useEffect(() => {
    const host = place.current;
    if (!host) return;
    const text = readColor("--muted");
    const line = readColor("--line");
    const made = new uPlot(
      {
        width: Math.max(host.clientWidth, 120),
        height,
        padding: [16, 26, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
        scales: { x: { time: false, range: () => (form === "bar" ? [-0.5, days.length - 0.5] : [0, Math.max(days.length - 1, 1)]) }, y: { range: (_, min, max) => [Math.min(0, min), max > 0 ? max * 1.08 : 1] } },
        series: [{}, ...order.map((each) => styleSeries(each, form))],
        axes: [
          { stroke: text, font: FONT, grid: { show: false }, ticks: { stroke: line, width: 1, size: 4 }, gap: 4, size: 30, space: 76, incrs: [1, 2, 3, 5, 7, 10, 14, 30, 60, 90, 180, 365], values: (_, splits) => splits.map((each) => (Number.isInteger(each) && days[each] ? shortDay(days[each], interval) : "")) },
          { stroke: text, font: FONT, grid: { stroke: line, width: 1 }, ticks: { show: false }, gap: 6, space: 44, size: (_, values) => Math.max(28, ...(values ?? []).map((each) => each.length * 6.5 + 14)), values: (_, splits) => splits.map((each) => shortNumber(each) + (isPercent ? " %" : "")) },
        ],
        hooks: {
          setCursor: [
            (u) => {
              setAt(u.cursor.idx ?? null);
              setLeft((u.cursor.left ?? 0) + (u.over?.offsetLeft ?? 0));
            },
          ],
          draw: [(u) => setPlaces(drawMarks(u, props.marks ?? [], days))],
        },
      },
      data,
      host,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => {
      made.setSize({ width: Math.max(host.clientWidth, 120), height });
      if (reached.current !== null) made.setCursor({ left: made.valToPos(reached.current, "x"), top: 0 });
    });
    observer.observe(host);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [data, form, height, theme, interval, isPercent, props.marks]);

  const move = (index: number) => {
    const made = plot.current;
    if (!made) return;
    const to = Math.min(Math.max(index, 0), days.length - 1);
    reached.current = to;
    made.setCursor({ left: made.valToPos(to, "x"), top: 0 });
  };
  const press = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowLeft: (at ?? days.length) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: days.length - 1 };
    const to = steps[event.key];
    if (to !== undefined) {
      event.preventDefault();
      move(to);
    } else if (event.key === "Enter" && at !== null) {
      // Otherwise the same key would press the first button of the dialog that opens.
      event.preventDefault();
      pick();
    }
  };
  const pick = () => {
    const chosen = at === null ? undefined : [...shown].sort((a, b) => (b.values[at] ?? 0) - (a.values[at] ?? 0)).find((each) => !each.isPrevious);
    if (chosen && at !== null) props.onPick?.(chosen, at);
  };
  const spoken = at === null ? t("Use the arrow keys to read the values.") : `${longDay(days[at] ?? "", interval)}: ${shown.slice(0, 20).map((each) => `${each.label} ${show(each.values[at])}`).join(", ")}`;
  return (
    <figure class="chart">
      <div class="chart-area" style={{ minHeight: `${height}px` }}>
        <div
          ref={place}
          class={`plot ${props.onPick ? "pickable" : ""}`}
          tabIndex={0}
          role="slider"
          aria-label={props.label}
          aria-valuemin={0}
          aria-valuemax={Math.max(days.length - 1, 0)}
          aria-valuenow={at ?? 0}
          aria-valuetext={spoken}
          onKeyDown={press}
          onClick={pick}
          onBlur={() => {
            reached.current = null;
            plot.current?.setCursor({ left: -10, top: -10 });
          }}
        />
        {places.map(({ mark, left }) => (
          <button key={mark.id} type="button" class="mark" style={{ left: `${left}px` }} title={mark.text} aria-label={t("Note of {day}: {text}", { day: longDay(mark.at.slice(0, 10)), text: mark.text })} onClick={() => props.onMark?.(mark)} />
        ))}
        {at !== null && left > 0 && days[at] && (
          <div class={`tip ${left > (place.current?.clientWidth ?? 0) / 2 ? "before" : ""}`} style={{ left: `${left}px` }} aria-hidden="true">
            <strong>{longDay(days[at], interval)}</strong>
            {[...shown]
              .sort((a, b) => (b.values[at] ?? 0) - (a.values[at] ?? 0))
              .slice(0, TIP_ROWS)
              .map((each) => (
                <div key={each.index} class="row tight spread">
                  <span class="cut">
                    <i class={`swatch ${each.isPrevious ? "previous" : ""}`} style={{ background: colorOf(each.color) }} /> {each.label}
                  </span>
                  <span class="num">{show(each.values[at])}</span>
                </div>
              ))}
            {shown.length > TIP_ROWS && <span class="muted">{t("and {n} more", { n: shown.length - TIP_ROWS })}</span>}
          </div>
        )}
      </div>
      {series.length > 1 && <Legend series={series} hidden={hidden} onChange={setHidden} />}
    </figure>
  );
}

/** Return the columns to draw. Stacked series are sums of those below, and the highest is drawn first. */
function arrange(length: number, shown: TimeSeries[], isStacked: boolean): { data: uPlot.AlignedData; order: TimeSeries[] } {
  const x = Array.from({ length }, (_, index) => index);
  if (!isStacked) return { data: [x, ...shown.map((each) => x.map((index) => each.values[index] ?? null))], order: shown };
  const sums: number[] = x.map(() => 0);
  const current = shown.filter((each) => !each.isPrevious);
  const columns = current.map((each) => {
    for (const index of x) sums[index]! += each.values[index] ?? 0;
    return [...sums];
  });
  return { data: [x, ...columns.reverse()], order: [...current].reverse() };
}

function styleSeries(each: TimeSeries, form: Props["form"]): uPlot.Series {
  const color = readColor(colorName(each.color));
  if (form === "bar") return { stroke: color, fill: color, width: 0, paths: uPlot.paths.bars!({ size: [0.72, 56] }), points: { show: false } };
  const dash = each.isPrevious ? [3, 4] : dashOf(each.color);
  return {
    stroke: color,
    width: each.isPrevious ? 1.25 : 2,
    ...(dash.length ? { dash } : {}),
    ...(form === "area" ? { fill: color } : {}),
    ...(each.isPrevious ? { alpha: 0.75 } : {}),
    points: { show: (each.values.length < 2) as boolean },
  };
}

/** Draw a line at each note, and return where its button belongs. */
function drawMarks(u: uPlot, marks: Mark[], days: string[]): { mark: Mark; left: number }[] {
  const found = marks.map((mark) => ({ mark, index: findInterval(days, mark.at) })).filter((each) => each.index >= 0);
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = readColor("--faint");
  ctx.setLineDash([4, 4]);
  for (const { index } of found) {
    const x = Math.round(u.valToPos(index, "x", true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
  return found.map(({ mark, index }) => ({ mark, left: u.valToPos(index, "x") + (u.over?.offsetLeft ?? 0) }));
}

function Legend({ series, hidden, onChange }: { series: TimeSeries[]; hidden: string[]; onChange: (hidden: string[]) => void }) {
  return (
    <figcaption class="legend" role="group" aria-label={t("Series")}>
      {series.map((each) => {
        const isShown = !hidden.includes(each.label);
        return (
          <button key={each.index} type="button" aria-pressed={isShown} title={isShown ? t("Hide this series") : t("Show this series")} onClick={() => onChange(isShown ? [...hidden, each.label] : hidden.filter((name) => name !== each.label))}>
            <i class={`swatch ${each.isPrevious ? "previous" : ""}`} style={{ background: colorOf(each.color) }} />
            <span class="cut">
              <Value value={each.label} maxChars={60} />
            </span>
          </button>
        );
      })}
    </figcaption>
  );
}
