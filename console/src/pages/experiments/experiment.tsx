// One experiment: results, metrics, history, and its life from launch to archive.
import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useParams } from "wouter-preact";
import { get } from "../../api/client";
import type { Experiment } from "../../api/types";
import { formatDate, t } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Page, Tabs } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await } from "../../ui/states";
import { History } from "../history";
import { Actions } from "./actions";
import { Status } from "./experiments";
import { ExperimentForm } from "./form";
import { Results, useResults } from "./results";

export function ExperimentPage() {
  const { api, root } = useProject();
  const { experiment: id } = useParams<{ experiment: string }>();
  const path = `${api}/experiments/${encodeURIComponent(id)}/`;
  const experiment = useQuery({ queryKey: ["experiment", path], queryFn: () => get<Experiment>(path), enabled: id !== "new", refetchOnWindowFocus: false });
  const crumbs = [{ label: t("Experiments"), to: `${root}/experiments` }];
  if (id === "new")
    return (
      <Page title={t("New experiment")} crumbs={crumbs}>
        <ExperimentForm key="new" saved={null} />
      </Page>
    );
  if (!experiment.data)
    return (
      <Page title={t("Experiment")} crumbs={crumbs}>
        <div class="panel">
          <Await query={experiment}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Saved experiment={experiment.data} path={path} crumbs={crumbs} />;
}

function Saved({ experiment, path, crumbs }: { experiment: Experiment; path: string; crumbs: { label: string; to: string }[] }) {
  const { root } = useProject();
  const [url] = useUrlState();
  const [address] = useLocation();
  const results = useResults(experiment);
  const tab = url.get("tab") ?? (experiment.status === "draft" ? "setup" : "results");
  const tabs = [
    ["results", t("Results")],
    ["setup", t("Setup")],
    ["history", t("History")],
  ].map(([name, label]) => ({ name: name!, label: label!, to: buildUrl(address, { tab: name! }) }));
  return (
    <Page
      title={experiment.name}
      crumbs={crumbs}
      sub={
        <span class="row">
          <Status experiment={experiment} />
          <Link href={`${root}/feature_flags/${experiment.feature_flag.id}`} class="mono">
            <Value value={experiment.feature_flag_key} maxChars={80} />
          </Link>
          <span>
            {experiment.start_date ? (
              <>
                {t("launched")} <Ago at={experiment.start_date} />
                {experiment.end_date && ` · ${t("ended {date}", { date: formatDate(experiment.end_date) })}`}
              </>
            ) : (
              <>
                {t("created")} <Ago at={experiment.created_at} />
              </>
            )}
          </span>
        </span>
      }
      actions={<Actions experiment={experiment} results={results.data} path={path} />}
    >
      {experiment.conclusion_comment && (
        <p class="notice">
          <Value value={experiment.conclusion_comment} maxChars={600} />
        </p>
      )}
      <Tabs label={t("Parts of the experiment")} tabs={tabs} current={tab} />
      {tab === "setup" ? <ExperimentForm key={experiment.updated_at} saved={experiment} /> : tab === "history" ? <History path={`${path}activity/`} /> : <Results experiment={experiment} query={results} />}
    </Page>
  );
}
