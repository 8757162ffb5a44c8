// The form of a rollout plan: the flag, the steps, what must not get worse, and what happens then.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Flag, Page, RolloutPlan } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { Combobox } from "../../ui/combobox";
import { Button, Field, IconButton, Select } from "../../ui/controls";
import { Check, findError, Refusal, SaveBar, TextField } from "../../ui/forms";
import { Panel } from "../../ui/page";
import { copyText } from "../../ui/show";
import { notify } from "../../ui/toasts";
import { ConditionChoice } from "../flag/schedule/form";
import { LengthInput } from "./guide";
import { Guardrails } from "./metrics";
import { type DraftStep, findPlanProblem, newPlan, newStep, type PlanDraft, readPlan, writePlan } from "./plan";

const SHOWN = ["flag", "condition_index", "name", "steps", "metrics", "alpha", "window_seconds", "destinations"];

export function PlanForm({ saved, flag }: { saved: RolloutPlan | null; flag: number | null }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const refusal = useRefusal("feature_flag:write");
  const [draft, setDraft] = useState<PlanDraft>(() => (saved ? readPlan(saved) : newPlan(flag)));
  const change = (part: Partial<PlanDraft>) => setDraft((before) => ({ ...before, ...part }));
  const path = `${api}/rollout_plans/${saved ? `${saved.id}/` : ""}`;
  const method = saved ? "PATCH" : "POST";
  const fields = writePlan(draft);
  const isChanged = !saved || JSON.stringify(fields) !== JSON.stringify(writePlan(readPlan(saved)));
  const save = useMutation({
    mutationFn: () => call<RolloutPlan>(method, path, { body: fields }),
    onSuccess: async (plan) => {
      await queryClient.invalidateQueries({ queryKey: ["rollouts"] });
      queryClient.setQueryData(["rollout", api, String(plan.id)], plan);
      notify(saved ? t("The rollout is saved.") : t("The rollout is a draft. Nothing changes before you start it."));
      if (!saved) navigate(`${root}/rollout_plans/${plan.id}`);
      else setDraft(readPlan(plan));
    },
  });
  const errorOf = (name: string) => findError(save.error, name);
  return (
    <>
      <fieldset class="plain stack l" disabled={!!refusal}>
        {refusal && <p class="muted">{refusal}</p>}
        <Refusal error={save.error} shown={SHOWN} />
        <What draft={draft} change={change} errorOf={errorOf} />
        <Steps steps={draft.steps} error={errorOf("steps")} onChange={(steps) => change({ steps })} />
        <Guardrails metrics={draft.metrics} error={save.error} onChange={(metrics) => change({ metrics })} />
        <Rules draft={draft} change={change} errorOf={errorOf} />
      </fieldset>
      <SaveBar isShown={!refusal && isChanged} isBusy={save.isPending} label={saved ? t("Save") : t("Create the draft")} problem={findPlanProblem(draft)} onSave={() => save.mutate()} onDiscard={saved ? () => setDraft(readPlan(saved)) : undefined}>
        <Button kind="quiet" onClick={() => void copyText(buildCurl(method, path, fields))}>
          {t("Copy as curl")}
        </Button>
      </SaveBar>
    </>
  );
}

interface PartProps {
  draft: PlanDraft;
  change: (part: Partial<PlanDraft>) => void;
  errorOf: (name: string) => string | undefined;
}

function What({ draft, change, errorOf }: PartProps) {
  const { api } = useProject();
  const chosen = useQuery({ queryKey: ["flag", api, String(draft.flag)], queryFn: () => get<Flag>(`${api}/feature_flags/${draft.flag}/`), enabled: draft.flag !== null });
  return (
    <Panel title={t("What is rolled out")}>
      <div class="body columns">
        <Field label={t("Flag")} error={errorOf("flag")}>
          {() => <FlagInput chosen={chosen.data?.key ?? ""} onChoose={(flag) => change({ flag, condition: 0 })} />}
        </Field>
        <TextField label={t("Name (optional)")} value={draft.name} error={errorOf("name")} onInput={(name) => change({ name })} />
        {chosen.data && <ConditionChoice flag={chosen.data} value={draft.condition} onChange={(condition) => change({ condition })} />}
      </div>
      {errorOf("condition_index") && <p class="body error-text">{errorOf("condition_index")}</p>}
    </Panel>
  );
}

/** A flag, found by its key or description. */
function FlagInput({ chosen, onChoose }: { chosen: string; onChoose: (id: number) => void }) {
  const { api } = useProject();
  const [text, setText] = useState<string | null>(null);
  const search = useSettled(text ?? "", 150);
  const found = useQuery({ queryKey: ["flags", "choices", api, search], queryFn: () => get<Page<Flag>>(`${api}/feature_flags/`, { search, limit: 20 }) });
  const flags = found.data?.results ?? [];
  return (
    <Combobox
      label={t("Flag")}
      placeholder={t("Search by key or description")}
      value={text ?? chosen}
      options={flags.map((each) => ({ value: each.key, note: each.name.slice(0, 40) }))}
      isLoading={found.isFetching}
      onInput={setText}
      onChoose={(key) => {
        const flag = flags.find((each) => each.key === key);
        if (flag) onChoose(flag.id);
        setText(null);
      }}
      onLeave={() => setText(null)}
    />
  );
}

function Steps({ steps, error, onChange }: { steps: DraftStep[]; error: string | undefined; onChange: (steps: DraftStep[]) => void }) {
  const change = (uid: string, part: Partial<DraftStep>) => onChange(steps.map((each) => (each.uid === uid ? { ...each, ...part } : each)));
  return (
    <Panel
      title={t("Steps")}
      actions={
        <Button isSmall icon="plus" onClick={() => onChange([...steps, newStep("100", "1", "days")])}>
          {t("Add a step")}
        </Button>
      }
    >
      <div class="body stack s">
        {steps.map((step, index) => {
          const number = index + 1;
          return (
            <div key={step.uid} class="row" role="group" aria-label={t("Step {number}", { number })}>
              <span class="step" aria-hidden="true">{number}</span>
              <span class="percent">
                <input class="input" type="number" min={0} max={100} step="any" aria-label={t("Percentage of step {number}", { number })} value={step.percentage} onInput={(event) => change(step.uid, { percentage: event.currentTarget.value })} />
                <span>{t("% for")}</span>
              </span>
              <LengthInput label={t("Duration of step {number}", { number })} length={step.length} onChange={(length) => change(step.uid, { length })} />
              <IconButton isSmall icon="trash" label={t("Remove step {number}", { number })} disabled={steps.length === 1} onClick={() => onChange(steps.filter((each) => each !== step))} />
            </div>
          );
        })}
        {error && <p class="error-text">{error}</p>}
      </div>
    </Panel>
  );
}

function Rules({ draft, change, errorOf }: PartProps) {
  const { api } = useProject();
  const destinations = useQuery({ queryKey: ["plugin_configs", "names", api], queryFn: () => get<Page<{ id: number; name: string }>>(`${api}/pipeline_destination_configs/`, { limit: 100 }), retry: false });
  const listed = destinations.data?.results ?? [];
  const toggle = (id: number, isOn: boolean) => change({ destinations: isOn ? [...draft.destinations, id] : draft.destinations.filter((each) => each !== id) });
  return (
    <Panel title={t("When a metric gets worse")}>
      <div class="body columns">
        <Field label={t("Do this")}>
          {({ id }) => (
            <Select
              id={id}
              label={t("Do this")}
              value={draft.onHarm}
              choices={[
                { value: "roll_back", label: t("Roll back to the percentage from before") },
                { value: "pause", label: t("Pause and wait for a person") },
              ]}
              onChange={(onHarm) => change({ onHarm })}
            />
          )}
        </Field>
        <Field label={t("If a step is over with too little data")}>
          {({ id }) => (
            <Select
              id={id}
              label={t("If a step is over with too little data")}
              value={draft.onNoData}
              choices={[
                { value: "wait", label: t("Wait for more data") },
                { value: "advance", label: t("Go on with the next step") },
              ]}
              onChange={(onNoData) => change({ onNoData })}
            />
          )}
        </Field>
        <Field label={t("Watch each person for")} hint={t("After the first exposure. Shorter reacts sooner, longer sees later effects.")} error={errorOf("window_seconds")}>
          {() => <LengthInput label={t("Watch each person for")} length={draft.window} onChange={(window) => change({ window })} />}
        </Field>
        <TextField label={t("Risk of a false alarm, in percent")} type="number" min={0.01} max={50} step="any" hint={t("How likely a rollout without harm is ever stopped by mistake.")} error={errorOf("alpha")} value={draft.alpha} onInput={(alpha) => change({ alpha })} />
      </div>
      {listed.length > 0 && (
        <div class="body stack s" role="group" aria-label={t("Also send a message to")}>
          <span class="label">{t("Also send a message to")}</span>
          <div class="row">
            {listed.map((each) => (
              <Check key={each.id} label={each.name} isOn={draft.destinations.includes(each.id)} onChange={(isOn) => toggle(each.id, isOn)} />
            ))}
          </div>
          {errorOf("destinations") && <p class="error-text">{errorOf("destinations")}</p>}
        </div>
      )}
    </Panel>
  );
}
