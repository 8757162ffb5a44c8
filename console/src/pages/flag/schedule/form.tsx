// The dialog that schedules a change of a flag: once, again and again, or a rollout in steps.
import { useState } from "preact/hooks";
import { buildCurl, call, queryClient } from "../../../api/client";
import type { Flag } from "../../../api/types";
import { t } from "../../../lib/text";
import { useProject } from "../../../shell/project";
import { Button, Field, IconButton, Percent, Select } from "../../../ui/controls";
import { Dialog } from "../../../ui/dialog";
import { Refusal, TextField, useSubmit } from "../../../ui/forms";
import { copyText } from "../../../ui/show";
import { notify } from "../../../ui/toasts";
import { addStep, findProblem, newPlan, type Operation, type PlanDraft, type Repeat, toRequest } from "./plan";

interface Props {
  flag: Flag;
  /** What the editor shows and has not saved; null if nothing. */
  unsaved: Record<string, unknown> | null;
  /** `isDraft`: the unsaved changes are scheduled. */
  onDone: (isDraft: boolean) => void;
  onClose: () => void;
}

export function ScheduleDialog({ flag, unsaved, onDone, onClose }: Props) {
  const { api, project } = useProject();
  const [plan, setPlan] = useState<PlanDraft>(() => ({ ...newPlan(new Date()), operation: unsaved ? "draft" : flag.active ? "rollout" : "on" }));
  const change = (part: Partial<PlanDraft>) => setPlan((current) => ({ ...current, ...part }));
  const isSteps = plan.operation === "steps";
  const problem = findProblem(plan);
  const build = () => toRequest(plan, flag, unsaved ?? {});
  const form = useSubmit(async () => {
    const { path, body } = build();
    await call("POST", `${api}/${path}`, { body });
    void queryClient.invalidateQueries({ queryKey: ["scheduled changes"] });
    notify(isSteps ? t("The rollout of {key} is scheduled.", { key: flag.key }) : t("The change of {key} is scheduled.", { key: flag.key }));
    onDone(plan.operation === "draft");
  });
  const isRollout = isSteps || plan.operation === "rollout";
  return (
    <Dialog title={t("Schedule a change")} description={t("The flag changes at the time you choose, as if you had changed it then.")} isOpen onClose={onClose}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["scheduled_at", "cron_expression", "end_date"]} />
        <Field label={t("What happens")}>
          {({ id }) => (
            <Select<Operation>
              id={id}
              label={t("What happens")}
              value={plan.operation}
              onChange={(operation) => change({ operation })}
              choices={[
                { value: "on", label: t("Turn the flag on") },
                { value: "off", label: t("Turn the flag off") },
                { value: "rollout", label: t("Roll out to a percentage") },
                { value: "steps", label: t("Roll out in steps") },
                ...(unsaved ? [{ value: "draft" as const, label: t("Save the changes of the editor") }] : []),
              ]}
            />
          )}
        </Field>
        {isRollout && <ConditionChoice flag={flag} value={plan.condition} onChange={(condition) => change({ condition })} />}
        {plan.operation === "rollout" && (
          <div class="field">
            <span class="label">{t("Roll out to")}</span>
            <Percent label={t("Rollout in percent")} value={plan.percentage} onChange={(percentage) => change({ percentage })} />
          </div>
        )}
        {isSteps ? (
          <Steps steps={plan.steps} onChange={(steps) => change({ steps })} />
        ) : (
          <>
            <TextField
              label={plan.repeat === "cron" ? t("Not before") : plan.repeat ? t("First time") : t("When")}
              type="datetime-local"
              required
              hint={t("In the time zone of your browser, {zone}.", { zone: Intl.DateTimeFormat().resolvedOptions().timeZone })}
              error={form.errorOf("scheduled_at")}
              value={plan.at}
              onInput={(at) => change({ at })}
            />
            <Field label={t("Repeat")}>
              {({ id }) => (
                <Select<Repeat>
                  id={id}
                  label={t("Repeat")}
                  value={plan.repeat}
                  onChange={(repeat) => change({ repeat })}
                  choices={[
                    { value: "", label: t("Never: once only") },
                    { value: "daily", label: t("Every day") },
                    { value: "weekly", label: t("Every week") },
                    { value: "monthly", label: t("Every month") },
                    { value: "yearly", label: t("Every year") },
                    { value: "cron", label: t("By a cron expression") },
                  ]}
                />
              )}
            </Field>
            {plan.repeat === "cron" && (
              <TextField
                label={t("Cron expression")}
                isCode
                hint={t("Minute, hour, day, month, weekday, in the time zone of the project, {zone}. 0 9 * * 1 is every Monday at 9:00.", { zone: project?.timezone ?? "UTC" })}
                error={form.errorOf("cron_expression")}
                value={plan.cron}
                onInput={(cron) => change({ cron })}
              />
            )}
            {plan.repeat && <TextField label={t("Until (optional)")} type="datetime-local" error={form.errorOf("end_date")} value={plan.until} onInput={(until) => change({ until })} />}
          </>
        )}
        {problem && <p class="muted small">{problem}</p>}
        <div class="row end">
          <Button kind="quiet" disabled={!!problem} onClick={() => void copyText(buildCurl("POST", `${api}/${build().path}`, build().body))}>
            {t("Copy as curl")}
          </Button>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy || !!problem}>
            {t("Schedule")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export function ConditionChoice({ flag, value, onChange }: { flag: Flag; value: number; onChange: (value: number) => void }) {
  const groups = flag.filters.groups ?? [];
  if (groups.length < 2) return null;
  const choices = groups.map((group, index) => {
    const names = (group.properties ?? []).map((each) => (each.type === "cohort" ? t("cohort") : each.key)).join(", ");
    return { value: String(index), label: t("Condition {number}: {names}", { number: index + 1, names: names || t("everyone") }) };
  });
  return <Field label={t("Condition")}>{({ id }) => <Select id={id} label={t("Condition")} value={String(value)} choices={choices} onChange={(text) => onChange(Number(text))} />}</Field>;
}

function Steps({ steps, onChange }: { steps: PlanDraft["steps"]; onChange: (steps: PlanDraft["steps"]) => void }) {
  const set = (index: number, part: Partial<PlanDraft["steps"][number]>) => onChange(steps.map((each, at) => (at === index ? { ...each, ...part } : each)));
  return (
    <div class="stack s" role="group" aria-label={t("Steps of the rollout")}>
      {steps.map((step, index) => {
        const number = index + 1;
        return (
          <div class="row" key={index}>
            <input class="input narrow" type="datetime-local" required aria-label={t("Time of step {number}", { number })} value={step.at} onInput={(event) => set(index, { at: event.currentTarget.value })} />
            <span class="percent">
              <input
                class="input"
                type="number"
                min={0}
                max={100}
                step="any"
                required
                aria-label={t("Percentage of step {number}", { number })}
                value={step.percentage}
                onInput={(event) => set(index, { percentage: Number(event.currentTarget.value) })}
              />
              <span aria-hidden="true">%</span>
            </span>
            <IconButton isSmall icon="trash" label={t("Remove step {number}", { number })} disabled={steps.length === 1} onClick={() => onChange(steps.filter((_, at) => at !== index))} />
          </div>
        );
      })}
      <div>
        <Button isSmall icon="plus" onClick={() => onChange(addStep(steps))}>
          {t("Add a step")}
        </Button>
      </div>
      <p class="muted small">{t("All steps are scheduled together. You can cancel each of them later.")}</p>
    </div>
  );
}
