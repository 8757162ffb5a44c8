// The dialog of an approval policy.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ApiError, buildCurl, call, get, queryClient } from "../../api/client";
import type { ApprovalPolicy, MemberItem, Page as PageOf } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { ValuesInput } from "../../ui/combobox";
import { Button, Field, Select } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Check, Refusal, TextField, useSubmit } from "../../ui/forms";
import { copyText } from "../../ui/show";
import { notify } from "../../ui/toasts";
import { Filters } from "../flag/filters";
import { useRoles } from "../settings/scopes";
import { ACTIONS, FIELDS, findPolicyProblem, newPolicy, type PolicyDraft, readPolicy, writePolicy } from "./policy";

const SHOWN = ["conditions__tags", "conditions__fields", "conditions__changed_percent", "conditions__properties", "approver_config__quorum", "approver_config__roles", "approver_config__users", "expires_after"];

/** The emails of users by id. */
export function useMemberNames(): Map<number, string> {
  const members = useQuery({ queryKey: ["members", "names"], queryFn: () => get<PageOf<MemberItem>>("/api/organizations/@current/members/", { limit: 500 }), staleTime: 60_000 });
  return new Map((members.data?.results ?? []).map((each) => [each.user.id, each.user.email]));
}

export const refreshPolicies = () => Promise.all(["approval policies", "change_requests"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })));

export function PolicyDialog({ edited, onClose }: { edited: ApprovalPolicy | null; onClose: () => void }) {
  const { api, root } = useProject();
  const [draft, setDraft] = useState<PolicyDraft>(() => (edited ? readPolicy(edited) : newPolicy()));
  const change = (part: Partial<PolicyDraft>) => setDraft((before) => ({ ...before, ...part }));
  const method = edited ? "PATCH" : "POST";
  const path = `${api}/approval_policies/${edited ? `${edited.id}/` : ""}`;
  const form = useSubmit(async () => {
    try {
      await call(method, path, { body: writePolicy(draft) });
    } finally {
      await refreshPolicies();
    }
    notify(edited ? t("The policy is saved.") : t("The policy is in force."));
    onClose();
  });
  const problem = findPolicyProblem(draft);
  const request = form.error instanceof ApiError ? form.error.body.change_request_id : undefined;
  return (
    <Dialog title={edited ? t("Change the approval policy") : t("New approval policy")} isWide isOpen onClose={onClose}>
      <form class="body stack l" onSubmit={form.submit}>
        {request ? (
          <p class="notice warn" role="alert">
            {t("This policy is in force, so the change itself waits for approval.")} <Link href={`${root}/changes/${String(request)}`}>{t("Show the change request")}</Link>
          </p>
        ) : (
          <Refusal error={form.error} shown={SHOWN} />
        )}
        <Which draft={draft} onChange={change} errorOf={form.errorOf} />
        <Who draft={draft} onChange={change} errorOf={form.errorOf} />
        <div class="row end">
          {problem && <span class="muted small grow">{problem}</span>}
          <Button kind="quiet" disabled={!!problem} onClick={() => void copyText(buildCurl(method, path, writePolicy(draft)))}>
            {t("Copy as curl")}
          </Button>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy || !!problem}>
            {edited ? t("Save the policy") : t("Create the policy")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface PartProps {
  draft: PolicyDraft;
  onChange: (part: Partial<PolicyDraft>) => void;
  errorOf: (name: string) => string | undefined;
}

const toggle = <T,>(list: T[], value: T, isIn: boolean): T[] => (isIn ? [...list, value] : list.filter((each) => each !== value));

function Which({ draft, onChange, errorOf }: PartProps) {
  // Fields that only the API offers stay.
  const fields = [...new Set([...Object.keys(FIELDS), ...draft.fields])];
  return (
    <fieldset class="plain stack">
      <legend class="label">{t("Which changes need approval?")}</legend>
      <Field label={t("Change")}>{({ id }) => <Select id={id} label={t("Change")} value={draft.action} choices={ACTIONS} onChange={(action) => onChange({ action })} />}</Field>
      <Field label={t("Only flags with one of these tags")} hint={t("Without tags: all flags.")} error={errorOf("conditions__tags")}>
        {() => <ValuesInput label={t("Only flags with one of these tags")} placeholder={t("Add a tag")} values={draft.tags} options={[]} onSearch={() => undefined} onChange={(tags) => onChange({ tags })} />}
      </Field>
      <div class="stack s" role="group" aria-label={t("Only changes of these parts")}>
        <span class="label">{t("Only changes of these parts")}</span>
        <div class="row">
          {fields.map((name) => (
            <Check key={name} label={FIELDS[name] ?? name} isOn={draft.fields.includes(name)} onChange={(isOn) => onChange({ fields: toggle(draft.fields, name, isOn) })} />
          ))}
        </div>
        <span class={errorOf("conditions__fields") ? "error-text" : "hint"}>{errorOf("conditions__fields") ?? t("Without a choice: all parts. Deleting a flag and changing its key always count.")}</span>
      </div>
      <TextField
        label={t("Only if more than so many percent of people would get another value")}
        type="number"
        min={0}
        max={100}
        step="any"
        placeholder={t("however many")}
        hint={t("Counted over all stored persons before the change is saved. What cannot be counted needs approval.")}
        error={errorOf("conditions__changed_percent")}
        value={draft.percent}
        onInput={(percent) => onChange({ percent })}
      />
      {draft.percent.trim() && (
        <div class="stack s" role="group" aria-label={t("Of these people")}>
          <span class="label">{t("Of these people")}</span>
          <Filters filters={draft.filters} empty={t("All people")} onChange={(filters) => onChange({ filters })} />
          {errorOf("conditions__properties") && <span class="error-text">{errorOf("conditions__properties")}</span>}
        </div>
      )}
      <Check label={t("Only in a protected environment")} isOn={draft.isProtected} onChange={(isProtected) => onChange({ isProtected })} />
    </fieldset>
  );
}

function Who({ draft, onChange, errorOf }: PartProps) {
  const roles = useRoles();
  const names = useMemberNames();
  const known = [...new Set([...(roles.data ?? []).map((each) => each.id), ...draft.roles])];
  const people = [...names].map(([, email]) => email);
  const choosePeople = (chosen: string[]) => {
    const ids = new Map([...names].map(([id, email]) => [email, id]));
    const unlisted = draft.users.filter((id) => !names.has(id) && chosen.includes(String(id)));
    onChange({ users: [...unlisted, ...chosen.flatMap((each) => ids.get(each) ?? [])] });
  };
  return (
    <fieldset class="plain stack">
      <legend class="label">{t("Who must approve?")}</legend>
      <div class="columns narrow">
        <TextField label={t("Approvals")} type="number" min={1} step={1} hint={t("The author of a change never counts.")} error={errorOf("approver_config__quorum")} value={draft.quorum} onInput={(quorum) => onChange({ quorum })} />
        <TextField label={t("Days that a request stays open")} type="number" min={0} step="any" error={errorOf("expires_after")} value={draft.days} onInput={(days) => onChange({ days })} />
      </div>
      <div class="stack s" role="group" aria-label={t("With one of these roles")}>
        <span class="label">{t("With one of these roles")}</span>
        <div class="row">
          {known.map((id) => (
            <Check key={id} label={roles.data?.find((each) => each.id === id)?.name ?? id} isOn={draft.roles.includes(id)} onChange={(isOn) => onChange({ roles: toggle(draft.roles, id, isOn) })} />
          ))}
        </div>
      </div>
      <Field
        label={t("Or one of these people")}
        hint={t("Without roles and people: anyone who may change flags. An owner has every role.")}
        error={errorOf("approver_config__roles") ?? errorOf("approver_config__users")}
      >
        {() => <ValuesInput label={t("Or one of these people")} placeholder={t("Email")} values={draft.users.map((id) => names.get(id) ?? String(id))} options={people.map((value) => ({ value }))} onSearch={() => undefined} onChange={choosePeople} />}
      </Field>
    </fieldset>
  );
}
