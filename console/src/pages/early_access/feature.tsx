// One early access feature: its stage, what people read about it, and who opted in.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useLocation, useParams } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Feature, Flag, Page as PageOf } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { Button, Field, IconButton } from "../../ui/controls";
import { Combobox } from "../../ui/combobox";
import { Confirm } from "../../ui/dialog";
import { findError, Refusal, SaveBar, TextField } from "../../ui/forms";
import { Menu } from "../../ui/menu";
import { Page, Tabs } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { History } from "../history";
import { PersonList } from "../persons/list";
import { Enrolled, Stage } from "./features";
import { enrolledIn, STAGES } from "./stages";

const SHOWN = ["name", "description", "documentation_url", "feature_flag_id"];

export function FeaturePage() {
  const { api, root } = useProject();
  const { feature: id } = useParams<{ feature: string }>();
  const path = `${api}/early_access_feature/${encodeURIComponent(id)}/`;
  const feature = useQuery({ queryKey: ["feature", path], queryFn: () => get<Feature>(path), enabled: id !== "new", refetchOnWindowFocus: false });
  const crumbs = [{ label: t("Early access"), to: `${root}/early_access_features` }];
  if (id === "new")
    return (
      <Page title={t("New early access feature")} crumbs={crumbs}>
        <FeatureForm key="new" saved={null} />
      </Page>
    );
  if (!feature.data)
    return (
      <Page title={t("Early access feature")} crumbs={crumbs}>
        <div class="panel">
          <Await query={feature}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Saved feature={feature.data} path={path} crumbs={crumbs} />;
}

function Saved({ feature, path, crumbs }: { feature: Feature; path: string; crumbs: { label: string; to: string }[] }) {
  const { root } = useProject();
  const [url] = useUrlState();
  const [address] = useLocation();
  const tab = url.get("tab") ?? "feature";
  const tabs = [
    ["feature", t("Feature")],
    ["enrolled", t("Opted in")],
    ["history", t("History")],
  ].map(([name, label]) => ({ name: name!, label: label!, to: buildUrl(address, { tab: name === "feature" ? null : name! }) }));
  return (
    <Page
      title={feature.name}
      crumbs={crumbs}
      sub={
        <span class="row">
          <Stage value={feature.stage} />
          <Link href={`${root}/feature_flags/${feature.feature_flag.id}`} class="mono">
            <Value value={feature.feature_flag.key} maxChars={80} />
          </Link>
          <span>
            <Enrolled flagKey={feature.feature_flag.key} /> {t("persons opted in")} · {t("created")} <Ago at={feature.created_at} />
          </span>
        </span>
      }
      actions={<Actions feature={feature} path={path} />}
    >
      <Tabs label={t("Parts of the feature")} tabs={tabs} current={tab} />
      {tab === "enrolled" ? (
        <PersonList parameters={enrolledIn(feature.feature_flag.key)} empty={<Empty title={t("No one has opted in yet")}>{t("Pages list features with posthog.getEarlyAccessFeatures, and people opt in with posthog.updateEarlyAccessFeatureEnrollment.")}</Empty>} />
      ) : tab === "history" ? (
        <History path={`${path}activity/`} />
      ) : (
        <FeatureForm key={JSON.stringify(feature)} saved={feature} />
      )}
    </Page>
  );
}

function FeatureForm({ saved }: { saved: Feature | null }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const mayEdit = useMay("early_access_feature:write");
  const [form, setForm] = useState({ name: saved?.name ?? "", description: saved?.description ?? "", stage: saved?.stage ?? "concept", documentation_url: saved?.documentation_url ?? "" });
  const [flagKey, setFlagKey] = useState("");
  const flag = useFlag(flagKey, saved === null);
  const change = (part: Partial<typeof form>) => setForm((current) => ({ ...current, ...part }));
  const fields = { ...form, ...(!saved && flag.found ? { feature_flag_id: flag.found.id } : {}) };
  const isChanged = !saved || Object.entries(form).some(([name, value]) => saved[name as keyof Feature] !== value);
  const problem = !form.name.trim() ? t("A feature needs a name.") : !saved && flagKey.trim() && !flag.found ? t("No flag has this key. Leave it empty for a new one.") : undefined;
  const method = saved ? "PATCH" : "POST";
  const path = saved ? `${api}/early_access_feature/${saved.id}/` : `${api}/early_access_feature/`;
  const save = useMutation({
    mutationFn: () => call<Feature>(method, path, { body: fields }),
    onSuccess: (feature) => {
      for (const key of ["features", "feature", "flags", "flag", "history"]) void queryClient.invalidateQueries({ queryKey: [key] });
      notify(t("{name} is saved.", { name: feature.name }));
      if (!saved) navigate(`${root}/early_access_features/${feature.id}`);
    },
  });
  return (
    <>
      <fieldset class="plain stack" disabled={!mayEdit}>
        <section class="panel" aria-label={t("What people read")}>
          <div class="body stack">
            <TextField label={t("Name")} required value={form.name} onInput={(name) => change({ name })} error={findError(save.error, "name")} />
            <TextField label={t("Description")} isLong value={form.description} onInput={(description) => change({ description })} error={findError(save.error, "description")} />
            <TextField label={t("Address of a page about it")} type="url" placeholder="https://" value={form.documentation_url} onInput={(documentation_url) => change({ documentation_url })} error={findError(save.error, "documentation_url")} />
            {!saved && (
              <Field label={t("Key of an existing flag")} hint={t("Leave it empty to create a new flag. Flags with variants or for groups cannot be used.")} error={findError(save.error, "feature_flag_id")}>
                {() => <Combobox label={t("Key of an existing flag")} value={flagKey} options={flag.options} onInput={setFlagKey} onChoose={setFlagKey} hasError={!!findError(save.error, "feature_flag_id")} />}
              </Field>
            )}
          </div>
        </section>
        <section class="panel" aria-label={t("Stage")}>
          <div class="head">
            <h2>{t("Stage")}</h2>
          </div>
          <div class="body stack s" role="radiogroup" aria-label={t("Stage")}>
            {STAGES.map((stage) => (
              <label class="check" key={stage.value}>
                <input type="radio" name="stage" value={stage.value} checked={form.stage === stage.value} onChange={() => change({ stage: stage.value })} />
                <span>
                  <strong>{stage.label}</strong> <span class="muted">{stage.meaning}</span>
                </span>
              </label>
            ))}
          </div>
        </section>
        <Refusal error={save.error} shown={SHOWN} />
      </fieldset>
      <SaveBar isShown={mayEdit && isChanged} isBusy={save.isPending} label={saved ? t("Save") : t("Create the feature")} problem={problem} onSave={() => save.mutate()} onDiscard={saved ? () => setForm({ name: saved.name, description: saved.description, stage: saved.stage, documentation_url: saved.documentation_url }) : undefined}>
        {saved && saved.stage !== form.stage && (
          <span class="muted">
            {t("The new stage counts at once for")} <Enrolled flagKey={saved.feature_flag.key} /> {t("persons.")}
          </span>
        )}
        <Button kind="quiet" onClick={() => void copyText(buildCurl(method, path, fields))}>
          {t("Copy as curl")}
        </Button>
      </SaveBar>
    </>
  );
}

/** Find the flag with a key, and flags to choose from. */
function useFlag(key: string, isEnabled: boolean) {
  const { api } = useProject();
  const search = useSettled(key.trim(), 200);
  const flags = useQuery({
    queryKey: ["flags", api, "keys", search, "boolean"],
    queryFn: ({ signal }) => get<PageOf<Flag>>(`${api}/feature_flags/`, { search, type: "boolean", limit: 20 }, signal),
    placeholderData: keepPreviousData,
    enabled: isEnabled,
  });
  const results = flags.data?.results ?? [];
  return { found: results.find((each) => each.key === key.trim()), options: results.map((each) => ({ value: each.key })) };
}

function Actions({ feature, path }: { feature: Feature; path: string }) {
  const { root } = useProject();
  const [, navigate] = useLocation();
  const [isDeleting, setDeleting] = useState(false);
  const mayEdit = useMay("early_access_feature:write");
  const remove = useMutation({
    mutationFn: () => call("DELETE", path),
    onSuccess: () => {
      for (const key of ["features", "flags"]) void queryClient.invalidateQueries({ queryKey: [key] });
      notify(t("{name} is deleted.", { name: feature.name }));
      navigate(`${root}/early_access_features`);
    },
    onError: notifyError,
  });
  if (!mayEdit) return <span class="muted small">{NOT_ALLOWED}</span>;
  return (
    <>
      <Menu trigger={<IconButton label={t("Actions for this feature")} icon="more" />} entries={[{ label: t("Delete…"), isDangerous: true, onSelect: () => setDeleting(true) }]} />
      <Confirm title={t("Delete {name}?", { name: feature.name })} action={t("Delete the feature")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
        <p>
          <Enrolled flagKey={feature.feature_flag.key} /> {t("persons have opted in. The flag {key} stays, and is evaluated by its own conditions only: they may lose it. This cannot be undone.", { key: feature.feature_flag.key })}
        </p>
      </Confirm>
    </>
  );
}
