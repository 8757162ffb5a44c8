// The flag editor: left the draft, right what it does.
import { useQuery } from "@tanstack/react-query";
import { useLayoutEffect, useState } from "preact/hooks";
import { useLocation, useParams } from "wouter-preact";
import { get } from "../../api/client";
import type { Flag } from "../../api/types";
import { t } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { useRights } from "../../shell/rights";
import { ValuesInput } from "../../ui/combobox";
import { Button, Field, IconButton, Switch } from "../../ui/controls";
import { Menu } from "../../ui/menu";
import { Page, Tabs } from "../../ui/page";
import { Ago, Code, copyText } from "../../ui/show";
import { Await } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { History, readChanges } from "../history";
import { FlagEnvironments } from "../environments/flag-environments";
import { useOwnProduct } from "../environments/products";
import { FlagRollouts } from "../rollouts/flag-rollouts";
import { Conditions } from "./conditions";
import { diff, type Draft, emptyDraft, findProblems, toDraft, toFields, toScheduled } from "./draft";
import { CodeReferences, LifecycleNotice, useQuickChange } from "./lifecycle";
import { TryPerson, usePreview, WhoGetsIt } from "./preview";
import { Review } from "./review";
import { Schedule } from "./schedule/schedule";
import { buildSnippets } from "./snippets";
import { UsedBy } from "./used-by";
import { Payloads, Variants } from "./variants";

const STORED = "hedgerow.draft";

export function FlagPage() {
  const { api, root } = useProject();
  const { flag: id } = useParams<{ flag: string }>();
  const isNew = id === "new";
  const flag = useQuery({
    queryKey: ["flag", api, id],
    queryFn: () => get<Flag>(`${api}/feature_flags/${encodeURIComponent(id)}/`),
    enabled: !isNew,
    refetchOnWindowFocus: false,
  });
  if (isNew) return <Editor key="new" saved={null} onSaved={() => {}} />;
  if (!flag.data)
    return (
      <Page title={t("Feature flag")} crumbs={[{ label: t("Feature flags"), to: `${root}/feature_flags` }]}>
        <div class="panel">
          <Await query={flag}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Editor key={`${flag.data.id}-${flag.data.version}`} saved={flag.data} onSaved={() => void flag.refetch()} />;
}

/** Read a draft that was not saved before the page was closed. */
function readStored(name: string): Draft | null {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "null") as Draft | null;
  } catch {
    return null;
  }
}

function Editor({ saved, onSaved }: { saved: Flag | null; onSaved: () => void }) {
  const { api, root, id: project } = useProject();
  const reason = useRights().reason("feature_flag:write");
  const [url] = useUrlState();
  const [path, navigate] = useLocation();
  const tab = url.get("tab") ?? "conditions";
  const product = useOwnProduct();
  const storedName = `${STORED}.${project}.${saved?.id ?? "new"}.${saved?.version ?? 0}`;
  const [draft, setDraft] = useState<Draft>(() => readStored(storedName) ?? (saved ? toDraft(saved) : emptyDraft()));
  const [isReviewed, setReviewed] = useState(false);
  const change = (part: Partial<Draft>) => setDraft((current) => ({ ...current, ...part }));
  const { preview, counts } = usePreview(draft, saved?.id ?? null);
  const problems = findProblems(draft);
  const changes = diff(saved ? toFields(toDraft(saved)) : {}, toFields(draft));
  const isChanged = saved ? changes.length > 0 : diff(toFields(emptyDraft()), toFields(draft)).length > 0;
  // At once: the page may be closed right after.
  useLayoutEffect(() => {
    if (isChanged) sessionStorage.setItem(storedName, JSON.stringify(draft));
    else sessionStorage.removeItem(storedName);
  }, [draft, isChanged, storedName]);
  const discard = () => setDraft(saved ? toDraft(saved) : emptyDraft());
  const finish = (flag: Flag) => {
    sessionStorage.removeItem(storedName);
    setReviewed(false);
    notify(t("{key} is saved.", { key: flag.key }));
    if (saved) onSaved();
    else navigate(`${root}/feature_flags/${flag.id}`);
  };
  const restore = (fields: Record<string, unknown>) => {
    if (!saved) return;
    setDraft(toDraft({ ...saved, ...fields } as Flag));
    navigate(path);
    notify(t("The earlier state is in the draft. Review and save it."));
  };
  const tabs = [
    ["conditions", t("Conditions")],
    ["variants", t("Variants and payloads")],
    ["code", t("Code")],
    ...(saved
      ? [
          ["schedule", t("Schedule")],
          ["rollout", t("Rollout")],
          ...(product ? [["environments", t("Environments")]] : []),
          ["used", t("Used by")],
          ["history", t("History")],
        ]
      : []),
  ].map(([name, label]) => ({ name: name!, label: label!, to: buildUrl(path, { tab: name === "conditions" ? null : name! }) }));
  return (
    <Page
      title={saved ? saved.key : t("New feature flag")}
      crumbs={[{ label: t("Feature flags"), to: `${root}/feature_flags` }]}
      sub={
        saved && (
          <>
            {t("Version {version}", { version: saved.version })} · {t("changed")} <Ago at={saved.updated_at} />
            {saved.last_called_at && (
              <>
                {" · "}
                {t("last called")} <Ago at={saved.last_called_at} />
              </>
            )}
          </>
        )
      }
      actions={
        <>
          <span class="muted">{draft.active ? t("On") : t("Off")}</span>
          <Switch isOn={draft.active} disabled={!!reason || (saved?.archived ?? false)} label={t("The flag is on")} onChange={(active) => change({ active })} />
          {saved && <FlagMenu flag={saved} reason={reason} onDone={onSaved} />}
        </>
      }
    >
      {reason && <p class="muted">{t("You may try changes here and see who would get the flag, but not save them. {reason}", { reason })}</p>}
      {saved && <LifecycleNotice flag={saved} onDone={onSaved} />}
      <Tabs label={t("Parts of the flag")} tabs={tabs} current={tab} />
      {tab === "code" ? (
        <>
          {saved && <CodeReferences flag={saved} />}
          <Snippets draft={draft} />
        </>
      ) : tab === "schedule" && saved ? (
        <Schedule flag={saved} unsaved={isChanged && !Object.keys(problems).length ? toScheduled(draft) : null} onDraftScheduled={discard} />
      ) : tab === "rollout" && saved ? (
        <FlagRollouts flag={saved} />
      ) : tab === "environments" && saved && product ? (
        <FlagEnvironments flag={saved} product={product} />
      ) : tab === "used" && saved ? (
        <UsedBy flag={saved} />
      ) : tab === "history" && saved ? (
        <History
          path={`${api}/feature_flags/${saved.id}/activity/`}
          version={saved.version}
          action={(entry) => (
            <Button isSmall disabled={!!reason} title={reason} onClick={() => restore(Object.fromEntries(readChanges(entry).map((each) => [each.field, each.before])))}>
              {t("Restore what was before")}
            </Button>
          )}
        />
      ) : (
        <div class="split">
          <div class="stack">
            {tab === "variants" ? (
              <>
                <Variants draft={draft} problem={problems.variants} onChange={change} />
                <Payloads draft={draft} onChange={change} />
              </>
            ) : (
              <>
                <Basics draft={draft} problem={isChanged ? problems.key : undefined} onChange={change} />
                <Conditions draft={draft} counts={counts} onChange={(conditions) => change({ conditions })} />
              </>
            )}
          </div>
          <aside aria-label={t("What it does")}>
            <WhoGetsIt draft={draft} preview={preview} />
            <TryPerson draft={draft} id={saved?.id ?? null} />
          </aside>
        </div>
      )}
      {isChanged && (
        <div class="sticky-save" role="region" aria-label={t("Unsaved changes")}>
          <span class="muted">{reason ?? Object.values(problems)[0] ?? t("You have unsaved changes.")}</span>
          <span class="row">
            <Button onClick={discard}>{t("Discard")}</Button>
            <Button kind="primary" disabled={!!reason || Object.keys(problems).length > 0} onClick={() => setReviewed(true)}>
              {t("Review and save")}
            </Button>
          </span>
        </div>
      )}
      {isReviewed && <Review saved={saved} draft={draft} isOpen onClose={() => setReviewed(false)} onSaved={finish} />}
    </Page>
  );
}

/** What is rarely done with a flag. */
function FlagMenu({ flag, reason, onDone }: { flag: Flag; reason: string | undefined; onDone: () => void }) {
  const { root } = useProject();
  const [, navigate] = useLocation();
  const edit = useQuickChange(flag, onDone);
  return (
    <Menu
      trigger={<IconButton label={t("More actions")} icon="more" />}
      entries={[
        { label: t("Copy the key"), onSelect: () => void copyText(flag.key) },
        { label: t("Plan a rollout in steps"), isDisabled: !!reason || flag.archived, onSelect: () => navigate(buildUrl(`${root}/rollout_plans/new`, { flag: flag.id })) },
        flag.archived
          ? { label: t("Take out of the archive"), isDisabled: !!reason, onSelect: () => edit.mutate({ archived: false }) }
          : { label: flag.active ? t("Turn off and archive") : t("Archive"), isDisabled: !!reason, onSelect: () => edit.mutate({ active: false, archived: true }) },
      ]}
    />
  );
}

function Basics({ draft, problem, onChange }: { draft: Draft; problem: string | undefined; onChange: (part: Partial<Draft>) => void }) {
  const { user } = useProject();
  return (
    <section class="panel" aria-label={t("Name")}>
      <div class="body columns narrow">
        <Field label={t("Key")} error={problem} hint={t("Code asks for the flag by its key.")}>
          {(attributes) => (
            <input {...attributes} class="input mono" spellcheck={false} autocomplete="off" value={draft.key} onInput={(event) => onChange({ key: event.currentTarget.value })} />
          )}
        </Field>
        <Field label={t("Description")}>
          {(attributes) => <input {...attributes} class="input" value={draft.name} onInput={(event) => onChange({ name: event.currentTarget.value })} />}
        </Field>
        <Field label={t("Tags")}>{() => <ValuesInput label={t("Tags")} placeholder={t("Add a tag")} values={draft.tags} options={[]} onSearch={() => undefined} onChange={(tags) => onChange({ tags })} />}</Field>
        <Field label={t("Owners")} hint={t("Whom to ask about it: emails or teams.")}>
          {() => <ValuesInput label={t("Owners")} placeholder={t("Add an owner")} values={draft.owners} options={user ? [{ value: user.email }] : []} onSearch={() => undefined} onChange={(owners) => onChange({ owners })} />}
        </Field>
      </div>
    </section>
  );
}

function Snippets({ draft }: { draft: Draft }) {
  const { project } = useProject();
  const snippets = buildSnippets({
    host: location.origin,
    projectKey: project?.api_token ?? "",
    flag: draft.key,
    variants: draft.variants.map((each) => each.key),
    hasPayload: draft.payload !== "" || draft.variants.some((each) => each.payload !== ""),
  });
  return (
    <div class="columns">
      {snippets.map((snippet) => (
        <section class="panel" key={snippet.name} aria-label={snippet.name}>
          <div class="head">
            <h2>{snippet.name}</h2>
          </div>
          <div class="body">
            <Code text={snippet.code} label={t("{name} code", { name: snippet.name })} />
          </div>
        </section>
      ))}
    </div>
  );
}
