// One survey: results, editor, history; start, stop, archive, delete.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation, useParams } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Survey } from "../../api/types";
import { t, tn } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { Button, IconButton } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Page, Tabs } from "../../ui/page";
import { Ago, copyText } from "../../ui/show";
import { Await } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { History } from "../history";
import { getState } from "./draft";
import { SurveyForm } from "./form";
import { SurveyResults } from "./results";
import { StateTag } from "./surveys";

export function SurveyPage() {
  const { api, root } = useProject();
  const { survey: id } = useParams<{ survey: string }>();
  const path = `${api}/surveys/${encodeURIComponent(id)}/`;
  const survey = useQuery({ queryKey: ["survey", path], queryFn: () => get<Survey>(path), enabled: id !== "new", refetchOnWindowFocus: false });
  const crumbs = [{ label: t("Surveys"), to: `${root}/surveys` }];
  if (id === "new")
    return (
      <Page title={t("New survey")} crumbs={crumbs}>
        <SurveyForm key="new" saved={null} />
      </Page>
    );
  if (!survey.data)
    return (
      <Page title={t("Survey")} crumbs={crumbs}>
        <div class="panel">
          <Await query={survey}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Saved survey={survey.data} path={path} crumbs={crumbs} />;
}

function Saved({ survey, path, crumbs }: { survey: Survey; path: string; crumbs: { label: string; to: string }[] }) {
  const [url] = useUrlState();
  const [address] = useLocation();
  const tab = url.get("tab") ?? (survey.start_date ? "results" : "editor");
  const tabs = [
    ["results", t("Results")],
    ["editor", t("Editor")],
    ["history", t("History")],
  ].map(([name, label]) => ({ name: name!, label: label!, to: buildUrl(address, { tab: name! }) }));
  return (
    <Page
      title={survey.name}
      crumbs={crumbs}
      sub={
        <span class="row">
          <StateTag survey={survey} />
          <span>
            {survey.end_date ? t("ended") : survey.start_date ? t("started") : t("created")} <Ago at={survey.end_date ?? survey.start_date ?? survey.created_at} />
          </span>
        </span>
      }
      actions={<Actions survey={survey} path={path} />}
    >
      <Tabs label={t("Parts of the survey")} tabs={tabs} current={tab} />
      {tab === "editor" ? <SurveyForm key={survey.updated_at} saved={survey} /> : tab === "history" ? <History path={`${path}activity/`} /> : <SurveyResults survey={survey} />}
    </Page>
  );
}

type Step = "start" | "stop" | "resume" | "archive" | "restore" | "delete";

function Actions({ survey, path }: { survey: Survey; path: string }) {
  const { root } = useProject();
  const [, navigate] = useLocation();
  const [step, setStep] = useState<Step | null>(null);
  const mayEdit = useMay("survey:write");
  const state = getState(survey);
  const bodies: Record<Exclude<Step, "delete">, () => object> = {
    start: () => ({ start_date: new Date().toISOString() }),
    stop: () => ({ end_date: new Date().toISOString() }),
    resume: () => ({ end_date: null }),
    archive: () => ({ archived: true }),
    restore: () => ({ archived: false }),
  };
  const run = useMutation({
    mutationFn: (what: Step) => (what === "delete" ? call("DELETE", path) : call("PATCH", path, { body: bodies[what]() })),
    onSuccess: (_, what) => {
      for (const key of ["surveys", "survey", "survey stats", "flags", "history"]) if (what !== "delete" || key !== "survey") void queryClient.invalidateQueries({ queryKey: [key] });
      setStep(null);
      const texts: Record<Step, string> = {
        start: t("The survey runs."),
        stop: t("The survey has ended."),
        resume: t("The survey runs again."),
        archive: t("The survey is archived."),
        restore: t("The survey is in the list again."),
        delete: t("{name} is deleted.", { name: survey.name }),
      };
      notify(texts[what]);
      if (what === "delete") navigate(`${root}/surveys`);
    },
    onError: notifyError,
  });
  if (!mayEdit) return <span class="muted small">{NOT_ALLOWED}</span>;
  const questions = (survey.questions ?? []).length;
  const dialog = (what: Step, title: string, action: string, text: string, isDangerous = false) => (
    <Confirm title={title} action={action} isDangerous={isDangerous} isOpen={step === what} isBusy={run.isPending} onConfirm={() => run.mutate(what)} onClose={() => setStep(null)}>
      <p>{text}</p>
    </Confirm>
  );
  return (
    <>
      {state === "draft" && (
        <Button kind="primary" disabled={!questions} onClick={() => setStep("start")}>
          {t("Launch…")}
        </Button>
      )}
      {state === "running" && <Button onClick={() => setStep("stop")}>{t("Stop…")}</Button>}
      {state === "ended" && <Button onClick={() => setStep("resume")}>{t("Run again…")}</Button>}
      <Menu
        trigger={<IconButton label={t("Actions for this survey")} icon="more" />}
        entries={[
          { label: t("Copy as curl"), onSelect: () => void copyText(buildCurl("GET", `${path}stats/`)) },
          survey.archived ? { label: t("Take out of the archive"), onSelect: () => run.mutate("restore") } : { label: t("Archive…"), isDisabled: state === "draft", onSelect: () => setStep("archive") },
          { label: t("Delete…"), isDangerous: true, onSelect: () => setStep("delete") },
        ]}
      />
      {dialog("start", t("Launch “{name}”?", { name: survey.name }), t("Launch"), tn(questions, "Pages show {n} question to everyone who matches, once each, from now on.", "Pages show {n} questions to everyone who matches, once each, from now on."))}
      {dialog("stop", t("Stop “{name}”?", { name: survey.name }), t("Stop the survey"), t("Pages no longer show it. The answers stay. You can run it again."))}
      {dialog("resume", t("Run {name} again?", { name: survey.name }), t("Run again"), t("Pages show it again to those who have neither answered nor dismissed it."))}
      {dialog("archive", t("Archive “{name}”?", { name: survey.name }), t("Archive"), t("The survey ends, and pages no longer get it. The answers stay."))}
      {dialog("delete", t("Delete “{name}”?", { name: survey.name }), t("Delete the survey"), tn(questions, "The survey with {n} question and the flags that it created are deleted. The answers stay as events. This cannot be undone.", "The survey with {n} questions and the flags that it created are deleted. The answers stay as events. This cannot be undone."), true)}
    </>
  );
}
