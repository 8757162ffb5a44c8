// The bandits of a flag: how they split people, why, and what a person can do.
import { useQuery } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useState } from "preact/hooks";
import { get, queryClient } from "../../api/client";
import type { Bandit, BanditAllocation, Flag } from "../../api/types";
import { formatNumber, formatPercent, t } from "../../lib/text";
import { useLocalState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { Button } from "../../ui/controls";
import { Table, useList, useListStateIn } from "../../ui/list";
import { Panel } from "../../ui/page";
import { Tag, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { readMetric } from "../experiments/metric-draft";
import { EntryList, FactList, type Step, StepActions } from "./guide";
import { buildSplitSeries, describeSplit } from "./bandit";
import { BanditForm } from "./bandit-form";
import { describeSeconds, STATES } from "./plan";

const TimeChart = lazy(() => import("../../charts/time-chart").then((module) => ({ default: module.TimeChart })));
const WHAT = t("A bandit moves people towards the variant that is best by a metric, while it learns which one that is.");
const EVERY_MS = 10_000;
const LIMIT = 10;
const CHART_LIMIT = 100;

export function FlagBandits({ flag }: { flag: Flag }) {
  const { api } = useProject();
  const bandits = useQuery({
    queryKey: ["bandits", api, flag.id],
    queryFn: () => get<{ results: Bandit[] }>(`${api}/bandits/?flag=${flag.id}&limit=5`),
    refetchInterval: ({ state }) => (state.data?.results.some((each) => each.state === "running") ? EVERY_MS : false),
  });
  const [isNew, setNew] = useState(false);
  const refusal = useRefusal("feature_flag:write");
  const found = bandits.data?.results;
  const create = (
    <Button kind={found?.length ? undefined : "primary"} disabled={!!refusal} title={refusal} onClick={() => setNew(true)}>
      {t("New bandit")}
    </Button>
  );
  const canLearn = (flag.filters.multivariate?.variants.length ?? 0) > 1 && !flag.archived;
  return (
    <>
      {isNew ? (
        <Panel title={t("New bandit")}>
          <BanditForm flag={flag} saved={null} onClose={() => setNew(false)} />
        </Panel>
      ) : (
        canLearn &&
        found &&
        (found.length ? (
          <div class="row end">{create}</div>
        ) : (
          <div class="panel">
            <Empty title={t("No bandit yet")} action={create}>
              {WHAT}
            </Empty>
          </div>
        ))
      )}
      {found?.map((each) => (
        <BanditPanel key={each.id} bandit={each} flag={flag} />
      ))}
    </>
  );
}

function listActions({ state }: Bandit): Step[] {
  const remove = { action: "delete", label: t("Delete…"), done: t("The bandit is deleted."), question: t("The bandit and its history are deleted. The flag stays as it is."), isDangerous: true };
  const stop = { action: "stop", label: t("Stop"), done: t("The bandit is stopped."), question: t("The bandit ends. The flag keeps its split.") };
  if (state === "draft") return [remove, { action: "start", label: t("Start"), done: t("The bandit is running."), question: t("From now on the bandit moves people towards the better variants, by itself.") }];
  if (state === "running") return [stop, { action: "pause", label: t("Pause"), done: t("The bandit is paused.") }];
  if (state === "paused") return [stop, { action: "resume", label: t("Resume"), done: t("The bandit goes on.") }];
  return [remove];
}

function BanditPanel({ bandit, flag }: { bandit: Bandit; flag: Flag }) {
  const { api } = useProject();
  const refusal = useRefusal("feature_flag:write");
  const [isEdited, setEdited] = useState(false);
  const name = bandit.name || t("Bandit");
  const num = (label: string) => ({ label, class: "num" as const });
  return (
    <Panel
      title={name}
      actions={
        <span class="row">
          <Tag labels={STATES} value={bandit.state} />
          {bandit.state === "draft" && !isEdited && (
            <Button disabled={!!refusal} title={refusal} onClick={() => setEdited(true)}>
              {t("Edit")}
            </Button>
          )}
          <StepActions path={`${api}/bandits/${bandit.id}/`} name={name} steps={listActions(bandit)} stale={["bandits", "allocations"]} onDeleted={() => queryClient.invalidateQueries({ queryKey: ["bandits"] })} />
        </span>
      }
      isFlush
    >
      <p class="body" role="status">
        <Value value={bandit.reason || WHAT} maxChars={1000} />
      </p>
      {isEdited && bandit.state === "draft" ? <BanditForm key={bandit.version} flag={flag} saved={bandit} onClose={() => setEdited(false)} /> : <Settings bandit={bandit} />}
      {bandit.variants.length > 0 && (
        <Table columns={[t("Variant"), num(t("Split")), num(t("People")), num(t("Value")), num(t("Probability to be best"))]}>
          {bandit.variants.map((each) => (
            <tr key={each.key}>
              <td class="first mono">
                <Value value={each.key} maxChars={120} />
              </td>
              <td class="num">{formatPercent(each.rollout_percentage)}</td>
              <Figure label={t("people: ")}>{formatNumber(each.persons)}</Figure>
              <Figure label={t("value: ")}>{each.value === null ? "–" : formatNumber(Number(each.value.toPrecision(4)))}</Figure>
              <Figure label={t("best with a probability of ")}>{each.probability_best === null ? "–" : formatPercent(each.probability_best * 100)}</Figure>
            </tr>
          ))}
        </Table>
      )}
      {bandit.state !== "draft" && <Allocations bandit={bandit} />}
    </Panel>
  );
}

/** A number whose column has no head on a phone. */
function Figure({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <td class="num">
      <span class="phone muted small">{label}</span>
      {children}
    </td>
  );
}

function Settings({ bandit }: { bandit: Bandit }) {
  const metric = readMetric(bandit.metric);
  const events = metric.document ? JSON.stringify(metric.document) : metric.steps.map((each) => each.event).join(metric.kind === "ratio" ? " / " : " → ");
  const facts: [string, string][] = [
    [metric.isLowerBetter ? t("Metric, lower is better") : t("Metric"), metric.name ? `${metric.name} (${events})` : events],
    [t("Each variant keeps"), formatPercent(bandit.floor_percent)],
    [t("People of each variant before it moves"), formatNumber(bandit.min_persons)],
    [t("Computed every"), describeSeconds(bandit.interval_seconds)],
  ];
  return <FactList facts={facts} />;
}

function Allocations({ bandit }: { bandit: Bandit }) {
  const { api } = useProject();
  const state = useListStateIn(useLocalState());
  const everyMs = bandit.state === "running" ? EVERY_MS : false;
  const path = `${api}/bandits/${bandit.id}/allocations/`;
  const entries = useList<BanditAllocation>(["allocations", bandit.state], path, state, {}, { limit: LIMIT, everyMs });
  const newest = useQuery({ queryKey: ["allocations", path, "chart"], queryFn: () => get<{ results: BanditAllocation[] }>(`${path}?limit=${CHART_LIMIT}`), refetchInterval: everyMs });
  const chart = buildSplitSeries(newest.data?.results ?? []);
  return (
    <div class="body stack">
      {chart.days.length > 1 && (
        <Suspense fallback={null}>
          <TimeChart label={t("Split over time")} days={chart.days} interval="minute" series={chart.series} form="area" isPercent height={200} />
        </Suspense>
      )}
      <EntryList entries={entries} state={state} limit={LIMIT} column={t("Split")}>
        {(each) => describeSplit(each)}
      </EntryList>
    </div>
  );
}
