// The list of experiments.
import type { Experiment } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Select } from "../../ui/controls";
import { CreateLink, List, NameCell, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { ExperimentTabs } from "./tabs";

export function ExperimentsPage() {
  const { api, root } = useProject();
  const state = useListState("status");
  const status = state.filters.status ?? "";
  const isArchived = status === "archived";
  const experiments = useList<Experiment>("experiments", `${api}/experiments/`, state, isArchived ? { archived: "true" } : { status });
  const create = (label: string, isQuiet = false) => (
    <CreateLink to={`${root}/experiments/new`} scope="experiment:write" isQuiet={isQuiet}>
      {label}
    </CreateLink>
  );
  return (
    <Page title={t("Experiments")} sub={experiments.data ? tn(experiments.data.count, "{n} experiment", "{n} experiments") : undefined} actions={create(t("New experiment"))}>
      <ExperimentTabs current="experiments" />
      <List
        query={experiments}
        state={state}
        search={t("Search by name")}
        controls={
          <Select
            label={t("Status")}
            isNarrow
            value={status}
            onChange={(value) => state.setFilter("status", value)}
            choices={[
              { value: "", label: t("Any status") },
              { value: "draft", label: t("Draft") },
              { value: "running", label: t("Running") },
              { value: "paused", label: t("Paused") },
              { value: "stopped", label: t("Ended") },
              { value: "archived", label: t("Archived") },
            ]}
          />
        }
        empty={
          <Empty title={t("No experiments yet")} action={create(t("Create the first one"), true)}>
            {t("An experiment shows variants of a flag to different people and compares what they do.")}
          </Empty>
        }
        columns={[t("Experiment"), t("Status"), t("Flag"), t("Metrics"), t("Since")]}
      >
        {(items) =>
          items.map((each) => (
            <tr key={each.id}>
              <NameCell to={`${root}/experiments/${each.id}`} name={each.name} description={each.description} />
              <td class="end">
                <Status experiment={each} />
              </td>
              <td class="mono wide">
                <Value value={each.feature_flag_key} maxChars={60} />
              </td>
              <td class="muted drop">{tn(each.metrics.length + each.metrics_secondary.length, "{n} metric", "{n} metrics")}</td>
              <td class="muted drop">
                <Ago at={each.end_date ?? each.start_date ?? each.created_at} />
              </td>
            </tr>
          ))
        }
      </List>
    </Page>
  );
}

const CONCLUSIONS: Record<string, string> = {
  won: t("won"),
  lost: t("lost"),
  inconclusive: t("no clear result"),
  stopped_early: t("stopped early"),
  invalid: t("not valid"),
};
export const CONCLUSION_CHOICES = Object.entries(CONCLUSIONS).map(([value, label]) => ({ value, label }));

export function Status({ experiment }: { experiment: Experiment }) {
  if (experiment.status === "draft") return <span class="tag">{t("Draft")}</span>;
  if (experiment.status === "running") return experiment.feature_flag.active ? <span class="tag on">{t("Running")}</span> : <span class="tag warn">{t("Paused: the flag is off")}</span>;
  const how = experiment.conclusion ? ` · ${CONCLUSIONS[experiment.conclusion] ?? experiment.conclusion}` : "";
  return (
    <span class="tag info">
      {experiment.archived ? t("Archived") : t("Ended")}
      {how}
    </span>
  );
}
