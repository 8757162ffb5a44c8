// The list of approval policies: which changes need a second person.
import { useMutation } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, call } from "../../api/client";
import type { ApprovalPolicy } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { Button, IconButton, Switch } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { ACTIONS, List, useList, useListState } from "../../ui/list";
import { Menu } from "../../ui/menu";
import { Page } from "../../ui/page";
import { Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { describeApprovers, describePolicy, readDays } from "./policy";
import { PolicyDialog, refreshPolicies, useMemberNames } from "./policy-form";
import { ChangeTabs } from "./tabs";

/** Say what became of a change of a policy: a policy in force protects itself. */
export function explainRefusal(error: unknown): void {
  if (error instanceof ApiError && error.body.change_request_id) notify(t("This policy is in force, so the change itself waits for approval. See Requests."));
  else notifyError(error);
}

export function PoliciesPage() {
  const { api } = useProject();
  const refusal = useRefusal("project:write");
  const state = useListState();
  const names = useMemberNames();
  const [edited, setEdited] = useState<ApprovalPolicy | "new" | null>(null);
  const policies = useList<ApprovalPolicy>("approval policies", `${api}/approval_policies/`, state);
  const create = (
    <Button kind="primary" disabled={!!refusal} title={refusal} onClick={() => setEdited("new")}>
      {t("New policy")}
    </Button>
  );
  return (
    <Page title={t("Approval policies")} sub={t("A change that falls under several policies needs what all of them require.")} actions={create}>
      <ChangeTabs current="policies" />
      <List
        query={policies}
        state={state}
        search={t("Search by action, tag, role or person")}
        empty={
          <Empty title={t("No change needs approval")} action={refusal ? undefined : create}>
            {t("A policy says which changes of flags wait until other people have approved them: all changes, those of flags with a tag, or those that many people would notice.")}
          </Empty>
        }
        columns={[t("Changes"), t("Needs"), t("A request stays open"), t("In force"), ACTIONS]}
      >
        {(items) => items.map((each) => <Row key={each.id} policy={each} names={names} refusal={refusal} onEdit={() => setEdited(each)} />)}
      </List>
      {edited && <PolicyDialog edited={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </Page>
  );
}

function Row({ policy, names, refusal, onEdit }: { policy: ApprovalPolicy; names: Map<number, string>; refusal: string | undefined; onEdit: () => void }) {
  const { api } = useProject();
  const path = `${api}/approval_policies/${policy.id}/`;
  const [isDeleting, setDeleting] = useState(false);
  const what = describePolicy(policy);
  const edit = useMutation({
    mutationFn: (enabled: boolean) => call<ApprovalPolicy>("PATCH", path, { body: { enabled } }),
    onSuccess: (saved) => notify(saved.enabled ? t("The policy is in force.") : t("The policy is no longer in force.")),
    onError: explainRefusal,
    onSettled: refreshPolicies,
  });
  const remove = useMutation({
    mutationFn: () => call("DELETE", path),
    onSuccess: () => notify(t("The policy is deleted.")),
    onError: explainRefusal,
    onSettled: () => {
      setDeleting(false);
      return refreshPolicies();
    },
  });
  const days = readDays(policy.expires_after);
  return (
    <tr>
      <td class="first">
        <span class="name">
          <Value value={what} maxChars={300} />
        </span>
      </td>
      <td class="wide">
        <Value value={describeApprovers(policy.approver_config, names)} maxChars={300} />
      </td>
      <td class="muted drop">{days >= 1 ? tn(Math.round(days), "{n} day", "{n} days") : policy.expires_after}</td>
      <td class="shrink">
        <Switch isOn={policy.enabled} disabled={!!refusal || edit.isPending} label={t("In force: {what}", { what })} onChange={(enabled) => edit.mutate(enabled)} />
      </td>
      <td class="shrink end corner">
        <Menu
          trigger={<IconButton label={t("Actions for the policy: {what}", { what })} icon="more" isSmall disabled={!!refusal} title={refusal ?? t("Actions")} />}
          entries={[
            { label: t("Change…"), onSelect: onEdit },
            { label: t("Delete…"), isDangerous: true, onSelect: () => setDeleting(true) },
          ]}
        />
        <Confirm title={t("Delete the policy?")} action={t("Delete the policy")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
          <p>
            <strong>{what}</strong>
          </p>
          <p>
            {policy.enabled
              ? t("It is in force, so its deletion waits for the approvals that it requires. After that, these changes are made at once unless another policy covers them.")
              : t("It is not in force: nothing changes for anyone.")}
          </p>
        </Confirm>
      </td>
    </tr>
  );
}
