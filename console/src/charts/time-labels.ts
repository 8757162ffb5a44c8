// Starts of intervals as the service writes them ("2026-11-03", "2026-11-03 14:00:00") and as people read them. Pure: they are local
// times of the project, so no time zone of the browser changes them.
import { formatNumber } from "../lib/text";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

function split(day: string): { year: number; month: number; date: number; time: string } {
  const [year, month, date] = day.slice(0, 10).split("-").map(Number);
  return { year: year ?? 0, month: month ?? 1, date: date ?? 1, time: day.slice(11, 16) };
}

/** The label below the axis. */
export function shortDay(day: string, interval = "day"): string {
  const { year, month, date, time } = split(day);
  if (interval === "month") return `${MONTHS[month - 1]} ${year}`;
  const name = `${date} ${MONTHS[month - 1]}`;
  return time && time !== "00:00" ? time : name;
}

/** The whole label, in tips and for screen readers. */
export function longDay(day: string, interval = "day"): string {
  const { year, month, date, time } = split(day);
  if (interval === "month") return `${MONTHS[month - 1]} ${year}`;
  const weekday = WEEKDAYS[new Date(Date.UTC(year, month - 1, date)).getUTCDay()];
  return `${weekday} ${date} ${MONTHS[month - 1]} ${year}${time ? ` ${time}` : ""}`;
}

/** A number of few characters for an axis: 12,500 is 12.5k. */
export function shortNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${formatNumber(Math.round(value / 1e8) / 10)}B`;
  if (size >= 1e6) return `${formatNumber(Math.round(value / 1e5) / 10)}M`;
  if (size >= 1e4) return `${formatNumber(Math.round(value / 100) / 10)}k`;
  return formatNumber(Math.round(value * 1000) / 1000);
}

/** Return the number of the interval that contains a time, -1 if none does. `days` ascend. */
export function findInterval(days: string[], moment: string): number {
  const text = moment.slice(0, 19).replace("T", " ");
  let found = -1;
  for (const [index, day] of days.entries()) if (day <= text) found = index;
  const isAfter = found === days.length - 1 && days.length > 1 && isBeyond(days, text);
  return isAfter ? -1 : found;
}

function isBeyond(days: string[], text: string): boolean {
  const at = (day: string) => Date.parse(`${day.slice(0, 10)}T${day.slice(11, 19) || "00:00:00"}Z`);
  const last = at(days[days.length - 1]!);
  return at(text) >= last + (last - at(days[days.length - 2]!)) * 1.2;
}
