// Icons of 16 by 16, drawn with lines.
const PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5V13h-4V9.5h-3V13h-4z",
  flag: "M4 14V2.5m0 .5h8l-2 3 2 3H4",
  person: "M8 8a2.75 2.75 0 1 0 0-5.5A2.75 2.75 0 0 0 8 8Zm-5.5 6a5.5 5.5 0 0 1 11 0",
  persons: "M6 7.500a2.250 2.250 0 1 0 0-4.500 2.250 2.250 0 0 0 0 4.500Zm-4.500 5.500a4.500 4.500 0 0 1 9 0m-.500-9.800a2.250 2.250 0 0 1 0 4.100m2 1.900a4.500 4.500 0 0 1 2.500 3.800",
  building: "M3 14V3.500L8.500 2v12m0-8H13v8M2 14h12M5.500 5.500h.01M5.500 8h.01M5.500 10.500h.01M10.750 8.500h.01M10.750 11h.01",
  flask: "M6 2.500h4M7 2.500V6.500L3.200 12.300a.8.8 0 0 0 .7 1.200h8.200a.8.8 0 0 0 .7-1.200L9 6.500V2.500M5 10h6",
  chat: "M2.500 3.500h11v7.500H7l-3 2.500V11H2.500zM5.500 6.500h5M5.500 8.500h3",
  key: "M10.500 9a3.250 3.250 0 1 0-3.100-2.250L2.500 11.500V13.500H5V12h1.500v-1.500l1.300-1.300A3.250 3.250 0 0 0 10.500 9Zm.5-3.500h.01",
  live: "M8 8h.01M5.2 10.8a4 4 0 0 1 0-5.6m5.6 0a4 4 0 0 1 0 5.6M3 13A7 7 0 0 1 3 3m10 0a7 7 0 0 1 0 10",
  list: "M2.5 4h11m-11 4h11m-11 4h7",
  query: "M3 4.5 6.5 8 3 11.5M8.5 12H13",
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
