// An approval policy: as the form edits it, as the API stores it, and in words. Pure.
import { t, tn } from "../../lib/text";
import { type DraftFilter, newUid } from "../flag/draft";
import type { ApprovalPolicy, PropertyFilter } from "../../api/types";

export const ACTIONS: { value: string; label: string }[] = [
  { value: "feature_flag.*", label: t("Every change of a flag") },
  { value: "feature_flag.create", label: t("A new flag") },
  { value: "feature_flag.update", label: t("A change of a flag that exists") },
  { value: "feature_flag.enable", label: t("Turning a flag on") },
  { value: "feature_flag.disable", label: t("Turning a flag off") },
  { value: "feature_flag.delete", label: t("Deleting a flag") },
];
export const FIELDS: Record<string, string> = {
  active: t("On and off"),
  filters: t("Conditions, variants and payloads"),
  cohorts: t("Cohorts that the flag uses"),
  key: t("Key"),
  name: t("Description"),
  tags: t("Tags"),
};
const DAY_S = 86_400;
const DEFAULT_DAYS = "14";

export interface PolicyDraft {
  action: string;
  tags: string[];
  fields: string[];
  isProtected: boolean;
  /** Empty: however many persons it concerns. */
  percent: string;
  filters: DraftFilter[];
  quorum: string;
  roles: string[];
  users: number[];
  days: string;
}

export function newPolicy(): PolicyDraft {
  return { action: "feature_flag.*", tags: [], fields: [], isProtected: false, percent: "", filters: [], quorum: "1", roles: [], users: [], days: DEFAULT_DAYS };
}

/** Return the days of a duration such as "14 06:00:00". */
export function readDays(duration: string): number {
  const [, days, hours, minutes, seconds] = /^(?:(\d+) )?(\d+):(\d+):(\d+)$/.exec(duration) ?? [];
  return Number(days ?? 0) + (Number(hours ?? 0) * 3600 + Number(minutes ?? 0) * 60 + Number(seconds ?? 0)) / DAY_S;
}

export function readPolicy(policy: ApprovalPolicy): PolicyDraft {
  const { conditions, approver_config: approvers } = policy;
  return {
    action: policy.action_key,
    tags: [...conditions.tags],
    fields: [...conditions.fields],
    isProtected: conditions.protected,
    percent: conditions.changed_percent === null ? "" : String(conditions.changed_percent),
    filters: conditions.properties.map((each) => ({ ...each, uid: newUid() })),
    quorum: String(approvers.quorum),
    roles: [...approvers.roles],
    users: [...approvers.users],
    days: String(Number(readDays(policy.expires_after).toFixed(4))),
  };
}

export function writePolicy(draft: PolicyDraft): Record<string, unknown> {
  const hasPercent = draft.percent.trim() !== "";
  return {
    action_key: draft.action,
    conditions: {
      tags: draft.tags,
      fields: draft.fields,
      protected: draft.isProtected,
      changed_percent: hasPercent ? Number(draft.percent) : null,
      properties: hasPercent ? draft.filters.map(({ uid: _, ...filter }) => filter as PropertyFilter) : [],
    },
    approver_config: { quorum: Number(draft.quorum), roles: draft.roles, users: draft.users },
    expires_after: Math.round(Number(draft.days) * DAY_S),
  };
}

export function findPolicyProblem(draft: PolicyDraft): string | undefined {
  if (!(Number(draft.quorum) >= 1)) return t("At least one approval is needed.");
  if (!(Number(draft.days) > 0)) return t("A request must stay open for some time.");
  if (draft.percent.trim() && !(Number(draft.percent) >= 0 && Number(draft.percent) <= 100)) return t("The share of people is a number from 0 to 100.");
  if (draft.percent.trim() && draft.filters.some((each) => !each.key)) return t("A filter has no property.");
  return undefined;
}

/** Return the changes that a policy is about, in words. */
export function describePolicy({ action_key: action, conditions }: Pick<ApprovalPolicy, "action_key" | "conditions">): string {
  const parts = [ACTIONS.find((each) => each.value === action)?.label ?? action];
  if (conditions.tags.length) parts.push(t("with the tag {tags}", { tags: conditions.tags.join(t(" or ")) }));
  if (conditions.fields.length) parts.push(t("that touches {fields}", { fields: conditions.fields.map((each) => (FIELDS[each] ?? each).toLowerCase()).join(t(" or ")) }));
  if (conditions.protected) parts.push(t("in a protected environment"));
  if (conditions.changed_percent !== null) {
    const who = conditions.properties.length ? t("the people with {properties}", { properties: conditions.properties.map((each) => each.key).join(t(" and ")) }) : t("all people");
    parts.push(t("if more than {percent} % of {who} would get another value", { percent: conditions.changed_percent, who }));
  }
  return parts.join(", ");
}

/** Return who must approve, in words. `names` are those of users by id. */
export function describeApprovers({ quorum, roles, users }: ApprovalPolicy["approver_config"], names: Map<number, string>): string {
  const who = [...roles.map((each) => t("role {role}", { role: each })), ...users.map((id) => names.get(id) ?? t("user {id}", { id: String(id) }))];
  return `${tn(quorum, "{n} approval", "{n} approvals")}: ${who.join(t(" or ")) || t("anyone who may change flags")}`;
}
