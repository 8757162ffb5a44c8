// Invites: a link that works once, for 7 days. No mail server is needed.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Invite, Page as PageOf } from "../../api/types";
import { formatDate, t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { OWNER_LEVEL } from "../../shell/rights";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { Pager, Panel } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { LevelAndRoles, type MemberRoles } from "./member-roles";
import { SecretDialog } from "./secret";

const PATH = "/api/organizations/@current/invites/";
const LIMIT = 25;

export function Invites() {
  const [isNew, setNew] = useState(false);
  const [issued, setIssued] = useState<Invite | null>(null);
  const [offset, setOffset] = useState(0);
  const invites = useQuery({ queryKey: ["invites", offset], queryFn: () => get<PageOf<Invite>>(PATH, { limit: LIMIT, offset: offset || null }) });
  const withdraw = useMutation({
    mutationFn: (invite: Invite) => call("DELETE", `${PATH}${invite.id}/`),
    onSuccess: (_, invite) => notify(t("The invite of {email} no longer works.", { email: invite.target_email })),
    onError: notifyError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["invites"] }),
  });
  return (
    <Panel
      title={t("Invites")}
      actions={
        <Button kind="primary" onClick={() => setNew(true)}>
          {t("Invite someone")}
        </Button>
      }
      isFlush
    >
      <Await query={invites} rows={2}>
        {(page) =>
          page.results.length ? (
            <>
              <table class="table cards">
                <thead>
                  <tr>
                    <th scope="col">{t("Invited")}</th>
                    <th scope="col">{t("As")}</th>
                    <th scope="col">{t("Invited by")}</th>
                    <th scope="col">{t("Works until")}</th>
                    <th scope="col" class="shrink">
                      <span class="hidden-text">{t("Actions")}</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.results.map((each) => (
                    <tr key={each.id}>
                      <td class="first name">
                        <Value value={each.target_email} maxChars={100} />
                      </td>
                      <td>{each.level === OWNER_LEVEL ? t("Owner") : Object.values(each.project_roles).join(", ") || t("Member")}</td>
                      <td class="muted drop">
                        <Value value={each.created_by.email} maxChars={60} />
                      </td>
                      <td class="muted">{each.is_expired ? <span class="tag warn">{t("Expired")}</span> : <Ago at={each.expires_at} />}</td>
                      <td class="shrink end corner">
                        <Button isSmall disabled={withdraw.isPending} onClick={() => withdraw.mutate(each)}>
                          {t("Withdraw")}
                        </Button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <Pager offset={offset} limit={LIMIT} count={page.count} onMove={setOffset} />
            </>
          ) : (
            <Empty title={t("No open invites")}>{t("An invite is a link that you send any way you like.")}</Empty>
          )
        }
      </Await>
      {isNew && (
        <InviteDialog
          onClose={() => setNew(false)}
          onCreated={(invite) => {
            setNew(false);
            setIssued(invite);
            void queryClient.invalidateQueries({ queryKey: ["invites"] });
          }}
        />
      )}
      {issued?.link && (
        <SecretDialog
          title={t("The invite of {email}", { email: issued.target_email })}
          label={t("link")}
          value={issued.link}
          note={t("Send it to them. It works once, until {when}.", { when: formatDate(issued.expires_at) })}
          onClose={() => setIssued(null)}
        />
      )}
    </Panel>
  );
}

function InviteDialog({ onClose, onCreated }: { onClose: () => void; onCreated: (invite: Invite) => void }) {
  const { id } = useProject();
  const [email, setEmail] = useState("");
  const [roles, setRoles] = useState<MemberRoles>({ level: 1, project_roles: { [id]: "viewer" } });
  const body = { target_email: email.trim(), level: roles.level, project_roles: roles.level === OWNER_LEVEL ? {} : roles.project_roles };
  const form = useSubmit(async () => onCreated(await call<Invite>("POST", PATH, { body })));
  return (
    <Dialog title={t("Invite someone")} description={t("You get a link that works once, for 7 days.")} isOpen onClose={onClose}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["target_email", "level", "project_roles"]} />
        <TextField label={t("Email")} type="email" required autofocus autocomplete="off" error={form.errorOf("target_email")} value={email} onInput={setEmail} />
        <LevelAndRoles value={roles} onChange={setRoles} form={form} />
        <div class="row end">
          <Button onClick={() => void copyText(buildCurl("POST", PATH, body))}>{t("Copy as curl")}</Button>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy}>
            {t("Create the link")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
