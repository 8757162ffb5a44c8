// The edited flag: what the form changes, what the API gets, what differs and what conflicts. Pure.
import type { ConditionSet, Flag, FlagFilters, PropertyFilter, Variant } from "../../api/types";

/** A filter with an id of its own, so that what belongs to it moves with it. */
export interface DraftFilter extends PropertyFilter {
  uid: string;
}

export interface DraftCondition {
  uid: string;
  filters: DraftFilter[];
  rollout: number;
  variant: string;
  /** Fields that the form does not know. */
  rest: Record<string, unknown>;
}

export interface DraftVariant {
  uid: string;
  key: string;
  name: string;
  rollout: number;
  payload: string;
}

export interface Draft {
  key: string;
  name: string;
  active: boolean;
  tags: string[];
  owners: string[];
  continuity: boolean;
  conditions: DraftCondition[];
  variants: DraftVariant[];
  /** The payload of a flag without variants, as JSON text. */
  payload: string;
  rest: Record<string, unknown>;
}

let last = 0;
export const newUid = (): string => `c${++last}`;

function readPayload(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function readCondition(group: ConditionSet): DraftCondition {
  const { properties, rollout_percentage, variant, ...rest } = group;
  return {
    uid: newUid(),
    filters: (properties ?? []).map((each) => ({ ...each, uid: newUid() })),
    rollout: rollout_percentage ?? 100,
    variant: variant ?? "",
    rest,
  };
}

export function toDraft(flag: Flag): Draft {
  const { groups, multivariate, payloads, ...rest } = flag.filters;
  return {
    key: flag.key,
    name: flag.name,
    active: flag.active,
    tags: [...flag.tags],
    owners: [...(flag.owners ?? [])],
    continuity: flag.ensure_experience_continuity,
    conditions: (groups ?? []).map(readCondition),
    variants: (multivariate?.variants ?? []).map((each) => ({
      uid: newUid(),
      key: each.key,
      name: each.name ?? "",
      rollout: each.rollout_percentage,
      payload: readPayload(payloads?.[each.key]),
    })),
    payload: readPayload(payloads?.true),
    rest,
  };
}

export function newCondition(rollout = 100): DraftCondition {
  return { uid: newUid(), filters: [], rollout, variant: "", rest: {} };
}

export function emptyDraft(): Draft {
  return { key: "", name: "", active: true, tags: [], owners: [], continuity: false, conditions: [newCondition(0)], variants: [], payload: "", rest: {} };
}

function writeCondition(condition: DraftCondition, variants: string[]): ConditionSet {
  return {
    ...condition.rest,
    properties: condition.filters.map(({ uid: _, ...filter }) => filter as PropertyFilter),
    rollout_percentage: condition.rollout,
    variant: variants.includes(condition.variant) ? condition.variant : null,
  };
}

export function toFilters(draft: Draft): FlagFilters {
  const keys = draft.variants.map((each) => each.key);
  const payloads: Record<string, string> = {};
  if (draft.variants.length) {
    for (const each of draft.variants) if (each.payload.trim()) payloads[each.key] = each.payload;
  } else if (draft.payload.trim()) payloads.true = draft.payload;
  return {
    ...draft.rest,
    groups: draft.conditions.map((each) => writeCondition(each, keys)),
    multivariate: draft.variants.length
      ? { variants: draft.variants.map((each): Variant => ({ key: each.key, name: each.name, rollout_percentage: each.rollout })) }
      : null,
    payloads,
  };
}

/** The fields that the API gets. */
export function toFields(draft: Draft): Record<string, unknown> {
  return {
    key: draft.key,
    name: draft.name,
    active: draft.active,
    tags: draft.tags,
    owners: draft.owners,
    ensure_experience_continuity: draft.continuity,
    filters: toFilters(draft),
  };
}

/** The fields that a scheduled change can set: all but the key. */
export function toScheduled(draft: Draft): Record<string, unknown> {
  const { key: _, ...fields } = toFields(draft);
  return fields;
}

/** What keeps the draft from being saved, by field. The service checks everything again. */
export function findProblems(draft: Draft): Record<string, string> {
  const problems: Record<string, string> = {};
  if (!draft.key.trim()) problems.key = "A flag needs a key.";
  else if (!/^[a-zA-Z0-9_-]+$/.test(draft.key)) problems.key = "Only letters, digits, - and _ are allowed.";
  const total = draft.variants.reduce((sum, each) => sum + each.rollout, 0);
  if (draft.variants.length && Math.abs(total - 100) > 0.001) problems.variants = `The shares add up to ${Number(total.toFixed(2))} %. They must add up to 100 %.`;
  const keys = draft.variants.map((each) => each.key);
  if (keys.some((key) => !key.trim())) problems.variants = "Every variant needs a key.";
  if (new Set(keys).size < keys.length) problems.variants = "Two variants have the same key.";
  const payloads = draft.variants.length ? draft.variants.map((each) => each.payload) : [draft.payload];
  if (payloads.some((text) => text.trim() && !isJson(text))) problems.payloads = "A payload is not valid JSON. Texts need quotes.";
  return problems;
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Give all variants the same share; the first ones get what is left over. */
export function distribute(variants: DraftVariant[]): DraftVariant[] {
  const share = Math.floor(100 / variants.length);
  const left = 100 - share * variants.length;
  return variants.map((each, index) => ({ ...each, rollout: share + (index < left ? 1 : 0) }));
}

export function move<T>(items: T[], from: number, to: number): T[] {
  const moved = [...items];
  const [item] = moved.splice(from, 1);
  if (item === undefined || to < 0 || to > moved.length) return items;
  moved.splice(to, 0, item);
  return moved;
}

export interface Change {
  path: string;
  before: unknown;
  after: unknown;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Missing, null and empty mean the same to a flag. */
function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && !value.length) || (isObject(value) && !Object.keys(value).length);
}

export function isSame(left: unknown, right: unknown): boolean {
  if (isEmpty(left) && isEmpty(right)) return true;
  if (Array.isArray(left) && Array.isArray(right)) return left.length === right.length && left.every((each, index) => isSame(each, right[index]));
  if (isObject(left) && isObject(right)) return [...new Set([...Object.keys(left), ...Object.keys(right)])].every((name) => isSame(left[name], right[name]));
  return left === right;
}

/** List what differs, as deep as both sides have the same shape. */
export function diff(before: unknown, after: unknown, path = ""): Change[] {
  if (isSame(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => diff(before[name], after[name], path ? `${path}.${name}` : name));
  }
  if (Array.isArray(before) && Array.isArray(after) && [...before, ...after].every(isObject)) {
    const length = Math.max(before.length, after.length);
    return Array.from({ length }, (_, index) => diff(before[index], after[index], `${path}[${index + 1}]`)).flat();
  }
  return [{ path, before, after }];
}

export interface Conflict {
  path: string;
  base: unknown;
  mine: unknown;
  theirs: unknown;
}

export interface Merge {
  merged: Record<string, unknown>;
  conflicts: Conflict[];
}

// Lists are merged as wholes: their order has a meaning.
const PARTS = ["key", "name", "active", "tags", "owners", "ensure_experience_continuity"];
const FILTER_PARTS = ["groups", "multivariate", "payloads"];

/** Merge two edits of the same flag. A part that both changed differently is a conflict, and has my value. */
export function mergeEdits(base: Record<string, unknown>, mine: Record<string, unknown>, theirs: Record<string, unknown>): Merge {
  const conflicts: Conflict[] = [];
  const choose = (path: string, b: unknown, m: unknown, t: unknown): unknown => {
    if (isSame(m, b)) return t;
    if (!isSame(t, b) && !isSame(m, t)) conflicts.push({ path, base: b, mine: m, theirs: t });
    return m;
  };
  const merged: Record<string, unknown> = { ...mine };
  for (const name of PARTS) merged[name] = choose(name, base[name], mine[name], theirs[name]);
  const [b, m, t] = [base, mine, theirs].map((each) => (each.filters ?? {}) as Record<string, unknown>);
  const names = new Set([...FILTER_PARTS, ...Object.keys(b!), ...Object.keys(m!), ...Object.keys(t!)]);
  merged.filters = Object.fromEntries([...names].map((name) => [name, choose(`filters.${name}`, b![name], m![name], t![name])]));
  return { merged, conflicts };
}

/** Take a part from the other side. */
export function takeTheirs(fields: Record<string, unknown>, conflict: Conflict): Record<string, unknown> {
  const [first, second] = conflict.path.split(".");
  if (first === "filters" && second) return { ...fields, filters: { ...(fields.filters as object), [second]: conflict.theirs } };
  return { ...fields, [first!]: conflict.theirs };
}
