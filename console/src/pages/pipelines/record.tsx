// One pipeline record: what it does, why it fails, and everything that can be done about it.
import { useQuery } from "@tanstack/react-query";
import { Redirect, useLocation, useParams } from "wouter-preact";
import { get } from "../../api/client";
import { formatNumber, t } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Page, Tabs } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await } from "../../ui/states";
import { Configuration } from "./configuration";
import { Deliveries } from "./deliveries";
import { RecordHistory } from "./history";
import { Jobs } from "./jobs";
import { RecordMenu, RecordSwitch } from "./row";
import { Logs } from "./logs";
import { MetricsPanel } from "./metrics";
import { type Component, type Family, findFamily, type Health, type PipelineRecord, readComponent, readError, type RecordProps } from "./model";
import { Overview } from "./overview";
import { useRefusal } from "../../shell/rights";
import { TryIt } from "./try";
import "./pipelines.css";

const EVERY_MS = 3000;

export function RecordPage() {
  const { api, root } = useProject();
  const { family: name, record: id } = useParams<{ family: string; record: string }>();
  const family = findFamily(name);
  const path = `${api}/${family?.records}/${encodeURIComponent(id ?? "")}`;
  const refusal = useRefusal("plugin:write");
  const record = useQuery({
    queryKey: ["pipelines", api, name, "record", id],
    queryFn: () => get<PipelineRecord>(`${path}/`),
    enabled: !!family,
    // An editor that is open notices a change of someone else when it saves.
    refetchOnWindowFocus: false,
  });
  const health = useQuery({
    queryKey: ["pipelines", api, name, "record health", id],
    queryFn: () => get<Health>(`${path}/health/`),
    enabled: !!family,
    refetchInterval: EVERY_MS,
  });
  if (!family) return <Redirect to={`${root}/pipeline/destinations`} replace />;
  const crumbs = [{ label: family.label, to: `${root}/pipeline/${family.name}` }];
  if (!record.data)
    return (
      <Page title={t("Pipelines")} crumbs={crumbs}>
        <div class="panel">
          <Await query={record}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Loaded crumbs={crumbs} family={family} record={record.data} component={readComponent(record.data)} path={path} health={health.data} refusal={refusal} />;
}

/** The tabs of a record, by what its component can do. */
function listTabs(family: Family, component: Component | null, health: Health | undefined): [string, string][] {
  const count = (label: string, number: number | undefined) => (number ? `${label} ${formatNumber(number)}` : label);
  const jobs = Object.keys(component?.public_jobs ?? {});
  const queue = health?.queue;
  const tabs: [string, string][] = [["configuration", t("Configuration")]];
  if (family.name === "destinations")
    tabs.push(["test", t("Test")], ["waiting", count(t("Waiting"), queue && queue.waiting + queue.retrying)], ["dead", count(t("Dead letters"), queue?.dead)]);
  if (family.name === "transformations") tabs.push(["test", t("Test")]);
  if (jobs.length) tabs.push(["jobs", family.name === "destinations" ? t("Replay") : t("Runs")]);
  if (family.name === "destinations" || family.name === "transformations") tabs.push(["metrics", t("Metrics")]);
  if (family.name !== "site-apps") tabs.push(["logs", t("Logs")]);
  tabs.push(["history", t("History")]);
  return family.name === "destinations" ? [["overview", t("Overview")], ...tabs] : tabs;
}

function Loaded({ crumbs, ...props }: RecordProps & { crumbs: { label: string; to: string }[] }) {
  const { family, record, component, health, refusal } = props;
  const { root } = useProject();
  const [url] = useUrlState();
  const [path, navigate] = useLocation();
  const names = listTabs(family, component, health);
  const wanted = url.get("tab");
  const tab = names.find(([name]) => name === wanted)?.[0] ?? names[0]![0];
  const tabs = names.map(([name, label], index) => ({ name, label, to: buildUrl(path, { tab: index ? name : null }) }));
  return (
    <Page
      title={record.name || t("Without a name")}
      crumbs={crumbs}
      sub={
        <>
          <Value value={component?.name ?? t("A component that is not installed")} maxChars={80} /> · {t("changed")} <Ago at={record.updated_at} />
        </>
      }
      actions={
        <>
          <span class="muted">{record.enabled ? t("On") : t("Off")}</span>
          <RecordSwitch family={family} record={record} refusal={refusal} />
          <RecordMenu family={family} record={record} health={health} refusal={refusal} onDeleted={() => navigate(`${root}/pipeline/${family.name}`)} />
        </>
      }
    >
      {readError(record, health) && tab !== "overview" && (
        <p class="notice bad">
          <Value value={readError(record, health)} />
        </p>
      )}
      <Tabs label={t("Parts of {name}", { name: record.name })} tabs={tabs} current={tab} />
      {tab === "overview" && <Overview {...props} />}
      {tab === "configuration" && <Configuration {...props} />}
      {tab === "test" && <TryIt {...props} />}
      {tab === "waiting" && <Deliveries key="waiting" {...props} isDead={false} />}
      {tab === "dead" && <Deliveries key="dead" {...props} isDead />}
      {tab === "jobs" && <Jobs {...props} />}
      {tab === "metrics" && <MetricsPanel {...props} />}
      {tab === "logs" && <Logs {...props} />}
      {tab === "history" && <RecordHistory {...props} />}
    </Page>
  );
}
