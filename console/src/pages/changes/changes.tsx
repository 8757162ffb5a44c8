// The list of change requests.
import { Link } from "wouter-preact";
import type { ChangeRequest } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Choices } from "../../ui/controls";
import { List, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, type Labels, Tag, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { ChangeTabs } from "./tabs";

const ALL = "all";
const STATES = [
  { value: "pending", label: t("Open") },
  { value: "approved", label: t("Approved") },
  { value: "applied", label: t("Applied") },
  { value: "rejected,withdrawn,expired,failed", label: t("Not applied") },
  { value: ALL, label: t("All") },
];

export function ChangesPage() {
  const { api, root } = useProject();
  const state = useListState("state");
  const chosen = state.filters.state || "pending";
  const requests = useList<ChangeRequest>("change_requests", `${api}/change_requests/`, state, { state: chosen === ALL ? null : chosen });
  return (
    <Page title={t("Changes")} sub={requests.data ? tn(requests.data.count, "{n} change request", "{n} change requests") : undefined}>
      <ChangeTabs current="requests" />
      <List
        query={requests}
        state={state}
        search={t("Search by key or name")}
        controls={<Choices label={t("State")} value={chosen} choices={STATES} onChange={(value) => state.setFilter("state", value === "pending" ? "" : value)} />}
        columns={[t("Change"), t("State"), t("Approvals"), t("Author"), t("Requested")]}
        empty={<Empty title={t("No change waits for approval")}>{t("If an approval policy covers a change of a flag, the change waits here until others have approved it.")}</Empty>}
      >
        {(items) =>
          items.map((request) => (
            <tr key={request.id}>
              <td class="first">
                <Link href={`${root}/changes/${request.id}`} class="name">
                  <Value value={request.resource_name} maxChars={120} />
                </Link>
                <div class="muted small">
                  {describeAction(request.action_key)}: <Value value={listFields(request).join(", ")} maxChars={120} />
                </div>
              </td>
              <td class="end">
                <State value={request.state} />
              </td>
              <td>{countApprovals(request)}</td>
              <td>
                <Value value={request.created_by.first_name} maxChars={60} />
              </td>
              <td class="muted drop">
                <Ago at={request.created_at} />
              </td>
            </tr>
          ))
        }
      </List>
    </Page>
  );
}

const LABELS: Labels = {
  pending: { label: t("Open"), tone: "warn" },
  approved: { label: t("Approved"), tone: "on" },
  applied: { label: t("Applied"), tone: "on" },
  rejected: { label: t("Rejected"), tone: "bad" },
  withdrawn: { label: t("Withdrawn"), tone: "" },
  expired: { label: t("Expired"), tone: "" },
  failed: { label: t("Failed"), tone: "bad" },
};

export const State = ({ value }: { value: string }) => <Tag labels={LABELS} value={value} />;

const ACTIONS: Record<string, string> = {
  "feature_flag.create": t("New flag"),
  "feature_flag.update": t("Change of a flag"),
  "feature_flag.enable": t("Enable a flag"),
  "feature_flag.disable": t("Disable a flag"),
  "feature_flag.delete": t("Delete a flag"),
  "cohort.update": t("Change of a cohort"),
  "approval_policy.update": t("Change of an approval policy"),
  "approval_policy.delete": t("Delete an approval policy"),
  "feature_flag.promote": t("Promotion"),
  "scheduled_change.create": t("Scheduled change"),
  "bandit.start": t("Start of a bandit"),
};

interface PromotedFlag {
  key: string;
  action: "create" | "update";
  changes?: { field: string; from: unknown; to: unknown }[];
}

export const listPromoted = (intent: ChangeRequest["intent"]) => intent.gated_changes.changes as PromotedFlag[];

const listFields = ({ resource_type, intent }: ChangeRequest) =>
  resource_type === "promotion" ? listPromoted(intent).map((each) => each.key) : Object.keys(intent.gated_changes);

export const describeAction = (key: string) => ACTIONS[key] ?? key;

export const countApprovals = (request: ChangeRequest) =>
  request.required_approvals.map((each) => t("{n} of {quorum}", { n: each.approvals, quorum: each.quorum })).join(", ");
