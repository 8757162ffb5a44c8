// Launch, end, ship a variant, archive, reset and delete an experiment. Each says what it will do.
import { useMutation } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { buildCurl, call, queryClient } from "../../api/client";
import type { Experiment, ExperimentResults, Flag } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { Button, Field, IconButton, Select } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { TextField } from "../../ui/forms";
import { Menu } from "../../ui/menu";
import { copyText } from "../../ui/show";
import { notify, notifyError } from "../../ui/toasts";
import { CONCLUSION_CHOICES } from "./experiments";
import { findShipped, shipVariant } from "./ship";
import { findLeader, judge } from "./verdict";

type Step = "launch" | "end" | "ship" | "archive" | "reset" | "delete";

export function Actions({ experiment, results, path }: { experiment: Experiment; results: ExperimentResults | undefined; path: string }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const [step, setStep] = useState<Step | null>(null);
  const [conclusion, setConclusion] = useState("");
  const [comment, setComment] = useState("");
  const [winner, setWinner] = useState("");
  const mayEdit = useMay("experiment:write");
  const { status, feature_flag: flag } = experiment;
  const variants = ((experiment.parameters as { feature_flag_variants?: { key: string }[] }).feature_flag_variants ?? []).map((each) => each.key);
  const shipped = status === "stopped" && flag.active ? findShipped(flag.filters) : null;
  const chosen = winner || shipped || findLeader(results) || variants[variants.length - 1] || "";
  const people = Object.values(results?.exposures.total_exposures ?? {}).reduce((sum, each) => sum + each, 0);
  const closing = { ...(conclusion ? { conclusion } : {}), ...(comment.trim() ? { conclusion_comment: comment.trim() } : {}) };
  const run = useMutation({
    mutationFn: async (what: Step) => {
      if (what === "delete") return call("DELETE", path);
      if (what !== "ship") return call("POST", `${path}${what}/`, what === "end" ? { body: closing } : {});
      // End first: the results stay as they were counted, whatever the flag does then.
      if (status === "running") await call("POST", `${path}end/`, { body: closing });
      return call<Flag>("PATCH", `${api}/feature_flags/${flag.id}/`, { body: { active: true, filters: shipVariant(flag.filters, chosen) } });
    },
    onSettled: () => {
      for (const key of ["experiments", "experiment", "experiment results", "flags", "flag", "history"]) void queryClient.invalidateQueries({ queryKey: [key] });
    },
    onSuccess: (_, what) => {
      setStep(null);
      const texts: Record<Step, string> = {
        launch: t("The experiment runs."),
        end: t("The experiment has ended. The flag stays as it is."),
        ship: t("{variant} is shipped to everyone.", { variant: chosen }),
        archive: t("The experiment is archived."),
        reset: t("The experiment is a draft again."),
        delete: t("{name} is deleted.", { name: experiment.name }),
      };
      notify(texts[what], "good", what === "delete" ? { label: t("Undo"), run: () => void restore() } : undefined);
      if (what === "delete") navigate(`${root}/experiments`);
    },
    onError: notifyError,
  });
  const restore = async () => {
    await call("PATCH", path, { body: { deleted: false } }).catch(notifyError);
    void queryClient.invalidateQueries({ queryKey: ["experiments"] });
  };
  if (!mayEdit) return <span class="muted small">{NOT_ALLOWED}</span>;
  const dialog = (what: Step, title: string, action: string, children: preact.ComponentChildren, isDangerous = false) => (
    <Confirm title={title} action={action} isDangerous={isDangerous} isOpen={step === what} isBusy={run.isPending} onConfirm={() => run.mutate(what)} onClose={() => setStep(null)}>
      {children}
    </Confirm>
  );
  const closingFields = (
    <>
      <Field label={t("Conclusion")}>{(attributes) => <Select {...attributes} label={t("Conclusion")} value={conclusion} choices={[{ value: "", label: t("None yet") }, ...CONCLUSION_CHOICES]} onChange={setConclusion} />}</Field>
      <TextField label={t("What did you learn?")} isLong value={comment} onInput={setComment} />
    </>
  );
  return (
    <>
      {status === "draft" && (
        <Button kind="primary" onClick={() => setStep("launch")}>
          {t("Launch…")}
        </Button>
      )}
      {status === "running" && <Button onClick={() => setStep("end")}>{t("End…")}</Button>}
      {status !== "draft" && !experiment.archived && (
        <>
          {shipped && <span class="tag on">{t("{variant} for everyone", { variant: shipped })}</span>}
          <Button {...(shipped ? {} : { kind: "primary" as const })} onClick={() => setStep("ship")}>
            {shipped ? t("Ship another variant…") : t("Ship a variant…")}
          </Button>
        </>
      )}
      <Menu
        trigger={<IconButton label={t("Actions for this experiment")} icon="more" />}
        entries={[
          { label: t("Copy as curl"), onSelect: () => void copyText(buildCurl("GET", `${path}results/`)) },
          { label: t("Archive…"), isDisabled: status !== "stopped" || experiment.archived, onSelect: () => setStep("archive") },
          { label: t("Reset to a draft…"), isDisabled: status === "draft", isDangerous: true, onSelect: () => setStep("reset") },
          { label: t("Delete…"), isDangerous: true, onSelect: () => setStep("delete") },
        ]}
      />
      {dialog(
        "launch",
        t("Launch “{name}”?", { name: experiment.name }),
        t("Launch"),
        <>
          <p>{t("The flag {key} is turned on with {n} variants. Exposures count from now on.", { key: flag.key, n: variants.length })}</p>
          <p class="muted">{t("While it runs, the variants of the flag cannot be changed. {metrics}", { metrics: tn(experiment.metrics.length, "{n} primary metric is measured.", "{n} primary metrics are measured.") })}</p>
        </>,
      )}
      {dialog(
        "end",
        t("End “{name}”?", { name: experiment.name }),
        t("End the experiment"),
        <>
          <p>{t("Counting stops with {n} persons. The flag stays as it is: people keep their variants.", { n: formatNumber(people) })}</p>
          {closingFields}
        </>,
      )}
      {dialog(
        "ship",
        t("Ship a variant"),
        t("Ship {variant}", { variant: chosen }),
        <>
          {results && <p>{judge(results).text}</p>}
          <Field label={t("Variant")}>{(attributes) => <Select {...attributes} label={t("Variant")} value={chosen} choices={variants.map((value) => ({ value, label: value }))} onChange={setWinner} />}</Field>
          <p>
            {status === "running" && `${t("The experiment ends with {n} persons.", { n: formatNumber(people) })} `}
            {t("The flag {key} gives {variant} to everyone: a first condition for everyone, and 100 % for this variant. The results stay. The history of the flag can restore what was before.", { key: flag.key, variant: chosen })}
          </p>
          {status === "running" && closingFields}
        </>,
      )}
      {dialog("archive", t("Archive “{name}”?", { name: experiment.name }), t("Archive"), <p>{t("It leaves the list; the filter Archived shows it. Results and flag stay.")}</p>)}
      {dialog(
        "reset",
        t("Reset “{name}”?", { name: experiment.name }),
        t("Reset to a draft"),
        <p>{t("{n} persons no longer count, and the conclusion is cleared. Flag and events stay. This cannot be undone.", { n: formatNumber(people) })}</p>,
        true,
      )}
      {dialog("delete", t("Delete “{name}”?", { name: experiment.name }), t("Delete the experiment"), <p>{t("The flag {key} and all events stay; {n} persons were counted. You can undo it.", { key: flag.key, n: formatNumber(people) })}</p>, true)}
    </>
  );
}
