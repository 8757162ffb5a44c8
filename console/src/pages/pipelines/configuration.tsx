// The settings form of a record, made from the schema of its component, with a preview beside it.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { get, queryClient } from "../../api/client";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, Field } from "../../ui/controls";
import { Empty } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { isSame } from "../flag/draft";
import { type Draft, findProblems, listChanges, MASK, type PipelineRecord, readConfig, type RecordProps, type Setting, toDraft, toParts } from "./model";
import { Review } from "./review";
import { SettingField } from "./settings";
import { DraftPreview } from "./try";

const STORED = "hedgerow.pipeline";
// Settings that most people leave alone.
const ADVANCED = new Set(["sampling", "keep_order", "batch_size", "batch_seconds"]);
const FILTERS = new Set(["events", "properties"]);

/** What was typed, and the record that it changes. */
interface Edit {
  draft: Draft;
  base: PipelineRecord;
}

function readStored(name: string): Edit | null {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "null") as Edit | null;
  } catch {
    return null;
  }
}

/** A draft without new secrets, which must not lie around in the browser. */
function withoutSecrets(draft: Draft, saved: Draft, settings: Setting[]): Draft {
  const values = { ...draft.values };
  for (const each of settings) if (each.secret) values[each.key] = saved.values[each.key];
  return { ...draft, values };
}

export function Configuration(props: RecordProps) {
  const { family, record, component, path, refusal } = props;
  const { id: project } = useProject();
  const settings = component?.config_schema ?? [];
  const storedName = `${STORED}.${project}.${record.id}`;
  const [{ draft, base }, setEdit] = useState<Edit>(() => readStored(storedName) ?? { draft: toDraft(record, settings), base: record });
  const saved = toDraft(base, settings);
  const setDraft = (next: Draft) => setEdit((edit) => ({ ...edit, draft: next }));
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [isReviewed, setReviewed] = useState(false);
  const secrets = new Set(settings.filter((each) => each.secret).map((each) => `config.${each.key}`));
  const changes = listChanges(toParts(saved, settings), toParts(draft, settings), secrets);
  const isChanged = changes.length > 0;
  const problems = isChanged ? findProblems(draft, settings) : {};
  // At once: the page may be closed right after.
  useLayoutEffect(() => {
    if (isChanged) sessionStorage.setItem(storedName, JSON.stringify({ draft: withoutSecrets(draft, saved, settings), base }));
    else sessionStorage.removeItem(storedName);
  }, [draft, base, isChanged, storedName]);
  useEffect(() => {
    // Someone turned it on or moved it, or nothing is typed: go on from there. Otherwise saving merges.
    const isOther = !isSame(toParts(toDraft(record, settings), settings), toParts(saved, settings));
    if (record.updated_at === base.updated_at || (isChanged && isOther)) return;
    setEdit((edit) => ({ base: record, draft: isChanged ? edit.draft : toDraft(record, settings) }));
  }, [record.updated_at]);
  if (!component) return <Empty title={t("The component is not installed")}>{t("Install its package again, or delete this record.")}</Empty>;
  const change = (key: string, value: unknown) => {
    setEdit((edit) => ({ ...edit, draft: { ...edit.draft, values: { ...edit.draft.values, [key]: value } } }));
    setErrors(({ [key]: _, ...rest }) => rest);
  };
  const finish = async () => {
    const fresh = await get<PipelineRecord>(`${path}/`);
    setEdit({ base: fresh, draft: toDraft(fresh, settings) });
    setReviewed(false);
    notify(t("{name} is saved.", { name: fresh.name }));
    void queryClient.invalidateQueries({ queryKey: ["pipelines"] });
  };
  const config = readConfig(base);
  const show = (each: Setting) => (
    <SettingField
      key={each.key}
      family={family}
      setting={each}
      value={draft.values[each.key]}
      isStored={config[each.key] === MASK}
      error={errors[each.key] ?? problems[each.key]}
      isDisabled={!!refusal}
      onChange={(value) => change(each.key, value)}
    />
  );
  const main = settings.filter((each) => !ADVANCED.has(each.key) && !FILTERS.has(each.key));
  const filters = settings.filter((each) => FILTERS.has(each.key));
  const advanced = settings.filter((each) => ADVANCED.has(each.key));
  const hasPreview = family.name === "destinations" || family.name === "transformations";
  return (
    <>
      {refusal && <p class="notice warn">{refusal}</p>}
      <div class={hasPreview ? "split preview" : ""}>
        <div class="stack">
          <section class="panel" aria-label={t("Settings")}>
            <div class="body stack l">
              <Field label={t("Name")} error={errors.name}>
                {(attributes) => (
                  <input {...attributes} class="input" maxLength={400} disabled={!!refusal} value={draft.name} onInput={(event) => setDraft({ ...draft, name: event.currentTarget.value })} />
                )}
              </Field>
              {main.map(show)}
              <Field label={t("Description")} error={errors.description}>
                {(attributes) => (
                  <textarea {...attributes} class="input" rows={2} maxLength={1000} disabled={!!refusal} value={draft.description} onInput={(event) => setDraft({ ...draft, description: event.currentTarget.value })} />
                )}
              </Field>
            </div>
          </section>
          {filters.length > 0 && (
            <section class="panel" aria-label={t("Which events")}>
              <div class="head">
                <h2>{t("Which events")}</h2>
              </div>
              <div class="body stack l">{filters.map(show)}</div>
            </section>
          )}
          {advanced.length > 0 && (
            <details class="panel">
              <summary class="head">
                <h2>{t("Sampling, order and batches")}</h2>
              </summary>
              <div class="body stack l">{advanced.map(show)}</div>
            </details>
          )}
        </div>
        {hasPreview && (
          <aside aria-label={t("Preview")}>
            <DraftPreview {...props} draft={draft} settings={settings} isBlocked={Object.keys(problems).length > 0} />
          </aside>
        )}
      </div>
      {isChanged && (
        <div class="sticky-save" role="region" aria-label={t("Unsaved changes")}>
          <span class="muted">{Object.values(problems)[0] ?? t("You have unsaved changes.")}</span>
          <span class="row">
            <Button
              onClick={() => {
                setDraft(saved);
                setErrors({});
              }}
            >
              {t("Discard")}
            </Button>
            <Button kind="primary" disabled={Object.keys(problems).length > 0 || !!refusal} onClick={() => setReviewed(true)}>
              {t("Review and save")}
            </Button>
          </span>
        </div>
      )}
      {isReviewed && (
        <Review
          {...props}
          record={base}
          draft={draft}
          settings={settings}
          onClose={() => setReviewed(false)}
          onSaved={() => void finish()}
          onRefused={(key, detail) => {
            setErrors({ [key]: detail });
            setReviewed(false);
          }}
        />
      )}
    </>
  );
}
