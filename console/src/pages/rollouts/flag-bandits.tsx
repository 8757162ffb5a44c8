// The bandits of a flag: how they split people, why, and what a person can do.
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "preact/compat";
import { get } from "../../api/client";
import type { Bandit, BanditAllocation, Flag } from "../../api/types";
import { formatNumber, formatPercent, t } from "../../lib/text";
import { useLocalState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Table, useList, useListStateIn } from "../../ui/list";
import { Panel } from "../../ui/page";
import { Value } from "../../ui/show";
import { EntryList, type Step, StepActions } from "./guide";
import { buildSplitSeries, describeSplit } from "./bandit";
import { StateTag } from "./rollouts";

const TimeChart = lazy(() => import("../../charts/time-chart").then((module) => ({ default: module.TimeChart })));
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
  return (
    <>
      {bandits.data?.results.map((each) => (
        <BanditPanel key={each.id} bandit={each} />
      ))}
    </>
  );
}

function listActions({ state }: Bandit): Step[] {
  const stop = { action: "stop", label: t("Stop"), done: t("The bandit is stopped."), question: t("The bandit ends. The flag keeps its split.") };
  if (state === "draft") return [{ action: "start", label: t("Start"), done: t("The bandit is running."), question: t("From now on the bandit moves people towards the better variants, by itself.") }];
  if (state === "running") return [stop, { action: "pause", label: t("Pause"), done: t("The bandit is paused.") }];
  if (state === "paused") return [stop, { action: "resume", label: t("Resume"), done: t("The bandit goes on.") }];
  return [];
}

function BanditPanel({ bandit }: { bandit: Bandit }) {
  const { api } = useProject();
  const name = bandit.name || t("Bandit");
  const num = (label: string) => ({ label, class: "num" as const });
  return (
    <Panel
      title={name}
      actions={
        <span class="row">
          <StateTag state={bandit.state} />
          <StepActions path={`${api}/bandits/${bandit.id}/`} name={name} steps={listActions(bandit)} stale={["bandits", "allocations"]} />
        </span>
      }
      isFlush
    >
      <p class="body" role="status">
        <Value value={bandit.reason || t("A bandit moves people towards the variant that is best by a metric.")} maxChars={1000} />
      </p>
      {bandit.variants.length > 0 && (
        <Table columns={[t("Variant"), num(t("Split")), num(t("People")), num(t("Value")), num(t("Probability to be best"))]}>
          {bandit.variants.map((each) => (
            <tr key={each.key}>
              <td class="first mono">
                <Value value={each.key} maxChars={120} />
              </td>
              <td class="num">{formatPercent(each.rollout_percentage)}</td>
              <td class="num">{formatNumber(each.persons)}</td>
              <td class="num">{each.value === null ? "–" : formatNumber(Number(each.value.toPrecision(4)))}</td>
              <td class="num">{each.probability_best === null ? "–" : formatPercent(each.probability_best * 100)}</td>
            </tr>
          ))}
        </Table>
      )}
      {bandit.state !== "draft" && <Allocations bandit={bandit} />}
    </Panel>
  );
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
