// The changes of a flag in words, for people who do not read its JSON. Pure.
import { formatPercent, showValue, t } from "../../lib/text";
import type { Change } from "./draft";

/** The fields of a flag as its page names them. */
export const FLAG_FIELDS: Record<string, string> = {
  key: t("Key"),
  name: t("Description"),
  active: t("The flag is on"),
  tags: t("Tags"),
  owners: t("Owners"),
};
const PARTS: Record<string, string> = {
  rollout_percentage: t("rollout"),
  variant: t("variant"),
  operator: t("comparison"),
  value: t("value"),
  properties: t("filters"),
};
export const OPERATORS: [string, string][] = [
  ["exact", t("is")],
  ["is_not", t("is not")],
  ["icontains", t("contains")],
  ["not_icontains", t("does not contain")],
  ["starts_with", t("starts with")],
  ["ends_with", t("ends with")],
  ["regex", t("matches pattern")],
  ["not_regex", t("does not match pattern")],
  ["gt", t("is greater than")],
  ["gte", t("is at least")],
  ["lt", t("is less than")],
  ["lte", t("is at most")],
  ["is_set", t("is set")],
  ["is_not_set", t("is not set")],
  ["is_date_before", t("is before")],
  ["is_date_after", t("is after")],
];

type Fields = Record<string, unknown>;
type NameCohort = (id: unknown) => string;

/** Return the name of a comparison as pages show it. */
export function showOperator(name: string): string {
  return OPERATORS.find(([each]) => each === name)?.[1] ?? name.replaceAll("_", " ");
}

function describeFilter(filter: Fields, nameCohort: NameCohort): string {
  const operator = showValue(filter.operator ?? "exact");
  if (filter.type === "cohort" || filter.type === "static-cohort") {
    const name = nameCohort(filter.value);
    return operator === "not_in" ? t("not in the cohort {name}", { name }) : t("in the cohort {name}", { name });
  }
  const values = (Array.isArray(filter.value) ? filter.value : [filter.value]).map(showValue).join(", ");
  return `${showValue(filter.key)} ${showOperator(operator)}${operator === "is_set" || operator === "is_not_set" ? "" : ` ${values}`}`;
}

function describeFilters(filters: unknown, nameCohort: NameCohort): string {
  const all = Array.isArray(filters) ? filters.filter(isFields) : [];
  return all.map((each) => describeFilter(each, nameCohort)).join(t(" and ")) || t("everyone");
}

function describeCondition(condition: Fields, nameCohort: NameCohort): string {
  const who = describeFilters(condition.properties, nameCohort);
  const share = t("{percent} of them", { percent: formatPercent((condition.rollout_percentage as number | null) ?? 100) });
  return [who, share, ...(condition.variant ? [t("always {variant}", { variant: showValue(condition.variant) })] : [])].join(" · ");
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Say in words what changed in the conditions of a flag. Other changes stay as they are. */
export function describeChange(change: Change, nameCohort: NameCohort = (id) => showValue(id)): Change {
  const path = /^filters\.groups\[(\d+)\](?:\.(properties)\[(\d+)\])?(?:\.(\w+))?$/.exec(change.path);
  if (!path) return change;
  const [, condition, isFilter, filter, field] = path;
  const labels = [t("Condition {number}", { number: Number(condition) }), ...(isFilter ? [t("filter {number}", { number: Number(filter) })] : []), ...(field ? [PARTS[field] ?? field] : [])];
  const describe = (value: unknown): unknown => {
    if (value === undefined || value === null) return value;
    if (field === "rollout_percentage") return formatPercent(value as number);
    if (field === "operator") return showOperator(showValue(value));
    if (field === "properties") return describeFilters(value, nameCohort);
    if (field || !isFields(value)) return Array.isArray(value) ? value.map(showValue).join(", ") : value;
    return isFilter ? describeFilter(value, nameCohort) : describeCondition(value, nameCohort);
  };
  return { path: labels.join(" · "), before: describe(change.before), after: describe(change.after) };
}
