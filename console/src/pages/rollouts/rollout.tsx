// One rollout plan: where it stands and why, the evidence, and what a person can do.
import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useParams } from "wouter-preact";
import { get, queryClient } from "../../api/client";
import type { MetricEvidence, RolloutEvaluation, RolloutPlan } from "../../api/types";
import { formatDate, formatNumber, formatPercent, t } from "../../lib/text";
import { buildUrl, useLocalState, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Table, useList, useListStateIn } from "../../ui/list";
import { Page, Panel, Tabs } from "../../ui/page";
import { Ago, Tag, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { History } from "../history";
import { EntryList, FactList, type Step, StepActions } from "./guide";
import { PlanForm } from "./form";
import { describeSeconds, isActive, showFigure, showRelative, STATES, VERDICTS } from "./plan";

const EVERY_MS = 4000;
const LIMIT = 20;

export function RolloutPage() {
  const { api, root } = useProject();
  const { plan: id } = useParams<{ plan: string }>();
  const [url] = useUrlState();
  const isNew = id === "new";
  const plan = useQuery({
    queryKey: ["rollout", api, id],
    queryFn: () => get<RolloutPlan>(`${api}/rollout_plans/${encodeURIComponent(id)}/`),
    enabled: !isNew,
    refetchInterval: ({ state }) => (state.data?.state === "running" ? EVERY_MS : false),
  });
  const crumbs = [{ label: t("Rollouts"), to: `${root}/rollout_plans` }];
  if (isNew)
    return (
      <Page title={t("New rollout")} crumbs={crumbs}>
        <PlanForm saved={null} flag={Number(url.get("flag")) || null} />
      </Page>
    );
  if (!plan.data)
    return (
      <Page title={t("Rollout")} crumbs={crumbs}>
        <div class="panel">
          <Await query={plan}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Plan plan={plan.data} crumbs={crumbs} />;
}

function Plan({ plan, crumbs }: { plan: RolloutPlan; crumbs: { label: string; to: string }[] }) {
  const { api, root } = useProject();
  const [url] = useUrlState();
  const [path] = useLocation();
  const isDraft = plan.state === "draft";
  const tab = url.get("tab") ?? (isDraft ? "plan" : "why");
  const tabs = [...(isDraft ? [] : [["why", t("Why")]]), ["plan", t("Plan")], ["history", t("History")]].map(([name, label]) => ({ name: name!, label: label!, to: buildUrl(path, { tab: name! }) }));
  return (
    <Page
      title={plan.name || plan.flag_key}
      crumbs={crumbs}
      sub={
        <span class="row">
          <Tag labels={STATES} value={plan.state} />
          <Link href={`${root}/feature_flags/${plan.flag}`} class="mono">
            <Value value={plan.flag_key} maxChars={120} />
          </Link>
          {plan.last_checked_at && plan.state === "running" && (
            <span>
              {t("checked")} <Ago at={plan.last_checked_at} />
            </span>
          )}
        </span>
      }
      actions={<PlanActions plan={plan} />}
    >
      <Tabs label={t("Parts of the rollout")} tabs={tabs} current={tab} />
      {tab === "history" ? (
        <History path={`${api}/rollout_plans/${plan.id}/activity/`} version={plan.version} />
      ) : tab === "plan" ? (
        isDraft ? <PlanForm key={plan.version} saved={plan} flag={plan.flag} /> : <Facts plan={plan} />
      ) : (
        <Why plan={plan} />
      )}
    </Page>
  );
}

const TONES: Record<string, string> = { running: "good", completed: "good", rolled_back: "bad" };

function Why({ plan }: { plan: RolloutPlan }) {
  return (
    <>
      <p class={`verdict-note ${TONES[plan.state] ?? ""}`} role="status">
        <Value value={plan.reason} maxChars={1000} />
      </p>
      <Steps plan={plan} />
      <Evidence plan={plan} />
      <Evaluations plan={plan} />
    </>
  );
}

function Steps({ plan }: { plan: RolloutPlan }) {
  const at = plan.step_index ?? -1;
  const isOver = plan.state === "completed";
  return (
    <Panel title={t("Steps")}>
      <ol class="body rollout-steps">
        {plan.steps.map((step, index) => {
          const isDone = index < at || isOver;
          const isCurrent = index === at && isActive(plan);
          return (
            <li key={index} class={isDone ? "done" : isCurrent ? "current" : ""} aria-current={isCurrent ? "step" : undefined}>
              <strong>{formatPercent(step.rollout_percentage)}</strong>
              <span class="muted small">{describeSeconds(step.duration_seconds)}</span>
              <span class="small">
                {isDone ? t("done") : isCurrent && plan.step_ends_at ? <>{t("until")} {formatDate(plan.step_ends_at)}</> : isCurrent ? t("paused here") : index === at ? t("ended here") : t("to come")}
              </span>
            </li>
          );
        })}
      </ol>
    </Panel>
  );
}

function Evidence({ plan }: { plan: RolloutPlan }) {
  return (
    <Panel title={t("Evidence in this step")} isFlush>
      {plan.evidence.length ? (
        <EvidenceTable plan={plan} evidence={plan.evidence} />
      ) : (
        <Empty title={t("Nothing is measured yet")}>
          {plan.rollout_percentage === 100 ? t("Everyone has the feature in this step: there is no one to compare with.") : t("People count when their SDK has reported the flag ($feature_flag_called), {window} after that.", { window: describeSeconds(plan.window_seconds) })}
        </Empty>
      )}
    </Panel>
  );
}

function EvidenceTable({ plan, evidence }: { plan: RolloutPlan; evidence: readonly MetricEvidence[] }) {
  const num = (label: string) => ({ label, class: "num" as const });
  return (
    <Table class="evidence" columns={[t("Metric"), t("Verdict"), num(t("With the feature")), num(t("Without it")), num(t("Difference")), num(t("p-value"))]}>
      {evidence.map((each) => {
        const type = plan.metrics.find((metric) => metric.name === each.name)?.type;
        return (
          <tr key={each.name}>
            <td class="first">
              <span class="name">
                <Value value={each.name} maxChars={120} />
              </span>
              <div class="muted small">
                {each.harm === "increase" ? t("worse if it rises") : t("worse if it falls")} · <Value value={each.why} maxChars={300} />
              </div>
            </td>
            <td class="end">
              <Tag labels={VERDICTS} value={each.verdict} />
            </td>
            {[each.treated, each.control].map((group, index) => (
              <td key={index} class="num">
                <span class="phone muted small">{index ? t("without: ") : t("with: ")}</span>
                {showFigure(group.value, type)}
                <div class="muted small">{t("{n} people", { n: group.persons })}</div>
              </td>
            ))}
            <td class="num">{showRelative(each.relative_difference)}</td>
            <td class="num drop" title={t("Harm at or below {alpha}", { alpha: String(Number(each.alpha.toPrecision(2))) })}>
              {each.p_value === null ? "–" : each.p_value < 0.0001 ? "< 0.0001" : each.p_value.toFixed(4)}
              <div class="muted small">{t("harm at {alpha}", { alpha: String(Number(each.alpha.toPrecision(2))) })}</div>
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

function Evaluations({ plan }: { plan: RolloutPlan }) {
  const { api } = useProject();
  const state = useListStateIn(useLocalState());
  const entries = useList<RolloutEvaluation>(["evaluations", plan.state, plan.step_index], `${api}/rollout_plans/${plan.id}/evaluations/`, state, {}, { limit: LIMIT, everyMs: plan.state === "running" ? EVERY_MS * 3 : false });
  return (
    <section class="stack" aria-label={t("What happened")}>
      <h2>{t("What happened")}</h2>
      <EntryList entries={entries} state={state} limit={LIMIT} column={t("Percentage")}>
        {(each) => (each.rollout_percentage === null ? "" : formatPercent(each.rollout_percentage))}
      </EntryList>
    </section>
  );
}

function Facts({ plan }: { plan: RolloutPlan }) {
  const facts: [string, string][] = [
    [t("Condition"), formatNumber(plan.condition_index + 1)],
    [t("Steps"), plan.steps.map((each) => `${formatPercent(each.rollout_percentage)} ${t("for {time}", { time: describeSeconds(each.duration_seconds) })}`).join(", ")],
    [t("What must not get worse"), plan.metrics.map((each) => each.name).join(", ")],
    [t("On harm"), plan.on_harm === "pause" ? t("pause") : t("roll back to {percent}", { percent: formatPercent(plan.rollout_percentage_before ?? 0) })],
    [t("With too little data"), plan.on_no_data === "wait" ? t("wait") : t("go on")],
    [t("Each person is watched for"), describeSeconds(plan.window_seconds)],
    [t("Risk of a false alarm"), formatPercent(plan.alpha * 100)],
    [t("Created by"), plan.created_by?.first_name || plan.created_by?.email || ""],
  ];
  return (
    <Panel title={t("Plan")}>
      <FactList facts={facts} />
    </Panel>
  );
}

function listActions(plan: RolloutPlan): Step[] {
  const first = formatPercent(plan.steps[0]?.rollout_percentage ?? 0);
  const before = formatPercent(plan.rollout_percentage_before ?? 0);
  const now = formatPercent(plan.rollout_percentage ?? 0);
  const stop = { action: "stop", label: t("Stop"), done: t("The rollout is stopped."), question: t("The rollout ends. The flag keeps {now}.", { now }) };
  const back = { action: "rollback", label: t("Roll back"), done: t("The rollout is rolled back."), question: t("The rollout ends. The condition goes from {now} back to {before}.", { now, before }), isDangerous: true };
  if (plan.state === "draft") return [{ action: "start", label: t("Start"), done: t("The rollout is running."), question: t("The condition of {flag} gets {first} at once, and the next steps follow by themselves.", { flag: plan.flag_key, first }) }];
  if (plan.state === "running") return [stop, back, { action: "pause", label: t("Pause"), done: t("The rollout is paused.") }];
  if (plan.state === "paused") return [stop, back, { action: "resume", label: t("Resume"), done: t("The rollout goes on."), question: t("The step at {now} begins anew, and its evidence too.", { now }) }];
  return [];
}

function PlanActions({ plan }: { plan: RolloutPlan }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const remove: Step = { action: "delete", label: t("Delete…"), done: t("The rollout is deleted."), question: t("The rollout and its history of evidence are deleted. The flag stays as it is."), isDangerous: true };
  const onDeleted = async () => {
    navigate(`${root}/rollout_plans`);
    queryClient.removeQueries({ queryKey: ["rollout", api, String(plan.id)] });
    await queryClient.invalidateQueries({ queryKey: ["rollouts"] });
  };
  return <StepActions path={`${api}/rollout_plans/${plan.id}/`} name={plan.name || plan.flag_key} steps={[...(isActive(plan) ? [] : [remove]), ...listActions(plan)]} stale={["rollout", "rollouts", "evaluations"]} onDeleted={onDeleted} />;
}
