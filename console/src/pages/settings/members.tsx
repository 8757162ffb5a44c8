// Members of the organization: their level, their role in each project, and their invites.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { ApiError, call, get, queryClient } from "../../api/client";
import type { MemberItem, Page as PageOf } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { OWNER_LEVEL, OWNERS_ONLY, useRights } from "../../shell/rights";
import { Button, IconButton, SearchInput } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { FormError, useSubmit } from "../../ui/form";
import { Menu } from "../../ui/menu";
import { Pager, Panel } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, NoMatch } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { Invites } from "./invites";
import { LevelAndRoles, type MemberRoles } from "./member-roles";
import { ProjectName } from "./project-picker";
import { useRoles } from "./scopes";

const PATH = "/api/organizations/@current/members/";
const LIMIT = 25;

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
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim());
  const offset = Number(url.get("offset")) || 0;
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const members = useQuery({
    queryKey: ["members", search, offset],
    queryFn: ({ signal }) => get<PageOf<MemberItem>>(PATH, { search, limit: LIMIT, offset: offset || null }, signal),
    placeholderData: keepPreviousData,
  });
  return (
    <>
      <div class="row">
        <SearchInput label={t("Search by name or email")} value={text} onInput={setText} />
      </div>
      <Panel title={members.data ? tn(members.data.count, "{n} member", "{n} members") : t("Members")} isFlush>
        <Await query={members} rows={3}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col">{t("Member")}</th>
                      <th scope="col">{t("Roles")}</th>
                      <th scope="col">{t("Last login")}</th>
                      <th scope="col" class="shrink">
                        <span class="hidden-text">{t("Actions")}</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((each) => (
                      <MemberRow key={each.id} member={each} isOwner={isOwner} />
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : (
              <NoMatch
                onClear={() => {
                  setText("");
                  change({ search: null, offset: null });
                }}
              />
            )
          }
        </Await>
      </Panel>
    </>
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
        <FormError of={form} fields={["level", "project_roles"]} />
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
    onError: (error) => notify(error instanceof ApiError ? error.detail : String(error), "bad"),
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
