// Members of the organization: their level, their role in each project, and their invites.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { call, get, queryClient } from "../../api/client";
import type { MemberItem } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { OWNER_LEVEL, OWNERS_ONLY, useRights } from "../../shell/rights";
import { Button, IconButton } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Refusal, useSubmit } from "../../ui/forms";
import { ACTIONS, List, useList, useListState } from "../../ui/list";
import { Menu } from "../../ui/menu";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { Invites } from "./invites";
import { LevelAndRoles, type MemberRoles } from "./member-roles";
import { ProjectName } from "./project-picker";
import { useRoles } from "./scopes";

const PATH = "/api/organizations/@current/members/";

export function MemberSettings() {
  const { isOwner } = useRights();
  return (
    <>
      <MemberList isOwner={isOwner} />
      {isOwner && <Invites />}
    </>
  );
}

function MemberList({ isOwner }: { isOwner: boolean }) {
  const state = useListState();
  const members = useList<MemberItem>("members", PATH, state);
  return (
    <List
      query={members}
      state={state}
      search={t("Search by name or email")}
      controls={members.data && <span class="muted">{tn(members.data.count, "{n} member", "{n} members")}</span>}
      empty={<Empty title={t("No members")} />}
      columns={[t("Member"), t("Roles"), t("Last login"), ACTIONS]}
    >
      {(items) => items.map((each) => <MemberRow key={each.id} member={each} isOwner={isOwner} />)}
    </List>
  );
}

function MemberRow({ member, isOwner }: { member: MemberItem; isOwner: boolean }) {
  const { user } = useProject();
  const roles = useRoles();
  const [asked, setAsked] = useState<"change" | "sessions" | "remove" | null>(null);
  const isSelf = user?.uuid === member.user.uuid;
  const names = new Map((roles.data ?? []).map((each) => [each.id, each.name]));
  const entries = Object.entries(member.project_roles);
  return (
    <tr>
      <td class="first">
        <div class="row">
          <span class="name">
            <Value value={member.user.first_name || member.user.email} maxChars={80} />
          </span>
          {isSelf && <span class="tag on">{t("You")}</span>}
          {member.is_2fa_enabled && <span class="tag info">{t("Two factors")}</span>}
        </div>
        <div class="muted small">
          <Value value={member.user.email} maxChars={100} />
        </div>
      </td>
      <td class="wide">
        {member.level === OWNER_LEVEL ? (
          <span class="tag warn">{t("Owner")}</span>
        ) : entries.length ? (
          entries.slice(0, 4).map(([id, role]) => (
            <div key={id}>
              {names.get(role) ?? role} <span class="muted">{t("in")}</span> <ProjectName id={Number(id)} />
            </div>
          ))
        ) : (
          <span class="muted">{t("No role in any project")}</span>
        )}
        {entries.length > 4 && <div class="muted small">{tn(entries.length - 4, "and {n} more", "and {n} more")}</div>}
      </td>
      <td class="muted drop">{member.last_login ? <Ago at={member.last_login} /> : member.has_password ? t("Never") : t("Never: no password yet")}</td>
      <td class="shrink end corner">
        <Menu
          trigger={<IconButton label={t("Actions for {email}", { email: member.user.email })} icon="more" isSmall disabled={!isOwner && !isSelf} title={isOwner || isSelf ? undefined : OWNERS_ONLY} />}
          entries={[
            ...(isOwner
              ? [
                  { label: t("Change roles…"), onSelect: () => setAsked("change") },
                  { label: t("End sessions…"), onSelect: () => setAsked("sessions") },
                ]
              : []),
            { label: isSelf ? t("Leave…") : t("Remove…"), isDangerous: true, onSelect: () => setAsked("remove") },
          ]}
        />
        {asked === "change" && <ChangeDialog member={member} onClose={() => setAsked(null)} />}
        {(asked === "remove" || asked === "sessions") && <MemberConfirm member={member} what={asked} isSelf={isSelf} onClose={() => setAsked(null)} />}
      </td>
    </tr>
  );
}

function ChangeDialog({ member, onClose }: { member: MemberItem; onClose: () => void }) {
  const [roles, setRoles] = useState<MemberRoles>({ level: member.level, project_roles: { ...member.project_roles } });
  const form = useSubmit(async () => {
    await call("PATCH", `${PATH}${member.id}/`, { body: roles });
    await queryClient.invalidateQueries({ queryKey: ["members"] });
    void queryClient.invalidateQueries({ queryKey: ["member"] });
    notify(t("The roles of {email} are saved. They count at once.", { email: member.user.email }));
    onClose();
  });
  return (
    <Dialog title={t("Roles of {email}", { email: member.user.email })} description={t("A change counts at once: for open sessions and for personal keys.")} isOpen onClose={onClose}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["level", "project_roles"]} />
        <LevelAndRoles value={roles} onChange={setRoles} form={form} />
        <div class="row end">
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy}>
            {t("Save the roles")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function MemberConfirm({ member, what, isSelf, onClose }: { member: MemberItem; what: "remove" | "sessions"; isSelf: boolean; onClose: () => void }) {
  const { email } = member.user;
  const sessions = useQuery({ queryKey: ["sessions", member.id], queryFn: () => get<unknown[]>(`${PATH}${member.id}/sessions/`), retry: false });
  const keys = useQuery({ queryKey: ["keys"], queryFn: () => get<{ user_id: number }[]>("/api/personal_api_keys/"), enabled: what === "remove", retry: false });
  const ofMember = (keys.data ?? []).filter((each) => each.user_id === member.user.id).length;
  const act = useMutation({
    mutationFn: () => call("DELETE", what === "remove" ? `${PATH}${member.id}/` : `${PATH}${member.id}/sessions/`),
    onSuccess: () => {
      notify(what === "remove" ? t("{email} is removed.", { email }) : t("All sessions of {email} have ended.", { email }));
      onClose();
    },
    onError: notifyError,
    onSettled: () => queryClient.invalidateQueries(),
  });
  return (
    <Confirm
      title={what === "sessions" ? t("End the sessions of {email}?", { email }) : isSelf ? t("Leave the organization?") : t("Remove {email}?", { email })}
      action={what === "sessions" ? t("End the sessions") : isSelf ? t("Leave") : t("Remove the member")}
      isDangerous
      isOpen
      isBusy={act.isPending}
      onConfirm={() => act.mutate()}
      onClose={onClose}
    >
      {sessions.data && <p>{tn(sessions.data.length, "{n} open session ends at once.", "{n} open sessions end at once.")}</p>}
      {what === "remove" && <p>{tn(ofMember, "{n} personal API key is revoked: programs that use it are refused.", "{n} personal API keys are revoked: programs that use them are refused.")}</p>}
      {what === "remove" && <p class="muted">{t("What they made stays, and the audit trail keeps their name.")}</p>}
    </Confirm>
  );
}
