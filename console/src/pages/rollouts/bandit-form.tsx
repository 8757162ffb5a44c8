// The form of a bandit: what is best, how much each variant keeps, and how often the split is computed.
import { useState } from "preact/hooks";
import { call, queryClient } from "../../api/client";
import type { Bandit, Flag } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, Field } from "../../ui/controls";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { notify } from "../../ui/toasts";
import { MetricForm } from "../experiments/metrics";
import { findBanditProblem, newBandit, readBandit, writeBandit } from "./bandit";
import { LengthInput } from "./guide";

const SHOWN = ["name", "metric", "floor_percent", "interval_seconds", "min_persons"];

export function BanditForm({ flag, saved, onClose }: { flag: Flag; saved: Bandit | null; onClose: () => void }) {
  const { api } = useProject();
  const [draft, setDraft] = useState(() => (saved ? readBandit(saved) : newBandit()));
  const change = (part: Partial<typeof draft>) => setDraft((before) => ({ ...before, ...part }));
  const form = useSubmit(async () => {
    const fields = writeBandit(draft);
    await (saved ? call("PATCH", `${api}/bandits/${saved.id}/`, { body: fields }) : call("POST", `${api}/bandits/`, { body: { flag: flag.id, ...fields } }));
    await queryClient.invalidateQueries({ queryKey: ["bandits"] });
    notify(saved ? t("The bandit is saved.") : t("The bandit is a draft. Nothing changes before you start it."));
    onClose();
  });
  const problem = findBanditProblem(draft, flag.filters.multivariate?.variants.length ?? 0);
  return (
    <form class="body stack l" onSubmit={form.submit}>
      <Refusal error={form.error} shown={SHOWN} />
      <MetricForm metric={draft.metric} name={t("Metric")} kinds={["funnel", "ratio"]} window={t("1 day")} onChange={(metric) => change({ metric })} />
      {form.errorOf("metric") && (
        <p class="error-text" role="alert">
          {form.errorOf("metric")}
        </p>
      )}
      <div class="columns narrow">
        <TextField label={t("Name of the bandit (optional)")} value={draft.name} error={form.errorOf("name")} onInput={(name) => change({ name })} />
        <TextField label={t("Each variant keeps at least, in percent")} type="number" min={1} max={50} value={draft.floor} error={form.errorOf("floor_percent")} onInput={(floor) => change({ floor })} />
        <TextField label={t("People of each variant before it moves")} type="number" min={10} value={draft.minPersons} error={form.errorOf("min_persons")} onInput={(minPersons) => change({ minPersons })} />
        <Field label={t("Compute the split every")} error={form.errorOf("interval_seconds")}>
          {() => <LengthInput label={t("Compute the split every")} length={draft.interval} onChange={(interval) => change({ interval })} />}
        </Field>
      </div>
      <div class="row end">
        {problem && <span class="muted">{problem}</span>}
        <Button onClick={onClose}>{t("Cancel")}</Button>
        <Button kind="primary" type="submit" disabled={!!problem || form.isBusy}>
          {saved ? t("Save") : t("Create the draft")}
        </Button>
      </div>
    </form>
  );
}
