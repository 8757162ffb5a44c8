// Roles: sets of scopes that members have in a project.
import { useMutation } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { call, queryClient } from "../../api/client";
import type { Role } from "../../api/types";
import { describeScopes } from "../../lib/scopes";
import { t, tn } from "../../lib/text";
import { OWNERS_ONLY, useRights } from "../../shell/rights";
import { Button, IconButton } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { Menu } from "../../ui/menu";
import { Panel } from "../../ui/page";
import { Value } from "../../ui/show";
import { Await } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { ROLES_PATH, ScopePicker, useRoles } from "./scopes";

const refresh = () => queryClient.invalidateQueries({ queryKey: ["roles"] });

export function RoleSettings() {
  const { isOwner } = useRights();
  const [edited, setEdited] = useState<Role | "new" | null>(null);
  const roles = useRoles();
  return (
    <>
      <div class="row spread">
        <p class="muted">{t("A member has one role in each project. Owners may do everything everywhere.")}</p>
        <Button kind="primary" disabled={!isOwner} title={isOwner ? undefined : OWNERS_ONLY} onClick={() => setEdited("new")}>
          {t("New role")}
        </Button>
      </div>
      <Panel title={t("Roles")} isFlush>
        <Await query={roles} rows={3}>
          {(found) => (
            <table class="table cards">
              <thead>
                <tr>
                  <th scope="col">{t("Role")}</th>
                  <th scope="col">{t("May")}</th>
                  <th scope="col" class="num">
                    {t("Members")}
                  </th>
                  <th scope="col" class="shrink">
                    <span class="hidden-text">{t("Actions")}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {found.map((each) => (
                  <RoleRow key={each.id} role={each} isOwner={isOwner} onEdit={setEdited} />
                ))}
              </tbody>
            </table>
          )}
        </Await>
      </Panel>
      {edited && <RoleDialog edited={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </>
  );
}

function RoleRow({ role, isOwner, onEdit }: { role: Role; isOwner: boolean; onEdit: (role: Role) => void }) {
  const [isDeleting, setDeleting] = useState(false);
  const remove = useMutation({
    mutationFn: () => call("DELETE", `${ROLES_PATH}${role.id}/`),
    onSuccess: () => notify(t("{name} is deleted.", { name: role.name })),
    onError: notifyError,
    onSettled: () => {
      setDeleting(false);
      return refresh();
    },
  });
  return (
    <tr>
      <td class="first">
        <span class="name">
          <Value value={role.name} maxChars={80} />
        </span>{" "}
        {role.is_built_in && <span class="tag">{t("Built in")}</span>}
      </td>
      <td class="wide" title={role.scopes.join(", ")}>
        {describeScopes(role.scopes)}
      </td>
      <td class="num">{role.members}</td>
      <td class="shrink end corner">
        {!role.is_built_in && (
          <Menu
            trigger={<IconButton label={t("Actions for {name}", { name: role.name })} icon="more" isSmall disabled={!isOwner} />}
            entries={[
              { label: t("Change…"), onSelect: () => onEdit(role) },
              { label: role.members ? t("Delete: members have it") : t("Delete…"), isDangerous: true, isDisabled: role.members > 0, onSelect: () => setDeleting(true) },
            ]}
          />
        )}
        <Confirm title={t("Delete {name}?", { name: role.name })} action={t("Delete the role")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
          <p>{t("No member has it: no one loses a right. Invites that name it stop working.")}</p>
        </Confirm>
      </td>
    </tr>
  );
}

function RoleDialog({ edited, onClose }: { edited: Role | null; onClose: () => void }) {
  const [name, setName] = useState(edited?.name ?? "");
  const [scopes, setScopes] = useState<string[]>([...(edited?.scopes ?? [])]);
  const form = useSubmit(async () => {
    const body = { name: name.trim(), scopes };
    await (edited ? call("PATCH", `${ROLES_PATH}${edited.id}/`, { body }) : call("POST", ROLES_PATH, { body }));
    await refresh();
    onClose();
  });
  return (
    <Dialog
      title={edited ? t("Change {name}", { name: edited.name }) : t("New role")}
      {...(edited?.members ? { description: tn(edited.members, "The change counts at once for {n} member.", "The change counts at once for {n} members.") } : {})}
      isWide
      isOpen
      onClose={onClose}
    >
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["name", "scopes"]} />
        <TextField label={t("Name")} required autofocus maxLength={200} error={form.errorOf("name")} value={name} onInput={setName} />
        <ScopePicker scopes={scopes} onChange={setScopes} allowsAll={false} />
        {form.errorOf("scopes") && <p class="error-text">{form.errorOf("scopes")}</p>}
        <div class="row end">
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy || scopes.length === 0} title={scopes.length ? undefined : t("Choose what it may do")}>
            {edited ? t("Save the role") : t("Create the role")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
