// The installation: its health, its storage, work that waits, and jobs that run.
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter-preact";
import { get } from "../api/client";
import type { InstanceStatus } from "../api/types";
import { formatBytes, formatNumber, formatPercent, t, tn } from "../lib/text";
import { useProject } from "../shell/project";
import { OWNERS_ONLY, useRights } from "../shell/rights";
import { Page, Panel } from "../ui/page";
import { Ago, Value } from "../ui/show";
import { Await, Empty } from "../ui/states";

const EVERY_MS = 5000;
type Results = InstanceStatus["results"];
type Check = Results["checks"][number];

const FIGURES = ["inbox_events", "inbox_oldest_s", "deliveries_waiting", "deliveries_dead", "dead_letters"];
const FAMILY_PATHS: Record<string, string> = { destination: "destinations", transformation: "transformations", import_app: "import-apps", frontend_app: "site-apps" };
const TONES: Record<Check["verdict"], string> = { ok: "on", warning: "warn", problem: "bad" };
const VERDICTS: Record<Check["verdict"], string> = { ok: t("OK"), warning: t("Warning"), problem: t("Problem") };

export function SystemPage() {
  const rights = useRights();
  const isAllowed = !rights.isKnown || rights.isOwner;
  const status = useQuery({
    queryKey: ["instance status"],
    queryFn: () => get<InstanceStatus>("/api/instance_status/"),
    refetchInterval: EVERY_MS,
    enabled: isAllowed,
    retry: false,
  });
  return (
    <Page title={t("System")} sub={t("The state of the installation, every few seconds")}>
      {isAllowed ? (
        <Await query={status}>
          {({ results }) => (
            <>
              <Health checks={results.checks} />
              <Figures results={results} />
              <div class="columns">
                <Jobs results={results} />
                <Facts results={results} />
              </div>
            </>
          )}
        </Await>
      ) : (
        <Empty title={t("You may not see this")}>{OWNERS_ONLY}</Empty>
      )}
    </Page>
  );
}

function Health({ checks }: { checks: Results["checks"] }) {
  const bad = checks.filter((each) => each.verdict !== "ok");
  const shown = [...checks].sort((a, b) => rank(a) - rank(b));
  return (
    <Panel
      title={bad.length ? tn(bad.length, "{n} check needs attention", "{n} checks need attention") : t("All is well")}
      actions={<span class="muted small">{tn(checks.length, "{n} check", "{n} checks")}</span>}
      isFlush
    >
      <table class="table cards">
        <thead>
          <tr>
            <th scope="col" class="shrink">
              {t("State")}
            </th>
            <th scope="col">{t("Check")}</th>
            <th scope="col">{t("Detail")}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((each) => (
            <tr key={each.check + each.detail}>
              <td class="shrink end">
                <span class={`tag ${TONES[each.verdict]}`}>{VERDICTS[each.verdict]}</span>
              </td>
              <td class="first name">{each.check.charAt(0).toUpperCase() + each.check.slice(1)}</td>
              <td class="wide">
                <Value value={each.detail} />{" "}
                {each.page && <Link href={each.page}>{t("Show the cause")}</Link>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

const rank = (check: Check): number => ["problem", "warning", "ok"].indexOf(check.verdict);

function showFigure(key: string, value: Results["overview"][number]["value"]): string {
  if (value === null) return "–";
  if (typeof value !== "number") return String(value);
  if (key.endsWith("_bytes")) return formatBytes(value);
  return key.endsWith("_s") ? t("{n} s", { n: value }) : formatNumber(value);
}

function Figures({ results }: { results: Results }) {
  return (
    <Panel title={t("Waiting work")}>
      <div class="body figures">
        {results.overview
          .filter((each) => FIGURES.includes(each.key))
          .map((each) => (
            <div class="figure" key={each.key}>
              <div class="muted">{each.metric.replace(/ in s$/, "")}</div>
              <div class="value">{showFigure(each.key, each.value)}</div>
            </div>
          ))}
      </div>
    </Panel>
  );
}

function Facts({ results }: { results: Results }) {
  return (
    <Panel title={t("Installation")}>
      <dl class="body facts">
        {results.overview
          .filter((each) => !FIGURES.includes(each.key))
          .map((each) => (
            <div key={each.key}>
              <dt>{each.metric}</dt>
              <dd>
                <Value value={showFigure(each.key, each.value)} maxChars={80} />
              </dd>
            </div>
          ))}
      </dl>
    </Panel>
  );
}

function Jobs({ results }: { results: Results }) {
  const { root } = useProject();
  if (!results.jobs.length)
    return (
      <Panel title={t("Jobs")}>
        <Empty title={t("No job is open")}>{t("Imports, exports and replays of pipelines appear here while they wait or run.")}</Empty>
      </Panel>
    );
  return (
    <Panel title={tn(results.jobs_count, "{n} open job", "{n} open jobs")}>
      <ul class="body stack">
        {results.jobs.map((job) => (
          <li class="stack s" key={job.id}>
            <div class="row spread">
              <span class="cut grow">
                <strong>{job.type}</strong> <span class="muted">{t("of")}</span>{" "}
                <Link href={`${root.replace(/\d+$/, String(job.project_id))}/pipeline/${FAMILY_PATHS[job.family]}/${job.pipeline_id}`}>
                  <Value value={job.pipeline_name || `#${job.pipeline_id}`} maxChars={60} />
                </Link>
              </span>
              <span class={`tag ${job.status === "running" ? "on" : ""}`}>{job.status}</span>
            </div>
            {job.total !== null && <progress max={Math.max(job.total, 1)} value={job.done} aria-label={t("Progress of {type}", { type: job.type })} />}
            <div class="muted small">
              {job.total === null ? t("{done} done", { done: job.done }) : t("{done} of {total}, {share}", { done: job.done, total: job.total, share: formatPercent(job.total ? (100 * job.done) / job.total : 0) })}
              {job.rate > 0 && ` · ${t("{rate} a second", { rate: Math.round(job.rate) })}`} · <Value value={job.requested_by} maxChars={60} /> <Ago at={job.created_at} />
            </div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
