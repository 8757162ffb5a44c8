// Every text that people read goes through here, so that a translation replaces one table.

const plurals = new Intl.PluralRules("en");
type Values = Record<string, string | number>;

/** Return a text with its `{names}` filled in. */
export function t(text: string, values?: Values): string {
  if (!values) return text;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? formatNumber(value) : value;
  });
}

/** Return the text for a count; `{n}` is the count. */
export function tn(count: number, one: string, many: string, values?: Values): string {
  return t(plurals.select(count) === "one" ? one : many, { ...values, n: count });
}

const numbers = new Intl.NumberFormat(undefined);
const percents = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const tenths = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });

export const formatNumber = (value: number): string => numbers.format(value);
export const formatPercent = (value: number): string => `${percents.format(value)} %`;
export const formatDate = (iso: string): string => dates.format(new Date(iso));

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Return a size in bytes, such as "1.5 GiB": in the units of settings and checks. */
export function formatBytes(bytes: number): string {
  const unit = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(bytes, 1)) / 10)));
  return `${tenths.format(bytes / 1024 ** unit)} ${SIZES[unit]}`;
}

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** Return how long ago a time is, such as "3 hr. ago". */
export function formatAgo(iso: string, now: number = Date.now()): string {
  const seconds = (new Date(iso).getTime() - now) / 1000;
  for (const [unit, length] of UNITS)
    if (Math.abs(seconds) >= length) return relative.format(Math.round(seconds / length), unit);
  return relative.format(Math.round(seconds), "second");
}

// Characters that change how the text around them reads, or that no one sees.
const STRANGE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Split text into plain parts and the codes of characters that must be made visible. */
export function splitStrange(text: string): { text: string; isCode: boolean }[] {
  const parts: { text: string; isCode: boolean }[] = [];
  let end = 0;
  for (const match of text.matchAll(STRANGE)) {
    if (match.index > end) parts.push({ text: text.slice(end, match.index), isCode: false });
    const code = match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push({ text: `U+${code}`, isCode: true });
    end = match.index + 1;
  }
  if (end < text.length) parts.push({ text: text.slice(end), isCode: false });
  return parts;
}

/** Return a value as people read it: texts as they are, everything else as JSON. */
export function showValue(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === undefined) return "";
  return JSON.stringify(value) ?? "";
}
