// The first page: what arrives, what changed, what needs attention, and the first steps.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { call, get } from "../../api/client";
import type { ActivityPage, EventRecord, Flag, Page as PageOf } from "../../api/types";
import { formatDate, formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useRights } from "../../shell/rights";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty, Loading } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { FirstSteps, SendFirstEvent, useSteps } from "./first-steps";

const MINUTES = 60;
const EVERY_MS = 15_000;
const FIRST_EVENT_MS = 2000;
const PER_MINUTE = "select toStartOfMinute(timestamp) as minute, count() as n from events where timestamp > now() - interval 1 hour group by minute order by minute";

export function HomePage() {
  const { api, project } = useProject();
  const newest = useQuery({
    queryKey: ["newest", api],
    queryFn: () => get<{ results: EventRecord[] }>(`${api}/events/`, { limit: 1, after: "-365d" }),
    refetchInterval: (query) => (query.state.data?.results.length ? EVERY_MS : FIRST_EVENT_MS),
  });
  // Whether the page has waited for it.
  const [hasWaited, setWaited] = useState(false);
  const hasEvents = newest.data && newest.data.results.length > 0;
  const steps = useSteps(!!hasEvents);
  useEffect(() => {
    if (hasEvents === false) setWaited(true);
    if (hasEvents && hasWaited) notify(t("The first event has arrived."));
  }, [hasEvents]);
  return (
    <Page title={project?.name ?? t("Home")} sub={t("What arrives, what changed, and what to do next")}>
      <Await query={newest}>
        {(page) =>
          steps ? (
            <>
              {page.results.length ? <Figures newest={page.results[0]!} /> : <SendFirstEvent />}
              <FirstSteps steps={steps} />
            </>
          ) : (
            <Loading />
          )
        }
      </Await>
      {/* It loads at once, and is shown when nothing above it can move it anymore. */}
      <div class="columns" hidden={newest.isPending || !steps}>
        <Attention />
        <Recent />
      </div>
    </Page>
  );
}

function Figures({ newest }: { newest: EventRecord }) {
  const { api } = useProject();
  const minutes = useQuery({
    queryKey: ["per minute", api],
    queryFn: () => call<{ results: [string, number][] }>("POST", `${api}/query/`, { body: { query: { kind: "HogQLQuery", query: PER_MINUTE }, refresh: "force_blocking" } }),
    refetchInterval: EVERY_MS,
  });
  const flags = useQuery({ queryKey: ["flags", api, "count"], queryFn: () => get<PageOf<Flag>>(`${api}/feature_flags/`, { active: "true", limit: 1 }) });
  const persons = useQuery({ queryKey: ["persons", api, "count"], queryFn: () => get<PageOf<unknown>>(`${api}/persons/`, { limit: 1 }) });
  const counts = fillMinutes(minutes.data?.results ?? [], Date.now());
  const total = counts.reduce((sum, each) => sum + each, 0);
  return (
    <section class="panel" aria-label={t("The last hour")}>
      <div class="body stack">
        <div class="figures">
          <Figure label={t("Events in the last hour")} value={minutes.data ? formatNumber(total) : "…"} />
          <Figure label={t("Flags that are on")} value={flags.data ? formatNumber(flags.data.count) : "…"} />
          <Figure label={t("Persons")} value={persons.data ? formatNumber(persons.data.count) : "…"} />
          <div class="figure">
            <div class="muted">{t("Newest event")}</div>
            <div class="value">
              <Ago at={newest.timestamp} />
            </div>
          </div>
        </div>
        <Spark counts={counts} />
        <details>
          <summary class="muted small">{t("Events a minute as a table")}</summary>
          <div class="table-scroll virtual" tabIndex={0} role="region" aria-label={t("Events a minute")}>
            <table class="table">
              <thead>
                <tr>
                  <th scope="col">{t("Minute")}</th>
                  <th scope="col" class="num">
                    {t("Events")}
                  </th>
                </tr>
              </thead>
              <tbody>
                {(minutes.data?.results ?? []).map(([minute, count]) => (
                  <tr key={minute}>
                    <td>{formatDate(minute)}</td>
                    <td class="num">{formatNumber(count)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      </div>
    </section>
  );
}

function Figure({ label, value }: { label: string; value: string }) {
  return (
    <div class="figure">
      <div class="muted">{label}</div>
      <div class="value">{value}</div>
    </div>
  );
}

/** Return the counts of the last 60 minutes, with zeros for minutes without events. */
export function fillMinutes(rows: [string, number][], now: number): number[] {
  const counts = new Array<number>(MINUTES).fill(0);
  for (const [minute, count] of rows) {
    const index = MINUTES - 1 - Math.floor(now / 60_000) + Math.floor(new Date(minute).getTime() / 60_000);
    if (index >= 0 && index < MINUTES) counts[index] = count;
  }
  return counts;
}

function Spark({ counts }: { counts: number[] }) {
  const most = Math.max(...counts, 1);
  const width = 100 / counts.length;
  return (
    <svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label={t("Events a minute in the last hour, at most {most}", { most })}>
      {counts.map((count, index) => {
        const height = (count / most) * 20;
        return <rect key={index} x={index * width + width * 0.12} width={width * 0.76} y={20 - height} height={height} fill="var(--series-1)" />;
      })}
    </svg>
  );
}

function Attention() {
  const { api, root } = useProject();
  const stale = useQuery({ queryKey: ["flags", api, "stale"], queryFn: () => get<PageOf<Flag>>(`${api}/feature_flags/`, { active: "STALE", limit: 5 }) });
  const warnings = useQuery({
    queryKey: ["warnings", api],
    queryFn: () => get<PageOf<{ type: string; count?: number; timestamp?: string }>>(`${api}/ingestion_warnings/`, { limit: 5 }),
  });
  const failing = useQuery({ queryKey: ["pipelines", api, "failing"], queryFn: () => get<PageOf<{ id: number; name: string }>>(`${api}/pipeline_destination_configs/`, { failing: "true", limit: 5 }) });
  return (
    <section class="panel" aria-label={t("Needs attention")}>
      <div class="head">
        <h2>{t("Needs attention")}</h2>
      </div>
      <Await query={stale} rows={3}>
        {(page) =>
          page.count + (warnings.data?.count ?? 0) + (failing.data?.count ?? 0) === 0 ? (
            <Empty title={t("All is well")}>{t("No stale flags, no failing destinations and no warnings about events.")}</Empty>
          ) : (
            <ul class="body stack">
              {(failing.data?.results ?? []).map((each) => (
                <li class="row" key={each.id}>
                  <span class="tag bad">{t("Fails")}</span>
                  <Link href={`${root}/pipeline/destinations/${each.id}`}>
                    <Value value={each.name} maxChars={60} />
                  </Link>
                </li>
              ))}
              {page.results.map((flag) => (
                <li class="row" key={flag.id}>
                  <span class="tag warn">{t("Stale")}</span>
                  <Link href={`${root}/feature_flags/${flag.id}`} class="mono">
                    <Value value={flag.key} maxChars={60} />
                  </Link>
                </li>
              ))}
              {page.count > page.results.length && (
                <li>
                  <Link href={`${root}/feature_flags?active=STALE`}>{tn(page.count, "{n} stale flag", "All {n} stale flags")}</Link>
                </li>
              )}
              {(warnings.data?.results ?? []).map((each, index) => (
                <li class="row" key={index}>
                  <span class="tag bad">{t("Warning")}</span>
                  <Link href={`${root}/data-management/ingestion-warnings?type=${encodeURIComponent(each.type)}`}>
                    <Value value={each.type.replaceAll("_", " ")} maxChars={80} />
                  </Link>
                </li>
              ))}
            </ul>
          )
        }
      </Await>
    </section>
  );
}

function Recent() {
  const { api, root } = useProject();
  const { isKnown, reason } = useRights();
  const refusal = reason("activity_log:read");
  const log = useQuery({ queryKey: ["activity", api, "recent"], queryFn: () => get<ActivityPage>(`${api}/activity_log/`, { limit: 8 }), enabled: isKnown && !refusal });
  if (refusal) return null;
  return (
    <section class="panel" aria-label={t("Recent changes")}>
      <div class="head">
        <h2>{t("Recent changes")}</h2>
        <Link href={`${root}/activity_log`}>{t("All")}</Link>
      </div>
      <Await query={log} rows={5}>
        {(page) =>
          page.results.length ? (
            <ul class="body stack">
              {page.results.map((entry) => (
                <li class="row spread" key={entry.id}>
                  <span class="cut grow">
                    <Value value={entry.user.first_name} maxChars={40} /> {entry.activity} <Value value={(entry.detail.name as string | null) ?? entry.item_id} maxChars={60} />
                  </span>
                  <span class="muted small">
                    <Ago at={entry.created_at} />
                  </span>
                </li>
              ))}
            </ul>
          ) : (
            <Empty title={t("Nothing has changed yet")} />
          )
        }
      </Await>
    </section>
  );
}
