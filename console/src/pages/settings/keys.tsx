// Personal API keys: create, change, roll and revoke the own ones; owners see and revoke those of others.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { buildCurl, call, get, queryClient } from "../../api/client";
import { usesKey } from "../../api/session";
import type { MemberItem, Page as PageOf, PersonalKey } from "../../api/types";
import { describeScopes } from "../../lib/scopes";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, IconButton, SearchInput } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { Menu } from "../../ui/menu";
import { Pager, Panel } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { ProjectPicker } from "./project-picker";
import { ScopePicker } from "./scopes";
import { SecretDialog } from "./secret";

const PATH = "/api/personal_api_keys/";
const LIMIT = 25;

export function KeySettings() {
  const { user } = useProject();
  const [edited, setEdited] = useState<PersonalKey | "new" | null>(null);
  const [issued, setIssued] = useState<PersonalKey | null>(null);
  const [text, setText] = useState("");
  const [offset, setOffset] = useState(0);
  const keys = useQuery({ queryKey: ["keys"], queryFn: () => get<PersonalKey[]>(PATH) });
  const show = (key: PersonalKey) => {
    setEdited(null);
    if (key.value) setIssued(key);
    void queryClient.invalidateQueries({ queryKey: ["keys"] });
  };
  // The API returns all keys at once.
  const found = (keys.data ?? []).filter((each) => each.label.toLowerCase().includes(text.trim().toLowerCase()));
  const hasOthers = (keys.data ?? []).some((each) => each.user_id !== user?.id);
  return (
    <>
      <div class="row spread">
        <SearchInput
          label={t("Search by name")}
          value={text}
          onInput={(value) => {
            setText(value);
            setOffset(0);
          }}
        />
        <Button kind="primary" onClick={() => setEdited("new")}>
          {t("New personal API key")}
        </Button>
      </div>
      <Panel title={hasOthers ? t("Keys of all members") : t("Your keys")} isFlush>
        <Await query={keys}>
          {(all) =>
            found.length ? (
              <>
                <KeyTable keys={found.slice(offset, offset + LIMIT)} hasOthers={hasOthers} onEdit={setEdited} onIssued={show} />
                <Pager offset={offset} limit={LIMIT} count={found.length} onMove={setOffset} />
              </>
            ) : all.length ? (
              <NoMatch onClear={() => setText("")} />
            ) : (
              <Empty title={t("No keys yet")}>{t("Programs use a key: scripts, servers and CI. Give each its own, with the scopes it needs.")}</Empty>
            )
          }
        </Await>
      </Panel>
      {edited && <KeyDialog key={edited === "new" ? "new" : edited.id} edited={edited === "new" ? null : edited} onClose={() => setEdited(null)} onSaved={show} />}
      {issued?.value && (
        <SecretDialog
          title={t("The value of {label}", { label: issued.label })}
          label={t("personal API key")}
          value={issued.value}
          note={t("Programs send it as: Authorization: Bearer {start}…", { start: issued.value.slice(0, 8) })}
          onClose={() => setIssued(null)}
        />
      )}
    </>
  );
}

function KeyTable(props: { keys: PersonalKey[]; hasOthers: boolean; onEdit: (key: PersonalKey) => void; onIssued: (key: PersonalKey) => void }) {
  const members = useQuery({
    queryKey: ["members", "names"],
    queryFn: () => get<PageOf<MemberItem>>("/api/organizations/@current/members/", { limit: 1000 }),
    enabled: props.hasOthers,
    staleTime: 60_000,
  });
  const emails = new Map((members.data?.results ?? []).map((each) => [each.user.id, each.user.email]));
  return (
    <table class="table cards">
      <thead>
        <tr>
          <th scope="col">{t("Key")}</th>
          {props.hasOthers && <th scope="col">{t("Of")}</th>}
          <th scope="col">{t("May")}</th>
          <th scope="col">{t("Last used")}</th>
          <th scope="col">{t("Created")}</th>
          <th scope="col" class="shrink">
            <span class="hidden-text">{t("Actions")}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {props.keys.map((each) => (
          <KeyRow key={each.id} entry={each} owner={props.hasOthers ? (emails.get(each.user_id) ?? "…") : null} onEdit={props.onEdit} onIssued={props.onIssued} />
        ))}
      </tbody>
    </table>
  );
}

function KeyRow(props: { entry: PersonalKey; owner: string | null; onEdit: (key: PersonalKey) => void; onIssued: (key: PersonalKey) => void }) {
  const { entry } = props;
  const { user } = useProject();
  const [asked, setAsked] = useState<"roll" | "revoke" | null>(null);
  const path = `${PATH}${entry.id}/`;
  const isOwn = entry.user_id === user?.id;
  const act = useMutation({
    mutationFn: () => (asked === "roll" ? call<PersonalKey>("POST", `${path}roll/`) : call<null>("DELETE", path)),
    onSuccess: (result) => {
      setAsked(null);
      if (result) return props.onIssued(result);
      notify(t("{label} is revoked.", { label: entry.label }));
      return queryClient.invalidateQueries({ queryKey: ["keys"] });
    },
    onError: notifyError,
  });
  return (
    <tr>
      <td class="first">
        <div class="name">
          <Value value={entry.label} maxChars={80} />
        </div>
        <div class="muted small mono">{entry.mask_value}</div>
      </td>
      {props.owner !== null && (
        <td>
          <Value value={props.owner} maxChars={60} />
        </td>
      )}
      <td title={entry.scopes.join(", ")}>
        {describeScopes(entry.scopes)}
        {entry.scoped_teams.length > 0 && <div class="muted small">{tn(entry.scoped_teams.length, "in {n} project", "in {n} projects")}</div>}
      </td>
      <td class="muted">{entry.last_used_at ? <Ago at={entry.last_used_at} /> : t("Never")}</td>
      <td class="muted drop">
        <Ago at={entry.last_rolled_at ?? entry.created_at} />
      </td>
      <td class="shrink end corner">
        <Menu
          trigger={<IconButton label={t("Actions for {label}", { label: entry.label })} icon="more" isSmall />}
          entries={[
            { label: t("Change…"), isDisabled: !isOwn, onSelect: () => props.onEdit(entry) },
            { label: t("New value…"), isDisabled: !isOwn, onSelect: () => setAsked("roll") },
            { label: t("Copy as curl"), onSelect: () => void copyText(buildCurl("DELETE", path)) },
            { label: t("Revoke…"), isDangerous: true, onSelect: () => setAsked("revoke") },
          ]}
        />
        <Confirm
          title={asked === "roll" ? t("Give {label} a new value?", { label: entry.label }) : t("Revoke {label}?", { label: entry.label })}
          action={asked === "roll" ? t("Replace the value") : t("Revoke the key")}
          isDangerous
          isOpen={asked !== null}
          isBusy={act.isPending}
          onConfirm={() => act.mutate()}
          onClose={() => setAsked(null)}
        >
          <p>{asked === "roll" ? t("Programs that use the old value are refused within a second. The new value is shown once.") : t("Programs that use it are refused within a second. This cannot be undone.")}</p>
          <p class="muted">{entry.last_used_at ? t("Last used {when}.", { when: new Date(entry.last_used_at).toLocaleString() }) : t("It was never used.")}</p>
        </Confirm>
      </td>
    </tr>
  );
}

function KeyDialog({ edited, onClose, onSaved }: { edited: PersonalKey | null; onClose: () => void; onSaved: (key: PersonalKey) => void }) {
  const [label, setLabel] = useState(edited?.label ?? "");
  const [scopes, setScopes] = useState<string[]>([...(edited?.scopes ?? [])]);
  const [projects, setProjects] = useState<number[]>([...(edited?.scoped_teams ?? [])]);
  const body = { label: label.trim(), scopes, scoped_teams: projects };
  const form = useSubmit(async () => onSaved(await (edited ? call<PersonalKey>("PATCH", `${PATH}${edited.id}/`, { body }) : call<PersonalKey>("POST", PATH, { body }))));
  return (
    <Dialog title={edited ? t("Change {label}", { label: edited.label }) : t("New personal API key")} isWide isOpen onClose={onClose}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["label", "scopes", "scoped_teams"]} />
        <TextField label={t("Name")} required maxLength={40} autofocus hint={t("What uses it, such as “Deploy script”.")} error={form.errorOf("label")} value={label} onInput={setLabel} />
        <ScopePicker scopes={scopes} onChange={setScopes} allowsAll />
        {form.errorOf("scopes") && <p class="error-text">{form.errorOf("scopes")}</p>}
        <ProjectPicker ids={projects} onChange={setProjects} error={form.errorOf("scoped_teams")} />
        {usesKey() && !edited && <p class="muted small">{t("The key belongs to you, and never may more than your role.")}</p>}
        <div class="row end">
          <Button onClick={() => void copyText(buildCurl(edited ? "PATCH" : "POST", edited ? `${PATH}${edited.id}/` : PATH, body))}>{t("Copy as curl")}</Button>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy || scopes.length === 0} title={scopes.length ? undefined : t("Choose what it may do")}>
            {edited ? t("Save the key") : t("Create the key")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
