// Icons of 16 by 16, drawn with lines.
const PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5V13h-4V9.5h-3V13h-4z",
  flag: "M4 14V2.5m0 .5h8l-2 3 2 3H4",
  person: "M8 8a2.75 2.75 0 1 0 0-5.5A2.75 2.75 0 0 0 8 8Zm-5.5 6a5.5 5.5 0 0 1 11 0",
  live: "M8 8h.01M5.2 10.8a4 4 0 0 1 0-5.6m5.6 0a4 4 0 0 1 0 5.6M3 13A7 7 0 0 1 3 3m10 0a7 7 0 0 1 0 10",
  list: "M2.5 4h11m-11 4h11m-11 4h7",
  query: "M3 4.5 6.5 8 3 11.5M8.5 12H13",
  pipe: "M2.5 4.5h4a2 2 0 0 1 2 2v3a2 2 0 0 0 2 2h3m-2.5-2.500 2.500 2.500-2.500 2.500M2.500 2.500v4",
  warning: "M8 2.500 14.500 13.500h-13zM8 6.500v3.500M8 12h.01",
  history: "M2.5 8A5.5 5.5 0 1 0 4 4.2L2.5 5.5m0-3v3h3M8 5v3l2 1.5",
  book: "M3 13V3.5A1.5 1.5 0 0 1 4.5 2H13v10.5H4.25A1.25 1.25 0 0 0 3 13.75c0 .4.4.75.9.75H13",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm7 2-3.4-3.4",
  plus: "M8 3v10M3 8h10",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  top: "M3 2.5h10M8 14V6M4.5 9.5 8 6l3.5 3.5",
  copy: "M5.5 5.5v-3h8v8h-3m-8-5h8v8h-8z",
  trash: "M2.5 4h11M6 4V2.5h4V4M4 4l.6 9.5h6.8L12 4",
  close: "m4 4 8 8m0-8-8 8",
  menu: "M2.5 4.5h11m-11 3.5h11m-11 3.5h11",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  chevrons: "m5 6 3-3 3 3M5 10l3 3 3-3",
  left: "M10 3 5 8l5 5",
  right: "m6 3 5 5-5 5",
  check: "m3 8.5 3.5 3.5L13 4.5",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1m8 8 1 1m0-10-1 1M4 12l-1 1",
  help: "M6 6a2 2 0 1 1 2.700 1.900C8.200 8.100 8 8.500 8 9v.500M8 12h.01M8 14.500a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13Z",
  logout: "M6 2.500H3v11h3M7 8h7m-3-3 3 3-3 3",
  grip: "M6 3.500h.01M6 8h.01M6 12.500h.01M10 3.500h.01M10 8h.01M10 12.500h.01",
  pause: "M5.500 3v10m5-10v10",
  play: "m4.500 3 8 5-8 5z",
  dashboard: "M2.500 2.500h5v6h-5zm7 0h4v3h-4zm0 5h4v6h-4zm-7 3h5v3h-5z",
  insight: "M2.500 13.500h11M4.500 11V7m3.500 4V3m3.500 8V6",
  experiment: "M6 2.500h4m-3 0V6.500L3.500 12.500a1 1 0 0 0 .9 1.500h7.200a1 1 0 0 0 .9-1.500L9 6.500v-4M5 10h6",
  early: "M8 2.500l1.600 3.600 3.900.400-2.900 2.600.800 3.900L8 11l-3.400 2 .800-3.900L2.500 6.500l3.900-.400z",
  survey: "M3 2.500h10v8H8L5 13.500v-3H3zM5.500 5.500h5m-5 2.500h3",
  cohort: "M6 7.500a2.250 2.250 0 1 0 0-4.500 2.250 2.250 0 0 0 0 4.500Zm-4.500 6a4.500 4.500 0 0 1 9 0M10.500 3.200a2.250 2.250 0 0 1 0 4.100m1.500 2.100a4.500 4.500 0 0 1 2.500 4.100",
  group: "M2.500 13.500v-9h5v9m0-7h6v7m-12 0h13M5 7h.01M5 10h.01M10.500 9h.01M10.500 11.500h.01",
  pipeline: "M4 6a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3Zm8 7a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3ZM5.500 4.500h4a2 2 0 0 1 0 4h-3a2 2 0 0 0 0 3h4",
  settings: "M2.5 4.5h6m3.500 0h1.500M2.500 11.500H4m3.500 0h6M10.250 6.250a1.750 1.750 0 1 0 0-3.500 1.750 1.750 0 0 0 0 3.500ZM5.750 13.250a1.750 1.750 0 1 0 0-3.500 1.750 1.750 0 0 0 0 3.500Z",
  system: "M2.500 3h11v4h-11zm0 6h11v4h-11zM5 5h.01M5 11h.01",
  chart: "M2.500 13.500h11M4 11V8m4 3V3.500m4 7.500V6",
  board: "M2.500 2.500h5v6h-5zm7.500 0h3.500v3.500H10zm0 6h3.500v5H10zm-7.500 2.500h5v2.500h-5z",
  star: "m8 2 1.800 3.800 4.200.500-3.100 2.900.800 4.100L8 11.300l-3.700 2 .800-4.100L2 6.300l4.200-.500z",
  tag: "M2.500 2.500h5.500l5.500 5.500-5.500 5.500L2.500 8zM5.500 5.500h.01",
  pointer: "m3 3 3.500 9.500L8 8.500l4.500-2z",
  refresh: "M13.500 8A5.500 5.500 0 1 1 12 4.200l1.500 1.300m0-3v3h-3",
  download: "M8 2.500v8M4.500 7 8 10.500 11.500 7M3 13.500h10",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width={name === "more" || name === "grip" ? 2 : 1.5}
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo() {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <rect width="16" height="16" rx="4" fill="var(--accent)" />
      <path d="M4 12V6m4 6V4m4 8V7" stroke="var(--on-accent)" stroke-width="2" stroke-linecap="round" />
    </svg>
  );
}
