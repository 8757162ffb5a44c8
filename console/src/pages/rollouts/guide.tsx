// What rollouts and bandits have in common: their history, and what a person can do with one.
import { useMutation } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { call, queryClient } from "../../api/client";
import { t } from "../../lib/text";
import { useRefusal } from "../../shell/rights";
import { Button, Select } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { List, type ListState, type useList } from "../../ui/list";
import { Ago, type Labels, Tag, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { type Length, UNITS } from "./plan";

export interface Step {
  action: string;
  label: string;
  done: string;
  question?: string;
  isDangerous?: boolean;
}

/** Buttons for the transitions of a rollout or a bandit. `stale` are the queries that show it. */
export function StepActions({ path, name, steps, stale, onDeleted }: { path: string; name: string; steps: Step[]; stale: string[]; onDeleted?: () => Promise<void> }) {
  const refusal = useRefusal("feature_flag:write");
  const [asked, setAsked] = useState<Step | null>(null);
  const act = useMutation({
    mutationFn: (step: Step) => (step.action === "delete" ? call<null>("DELETE", path) : call<unknown>("POST", `${path}${step.action}/`)),
    onSuccess: async (_, step) => {
      notify(step.done);
      if (step.action === "delete" && onDeleted) await onDeleted();
      else for (const key of [...stale, "flags", "flag", "history"]) await queryClient.invalidateQueries({ queryKey: [key] });
    },
    onError: notifyError,
    onSettled: () => setAsked(null),
  });
  return (
    <>
      {steps.map((step) => (
        <Button
          key={step.action}
          kind={step.isDangerous ? "danger" : step === steps.at(-1) && steps.length > 1 ? "primary" : undefined}
          disabled={!!refusal || act.isPending}
          title={refusal}
          onClick={() => (step.question ? setAsked(step) : act.mutate(step))}
        >
          {step.label}
        </Button>
      ))}
      {asked && (
        <Confirm title={`${asked.label.replace("…", "")}: ${name}?`} action={asked.label.replace("…", "")} isDangerous={asked.isDangerous ?? false} isOpen isBusy={act.isPending} onConfirm={() => act.mutate(asked)} onClose={() => setAsked(null)}>
          <p>{asked.question}</p>
        </Confirm>
      )}
    </>
  );
}

/** A time, as a number of minutes, hours or days. */
export function LengthInput({ label, length, onChange }: { label: string; length: Length; onChange: (length: Length) => void }) {
  return (
    <span class="row tight">
      <input class="input length" type="number" min={0} step="any" aria-label={label} value={length.count} onInput={(event) => onChange({ ...length, count: event.currentTarget.value })} />
      <Select label={t("{label}, unit", { label })} isNarrow value={length.unit} choices={UNITS} onChange={(unit) => onChange({ ...length, unit })} />
    </span>
  );
}

export function FactList({ facts }: { facts: [string, string][] }) {
  return (
    <dl class="body facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Value value={value} maxChars={500} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const KINDS: Labels = {
  checked: { label: t("Checked"), tone: "" },
  started: { label: t("Started"), tone: "info" },
  advanced: { label: t("Next step"), tone: "on" },
  reallocated: { label: t("New split"), tone: "on" },
  harm_found: { label: t("Harm found"), tone: "bad" },
  paused: { label: t("Paused"), tone: "warn" },
  resumed: { label: t("Resumed"), tone: "info" },
  rolled_back: { label: t("Rolled back"), tone: "bad" },
  stopped: { label: t("Stopped"), tone: "" },
  completed: { label: t("Completed"), tone: "on" },
};

interface Entry {
  kind: string;
  created_at: string;
  why: string;
}

/** The history of a rollout or a bandit. `children` shows what the flag gave then. */
export function EntryList<T extends Entry>({ entries, state, limit, column, children }: { entries: ReturnType<typeof useList<T>>; state: ListState; limit: number; column: string; children: (entry: T) => ComponentChildren }) {
  return (
    <List query={entries} state={state} limit={limit} empty={<Empty title={t("Nothing yet")} />} columns={[t("When"), t("What"), column, t("Why")]}>
      {(items) =>
        items.map((each, index) => (
          <tr key={index}>
            <td class="first">
              <Ago at={each.created_at} />
            </td>
            <td class="end">
              <Tag labels={KINDS} value={each.kind} />
            </td>
            <td class="drop">{children(each)}</td>
            <td class="wide">
              <Value value={each.why} maxChars={400} />
            </td>
          </tr>
        ))
      }
    </List>
  );
}
