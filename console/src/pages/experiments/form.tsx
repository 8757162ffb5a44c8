// The form of an experiment: the flag with its variants, and the metrics.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Experiment, Flag, Page as PageOf, Variant } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatPercent, t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useMay } from "../../shell/rights";
import { Button, Field, IconButton, Percent, Select } from "../../ui/controls";
import { Combobox } from "../../ui/combobox";
import { Check, findError, Refusal, SaveBar, TextField } from "../../ui/forms";
import { Panel } from "../../ui/page";
import { copyText } from "../../ui/show";
import { notify } from "../../ui/toasts";
import { distribute, isSame, newUid, type DraftVariant } from "../flag/draft";
import { readShare, useHoldouts } from "./holdouts";
import { Metrics } from "./metrics";
import { type DraftMetric, findMetricProblem, readMetric, writeMetric } from "./metric-draft";

const SHOWN = ["name", "description", "feature_flag_key", "metrics", "metrics_secondary", "parameters", "holdout_id"];
const DEFAULT_LOOKBACK_DAYS = 7;
const MAX_LOOKBACK_DAYS = 30;

interface Form {
  name: string;
  description: string;
  flag: string;
  variants: DraftVariant[];
  rollout: number;
  metrics: DraftMetric[];
  secondary: DraftMetric[];
  /** The id of a holdout, empty for none. */
  holdout: string;
  usesHistory: boolean;
  lookbackDays: string;
}

function variant(key: string): DraftVariant {
  return { uid: newUid(), key, name: "", rollout: 50, payload: "" };
}

function readForm(saved: Experiment | null): Form {
  return {
    name: saved?.name ?? "",
    description: saved?.description ?? "",
    flag: saved?.feature_flag_key ?? "",
    variants: [variant("control"), variant("test")],
    rollout: 100,
    metrics: (saved?.metrics ?? []).map(readMetric),
    secondary: (saved?.metrics_secondary ?? []).map(readMetric),
    holdout: String(saved?.holdout_id ?? ""),
    usesHistory: readCuped(saved).enabled === true,
    lookbackDays: String(readCuped(saved).lookback_days ?? DEFAULT_LOOKBACK_DAYS),
  };
}

const readCuped = (saved: Experiment | null): { enabled?: unknown; lookback_days?: unknown } => (saved?.stats_config.cuped ?? {}) as object;

/** Return what of the statistics the form changes. */
function writeOptions(form: Form, saved: Experiment | null): Record<string, unknown> {
  const before = readForm(saved);
  const cuped = { ...readCuped(saved), enabled: form.usesHistory, lookback_days: Number(form.lookbackDays) };
  const isHistoryChanged = form.usesHistory !== before.usesHistory || (form.usesHistory && form.lookbackDays !== before.lookbackDays);
  return {
    ...(form.holdout === before.holdout ? {} : { holdout_id: form.holdout ? Number(form.holdout) : null }),
    ...(isHistoryChanged ? { stats_config: { ...saved?.stats_config, cuped } } : {}),
  };
}

const suggestKey = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");

export function ExperimentForm({ saved }: { saved: Experiment | null }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const mayEdit = useMay("experiment:write");
  const [form, setForm] = useState(() => readForm(saved));
  const change = (part: Partial<Form>) => setForm((current) => ({ ...current, ...part }));
  const flags = useFlags(form.flag, saved === null);
  const existing = flags.find((each) => each.key === form.flag);
  const documents = { metrics: form.metrics.map(writeMetric), metrics_secondary: form.secondary.map(writeMetric) };
  const options = writeOptions(form, saved);
  const days = Number(form.lookbackDays);
  const parameters = { feature_flag_variants: form.variants.map((each): Variant => ({ key: each.key, rollout_percentage: each.rollout })), rollout_percentage: form.rollout };
  const fields = saved
    ? { name: form.name, description: form.description, ...Object.fromEntries(Object.entries(documents).filter(([name, value]) => !isSame(value, (saved[name as keyof Experiment] as unknown[]).map(readMetric).map(writeMetric)))), ...options }
    : { name: form.name, description: form.description, feature_flag_key: form.flag, ...documents, ...options, ...(existing ? {} : { parameters }) };
  const isChanged = !saved || form.name !== saved.name || form.description !== saved.description || Object.keys(fields).length > 2;
  const total = form.variants.reduce((sum, each) => sum + each.rollout, 0);
  const problem = !form.name.trim()
    ? t("An experiment needs a name.")
    : !form.flag.trim()
      ? t("An experiment needs the key of a flag.")
      : !saved && !existing && Math.abs(total - 100) > 0.001
        ? t("The shares add up to {total} %. They must add up to 100 %.", { total })
        : form.usesHistory && !(Number.isInteger(days) && days >= 1 && days <= MAX_LOOKBACK_DAYS)
          ? t("The days before are a whole number from 1 to {max}.", { max: MAX_LOOKBACK_DAYS })
          : findMetricProblem([...form.metrics, ...form.secondary]);
  const method = saved ? "PATCH" : "POST";
  const path = saved ? `${api}/experiments/${saved.id}/` : `${api}/experiments/`;
  const save = useMutation({
    mutationFn: () => call<Experiment>(method, path, { body: fields }),
    onSuccess: (experiment) => {
      for (const key of ["experiments", "experiment", "flags", "history"]) void queryClient.invalidateQueries({ queryKey: [key] });
      notify(t("{name} is saved.", { name: experiment.name }));
      if (!saved) navigate(`${root}/experiments/${experiment.id}`);
    },
  });
  const rename = (name: string) => change({ name, ...(!saved && form.flag === suggestKey(form.name) ? { flag: suggestKey(name) } : {}) });
  return (
    <>
      <fieldset class="plain stack" disabled={!mayEdit}>
        <section class="panel" aria-label={t("Name")}>
          <div class="body stack">
            <TextField label={t("Name")} required value={form.name} onInput={rename} error={findError(save.error, "name")} />
            <TextField label={t("What do you expect, and why?")} isLong value={form.description} onInput={(description) => change({ description })} error={findError(save.error, "description")} />
          </div>
        </section>
        {!saved && (
          <section class="panel" aria-label={t("Flag and variants")}>
            <div class="head">
              <h2>{t("Flag and variants")}</h2>
            </div>
            <div class="body stack">
              <Field label={t("Key of the flag")} error={findError(save.error, "feature_flag_key")} hint={existing ? t("This flag exists. The experiment uses its variants and conditions; the first variant must be control.") : t("A new flag with this key is created. It is off until the launch.")}>
                {() => <Combobox label={t("Key of the flag")} value={form.flag} options={flags.map((each) => ({ value: each.key }))} onInput={(flag) => change({ flag })} onChoose={(flag) => change({ flag })} hasError={!!findError(save.error, "feature_flag_key")} />}
              </Field>
              {!existing && <NewVariants form={form} onChange={change} error={findError(save.error, "parameters")} />}
            </div>
          </section>
        )}
        <Metrics label={t("Primary metrics")} hint={t("What should get better? The first metric decides the verdict.")} metrics={form.metrics} error={findError(save.error, "metrics")} onChange={(metrics) => change({ metrics })} />
        <Metrics label={t("Secondary metrics")} hint={t("What else must not get worse?")} metrics={form.secondary} error={findError(save.error, "metrics_secondary")} onChange={(secondary) => change({ secondary })} />
        <Options form={form} onChange={change} error={findError(save.error, "holdout_id")} />
        <Refusal error={save.error} shown={saved ? SHOWN.filter((each) => each !== "feature_flag_key" && each !== "parameters") : SHOWN} />
      </fieldset>
      <SaveBar isShown={mayEdit && isChanged} isBusy={save.isPending} label={saved ? t("Save") : t("Create as a draft")} problem={problem} onSave={() => save.mutate()} onDiscard={saved ? () => setForm(readForm(saved)) : undefined}>
        <Button kind="quiet" onClick={() => void copyText(buildCurl(method, path, fields))}>
          {t("Copy as curl")}
        </Button>
      </SaveBar>
    </>
  );
}

function Options({ form, onChange, error }: { form: Form; onChange: (part: Partial<Form>) => void; error: string | undefined }) {
  const holdouts = useHoldouts();
  const isOther = form.holdout !== "" && !holdouts.some((each) => String(each.id) === form.holdout);
  const choices = [
    { value: "", label: t("None: everyone can take part") },
    ...holdouts.map((each) => ({ value: String(each.id), label: `${each.name} · ${formatPercent(readShare(each))}` })),
    ...(isOther ? [{ value: form.holdout, label: t("Of this experiment alone") }] : []),
  ];
  return (
    <Panel title={t("Holdout and precision")}>
      <div class="body stack">
        <Field label={t("Holdout")} error={error} hint={t("Its people get no variant of any experiment that uses it.")}>
          {(attributes) => <Select {...attributes} label={t("Holdout")} value={form.holdout} choices={choices} onChange={(holdout) => onChange({ holdout })} />}
        </Field>
        <Check label={t("Use what people did before (CUPED)")} isOn={form.usesHistory} onChange={(usesHistory) => onChange({ usesHistory })} />
        <p class="hint">{t("Means are adjusted by the same metric of the same person before the experiment. The expected difference stays, and intervals get narrower. Conversions and ratios are not adjusted.")}</p>
        {form.usesHistory && <TextField label={t("Days before")} type="number" class="length" min={1} max={MAX_LOOKBACK_DAYS} value={form.lookbackDays} onInput={(lookbackDays) => onChange({ lookbackDays })} />}
      </div>
    </Panel>
  );
}

function useFlags(search: string, isEnabled: boolean): Flag[] {
  const { api } = useProject();
  const settled = useSettled(search.trim(), 200);
  const flags = useQuery({
    queryKey: ["flags", api, "keys", settled],
    queryFn: ({ signal }) => get<PageOf<Flag>>(`${api}/feature_flags/`, { search: settled, limit: 20 }, signal),
    placeholderData: keepPreviousData,
    enabled: isEnabled,
  });
  return flags.data?.results ?? [];
}

function NewVariants({ form, onChange, error }: { form: Form; onChange: (part: Partial<Form>) => void; error: string | undefined }) {
  const { variants } = form;
  const replace = (uid: string, part: Partial<DraftVariant>) => onChange({ variants: variants.map((each) => (each.uid === uid ? { ...each, ...part } : each)) });
  return (
    <>
      {variants.map((each, index) => (
        <div class="variant short" key={each.uid}>
          <TextField label={t("Variant {n}", { n: index + 1 })} isCode disabled={index === 0} value={each.key} onInput={(key) => replace(each.uid, { key })} />
          <TextField label={t("Share {n}, %", { n: index + 1 })} type="number" value={String(each.rollout)} onInput={(text) => replace(each.uid, { rollout: Number(text) || 0 })} />
          <IconButton icon="trash" label={t("Remove variant {key}", { key: each.key })} disabled={index === 0 || variants.length <= 2} onClick={() => onChange({ variants: distribute(variants.filter((other) => other !== each)) })} />
        </div>
      ))}
      {error && (
        <p class="error-text" role="alert">
          {error}
        </p>
      )}
      <div>
        <Button isSmall icon="plus" onClick={() => onChange({ variants: distribute([...variants, variant(`test-${variants.length}`)]) })}>
          {t("Add a variant")}
        </Button>
      </div>
      <div class="row">
        <span class="label">{t("Include")}</span>
        <div class="grow" style={{ maxWidth: "22rem" }}>
          <Percent label={t("Share of everyone in the experiment")} value={form.rollout} onChange={(rollout) => onChange({ rollout })} />
        </div>
        <span class="muted">{t("of everyone")}</span>
      </div>
    </>
  );
}
