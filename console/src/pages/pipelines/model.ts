// Pipeline records as the pages use them: families, settings, drafts and what differs. Pure.
import type { components } from "../../api/schema";
import { t } from "../../lib/text";
import { type Change, type Conflict, isSame } from "../flag/draft";

type Schemas = components["schemas"];
export type PipelineRecord = Schemas["RecordItem"];
export type Health = Schemas["HealthItem"];
export type Job = Schemas["JobItem"];
export type Delivery = Omit<Schemas["DeliveryItem"], "payload"> & { payload: Record<string, unknown> };
export type Reason = Schemas["ReasonItem"];
export type LogLine = Schemas["LogItem"];
export type Preview = Schemas["PreviewItem"];
export type TransformationPreview = Schemas["TransformationPreviewItem"];

export type FamilyName = "destinations" | "transformations" | "import-apps" | "site-apps";

export interface Family {
  name: FamilyName;
  label: string;
  one: string;
  /** The last parts of the addresses of its records and of its components. */
  records: string;
  components: string;
  empty: string;
}

export const FAMILIES: Family[] = [
  {
    name: "destinations",
    label: t("Destinations"),
    one: t("destination"),
    records: "pipeline_destination_configs",
    components: "pipeline_destinations",
    empty: t("A destination sends events to another system as they arrive: a webhook, a table, a bucket, a chat."),
  },
  {
    name: "transformations",
    label: t("Transformations"),
    one: t("transformation"),
    records: "pipeline_transformation_configs",
    components: "pipeline_transformations",
    empty: t("A transformation changes or drops events before they are stored: it masks addresses, hashes mail addresses, drops bots."),
  },
  {
    name: "import-apps",
    label: t("Imports"),
    one: t("import"),
    records: "pipeline_import_apps_configs",
    components: "pipeline_import_apps",
    empty: t("An import reads events from files, a database or another instance, once or on a schedule."),
  },
  {
    name: "site-apps",
    label: t("Site apps"),
    one: t("site app"),
    records: "pipeline_frontend_apps_configs",
    components: "pipeline_frontend_apps",
    empty: t("A site app is a script that runs on your web pages, such as a notification bar."),
  },
];

export const findFamily = (name: string | undefined): Family | undefined => FAMILIES.find((each) => each.name === name);

/** One setting of a component. */
export interface Setting {
  key: string;
  name: string;
  type: "string" | "text" | "boolean" | "integer" | "choice" | "json";
  default: unknown;
  hint: string;
  required: boolean;
  secret: boolean;
  site: boolean;
  choices: string[];
}

export interface JobOffer {
  title: string;
  payload: Record<string, { title: string; type: string; required: boolean; default: unknown }>;
}

export interface Component {
  id: number | null;
  name: string;
  description: string;
  version: string;
  config_schema: Setting[];
  public_jobs: Record<string, JobOffer>;
  error: string;
}

/** What every tab of the page of a record gets. */
export interface RecordProps {
  family: Family;
  record: PipelineRecord;
  component: Component | null;
  /** The address of the record in the API. */
  path: string;
  health: Health | undefined;
  refusal: string | undefined;
}

export const MASK = "**************** POSTHOG SECRET FIELD ****************";

const parse = (text: string): Record<string, unknown> => {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
};

/** Return the component of a record; null if it is not installed any more. */
export function readComponent(record: PipelineRecord): Component | null {
  const component = parse(record.plugin_info) as unknown as Component;
  return component.config_schema ? component : null;
}

/** The last problem of a record. What was loaded last counts; only the record knows of a missing component. */
export function readError(record: PipelineRecord, health: Health | undefined): string {
  return health && readComponent(record) ? health.error : record.error;
}

export const readConfig = (record: PipelineRecord): Record<string, unknown> => parse(record.config);

/** How a setting is edited. Some keys have a meaning of their own. */
export type Editor = "text" | "lines" | "number" | "switch" | "choice" | "json" | "names" | "filters" | "mapping" | "secret";

export function chooseEditor(setting: Setting): Editor {
  if (setting.secret) return "secret";
  if (setting.type === "json") {
    if (setting.key === "events") return "names";
    if (setting.key === "properties") return "filters";
    if (setting.key === "mapping") return "mapping";
    return "json";
  }
  return ({ string: "text", text: "lines", boolean: "switch", integer: "number", choice: "choice" } as const)[setting.type];
}

/** What someone typed. A secret is MASK while it stays as it is. JSON and numbers are texts. */
export interface Draft {
  name: string;
  description: string;
  values: Record<string, unknown>;
}

const isBlank = (value: unknown): boolean => value === null || value === undefined || value === "";

function readValue(setting: Setting, value: unknown): unknown {
  switch (chooseEditor(setting)) {
    case "json":
      return isBlank(value) ? "" : JSON.stringify(value, null, 2);
    case "number":
      return isBlank(value) ? "" : String(value);
    case "switch":
      return value === true;
    case "names":
      return Array.isArray(value) ? value.map(String) : [];
    case "filters":
      return Array.isArray(value) ? value : [];
    case "mapping":
      return typeof value === "object" && value !== null ? value : {};
    case "secret":
      return isBlank(value) || value !== MASK ? "" : MASK;
    default:
      return isBlank(value) ? "" : String(value);
  }
}

export function toDraft(record: PipelineRecord, settings: Setting[]): Draft {
  const config = readConfig(record);
  return {
    name: record.name,
    description: record.description,
    values: Object.fromEntries(settings.map((each) => [each.key, readValue(each, config[each.key])])),
  };
}

/** Return the value that the API gets. Text that is not JSON is returned as it is: the service says what is wrong. */
function writeValue(setting: Setting, value: unknown): unknown {
  const editor = chooseEditor(setting);
  const isJson = editor === "json" || (editor === "secret" && setting.type === "json");
  if (isJson && typeof value === "string" && value.trim() !== "" && value !== MASK) {
    try {
      return JSON.parse(value) as unknown;
    } catch {
      return value;
    }
  }
  if (editor === "number" && typeof value === "string" && /^-?\d+$/.test(value.trim())) return Number(value);
  return value;
}

/** The parts of a draft by name; settings begin with "config.". */
export function toParts(draft: Draft, settings: Setting[]): Record<string, unknown> {
  return {
    name: draft.name,
    description: draft.description,
    ...Object.fromEntries(settings.map((each) => [`config.${each.key}`, writeValue(each, draft.values[each.key])])),
  };
}

export function findProblems(draft: Draft, settings: Setting[]): Record<string, string> {
  const problems: Record<string, string> = {};
  for (const each of settings) {
    const value = draft.values[each.key];
    const isEmpty = isBlank(value) || (Array.isArray(value) && !value.length);
    if (each.required && isEmpty) problems[each.key] = t("{name} is required.", { name: each.name });
    else if (each.type === "json" && typeof value === "string" && value.trim() && value !== MASK && !isJson(value))
      problems[each.key] = t("{name} is not valid JSON. Texts need double quotes.", { name: each.name });
    else if (each.type === "integer" && !isEmpty && !/^-?\d+$/.test(String(value).trim())) problems[each.key] = t("{name} is a whole number.", { name: each.name });
  }
  return problems;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** What differs, with secrets hidden. */
export function listChanges(before: Record<string, unknown>, after: Record<string, unknown>, secrets: Set<string>): Change[] {
  return Object.keys(after)
    .filter((path) => !isSame(before[path], after[path]))
    .map((path) => ({ path, before: hide(path, before[path], secrets), after: hide(path, after[path], secrets) }));
}

export function hide(path: string, value: unknown, secrets: Set<string>): unknown {
  if (!secrets.has(path)) return value;
  return isBlank(value) ? t("(none)") : value === MASK ? t("(the stored secret)") : t("(a new secret)");
}

export interface Merge {
  merged: Record<string, unknown>;
  conflicts: Conflict[];
}

/** Merge two edits. A part that both changed differently is a conflict, and has my value. */
export function mergeParts(base: Record<string, unknown>, mine: Record<string, unknown>, theirs: Record<string, unknown>): Merge {
  const conflicts: Conflict[] = [];
  const merged: Record<string, unknown> = {};
  for (const path of Object.keys(mine)) {
    const [b, m, other] = [base[path], mine[path], theirs[path]];
    merged[path] = isSame(m, b) ? other : m;
    if (!isSame(m, b) && !isSame(other, b) && !isSame(m, other)) conflicts.push({ path, base: b, mine: m, theirs: other });
  }
  return { merged, conflicts };
}

/** Split parts that differ into the bodies of the two calls that store them. */
export function toBodies(changes: Change[], parts: Record<string, unknown>): { config: Record<string, unknown>; record: Record<string, unknown> } {
  const config: Record<string, unknown> = {};
  const record: Record<string, unknown> = {};
  for (const { path } of changes)
    if (path.startsWith("config.")) config[path.slice("config.".length)] = parts[path] ?? "";
    else record[path] = parts[path];
  return { config, record };
}

/** Return the setting that an error of the API is about, such as `config__properties.0.key`. */
export function readAttr(attr: string | null): string {
  return (attr ?? "").replace(/^config__/, "").split("__")[0] ?? "";
}

export const isOpenJob = (job: Job): boolean => ["waiting", "running", "paused"].includes(job.status);

/** One period of a chart, with a number for each series. */
export interface Bucket {
  at: number;
  values: number[];
}

const HOUR_MS = 3_600_000;

/** Return the counts of each period up to now, with zeros where nothing happened. */
export function fillBuckets(hours: { hour: string; [name: string]: unknown }[], names: string[], span: { hours: number; step: number }, now: number): Bucket[] {
  const step = span.step * HOUR_MS;
  const count = Math.ceil(span.hours / span.step);
  const first = Math.floor(now / step) * step - (count - 1) * step;
  const buckets = Array.from({ length: count }, (_, index): Bucket => ({ at: first + index * step, values: names.map(() => 0) }));
  for (const hour of hours) {
    const bucket = buckets[Math.floor((new Date(hour.hour).getTime() - first) / step)];
    if (bucket) bucket.values = bucket.values.map((value, index) => value + Number(hour[names[index]!] ?? 0));
  }
  return buckets;
}
