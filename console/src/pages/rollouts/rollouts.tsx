// The list of rollout plans.
import type { RolloutPlan } from "../../api/types";
import { formatPercent, t, tn } from "../../lib/text";
import { buildUrl } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Select } from "../../ui/controls";
import { CreateLink, List, type ListState, NameCell, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, Tag, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { FlagTabs } from "../flags/tabs";
import { STATES } from "./plan";

const EVERY_MS = 10_000;
const WHAT = t("A rollout gives a flag to more and more people in steps. It watches metrics, and pauses or rolls back by itself when one gets worse.");

export function describeStep(plan: RolloutPlan): string {
  if (plan.step_index === null) return tn(plan.steps.length, "{n} step", "{n} steps");
  return t("Step {number} of {count}: {percent}", { number: plan.step_index + 1, count: plan.steps.length, percent: formatPercent(plan.rollout_percentage ?? 0) });
}

export function RolloutsPage() {
  const state = useListState("state");
  const plans = usePlans(state, {});
  const { root } = useProject();
  return (
    <Page
      title={t("Rollouts")}
      sub={plans.data ? tn(plans.data.count, "{n} rollout", "{n} rollouts") : undefined}
      actions={
        <CreateLink to={`${root}/rollout_plans/new`} scope="feature_flag:write">
          {t("New rollout")}
        </CreateLink>
      }
    >
      <FlagTabs current="rollouts" />
      <PlanList plans={plans} state={state} search={t("Search by name or flag")} />
    </Page>
  );
}

export function usePlans(state: ListState, parameters: { flag?: number }) {
  const { api } = useProject();
  return useList<RolloutPlan>("rollouts", `${api}/rollout_plans/`, state, { ...parameters, state: state.filters.state ?? "" }, { everyMs: EVERY_MS });
}

export function PlanList({ plans, state, search, flag }: { plans: ReturnType<typeof usePlans>; state: ListState; search?: string; flag?: number }) {
  const { root } = useProject();
  return (
    <List
      query={plans}
      state={state}
      {...(search ? { search } : {})}
      controls={
        <Select
          label={t("State")}
          isNarrow
          value={state.filters.state ?? ""}
          choices={[{ value: "", label: t("Any state") }, ...Object.entries(STATES).map(([value, { label }]) => ({ value, label }))]}
          onChange={(value) => state.setFilter("state", value)}
        />
      }
      empty={
        <Empty
          title={t("No rollouts yet")}
          action={
            <CreateLink to={buildUrl(`${root}/rollout_plans/new`, { flag: flag ?? null })} scope="feature_flag:write" isQuiet>
              {t("Plan a rollout")}
            </CreateLink>
          }
        >
          {WHAT}
        </Empty>
      }
      columns={[t("Rollout"), t("State"), t("Progress"), t("Why"), t("Changed")]}
    >
      {(items) =>
        items.map((plan) => (
          <tr key={plan.id}>
            <NameCell to={`${root}/rollout_plans/${plan.id}`} name={plan.name || plan.flag_key} description={plan.name ? plan.flag_key : undefined} />
            <td class="end">
              <Tag labels={STATES} value={plan.state} />
            </td>
            <td>{describeStep(plan)}</td>
            <td class="muted wide">
              <Value value={plan.reason} maxChars={140} />
            </td>
            <td class="muted drop">
              <Ago at={plan.updated_at} />
            </td>
          </tr>
        ))
      }
    </List>
  );
}
