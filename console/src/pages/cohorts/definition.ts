// The filters of a cohort: any of several groups, each with filters that all hold. Pure.
import type { PropertyFilter } from "../../api/types";
import { type DraftFilter, newUid } from "../flag/draft";
import { BEHAVIORAL, findBehaviorProblem, isShowable } from "./behavior";

/** Filters that all hold. A person is in the cohort if one of the groups holds. */
export interface FilterGroup {
  uid: string;
  filters: DraftFilter[];
}

interface Node {
  type?: string;
  values?: Node[];
  negation?: boolean;
  [name: string]: unknown;
}

const isLeaf = (node: Node): boolean => !Array.isArray(node.values);
const isOr = (node: Node): boolean => String(node.type).toUpperCase() === "OR";

/** Return the alternatives of a node, each as filters that all hold; null if the form cannot show it. */
function expand(node: Node): PropertyFilter[][] | null {
  if (isLeaf(node) && node.type === BEHAVIORAL) return isShowable(node) ? [[node as PropertyFilter]] : null;
  if (isLeaf(node)) return node.negation ? null : [[toFilter(node)]];
  const values = node.values ?? [];
  const parts: PropertyFilter[][][] = [];
  for (const value of values) {
    const part = expand(value);
    if (!part) return null;
    parts.push(part);
  }
  if (isOr(node)) return parts.flat();
  // All parts must hold: only the last one may have alternatives of its own, and only if it is alone.
  if (parts.length === 1) return parts[0]!;
  return parts.every((part) => part.length === 1) ? [parts.flatMap((part) => part[0]!)] : null;
}

function toFilter(node: Node): PropertyFilter {
  const { negation: _, values: __, ...filter } = node;
  return { operator: filter.type === "cohort" ? "in" : "exact", ...filter, type: String(filter.type ?? "person"), key: String(filter.key ?? "") };
}

/** Return the groups that a definition means; null if it nests deeper than the form can show. */
export function readDefinition(definition: unknown): FilterGroup[] | null {
  const node = (definition ?? {}) as Node;
  if (!Object.keys(node).length) return [];
  const found = expand(node);
  return found && found.map((filters) => ({ uid: newUid(), filters: filters.map((each) => ({ ...each, uid: newUid() })) }));
}

export function stripUids(filters: DraftFilter[]): PropertyFilter[] {
  return filters.map(({ uid: _, ...filter }) => filter as PropertyFilter);
}

export function writeDefinition(groups: FilterGroup[]): object {
  return { type: "OR", values: groups.map((group) => ({ type: "AND", values: stripUids(group.filters) })) };
}

/** Return what keeps groups from being saved. */
export function findProblem(groups: FilterGroup[]): string | undefined {
  if (groups.some((group) => !group.filters.length)) return "Every group needs a filter.";
  const filters = groups.flatMap((group) => group.filters);
  if (filters.some((each) => !each.key && each.type !== BEHAVIORAL)) return "A filter has no property.";
  for (const each of filters) {
    const problem = each.type === BEHAVIORAL ? findBehaviorProblem(each) : undefined;
    if (problem) return problem;
  }
  return undefined;
}

/** Return how many distinct ids a CSV text names, as the service counts them: its first column, without a header. */
export function countIds(text: string): number {
  const ids = text
    .replace(/^\ufeff/, "")
    .split(/\r\n|\r|\n/)
    .map((line) => (line.startsWith('"') ? (/^"((?:[^"]|"")*)"/.exec(line)?.[1] ?? "") : (line.split(",")[0] ?? "")).trim())
    .filter((id) => id && !["distinct_id", "distinct_ids"].includes(id.toLowerCase()));
  return new Set(ids).size;
}
