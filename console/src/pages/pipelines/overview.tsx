// A destination at a glance, for someone on call: does it work, why not, and what to do.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { call, get, queryClient } from "../../api/client";
import type { Page as PageOf } from "../../api/types";
import { formatAgo, formatNumber, t, tn } from "../../lib/text";
import { buildUrl } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { Ago, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { RetryAll } from "./deliveries";
import { JobProgress, useJobs } from "./jobs";
import { MetricsPanel } from "./metrics";
import { type Delivery, isOpenJob, type Job, readError, type Reason, type RecordProps } from "./model";

const EVERY_MS = 3000;

export function Overview(props: RecordProps) {
  const { record, path, refusal, component } = props;
  const { api } = useProject();
  const [place] = useLocation();
  const jobs = useJobs(path);
  const open = (jobs.data?.results ?? []).filter(isOpenJob);
  const recent = (jobs.data?.results ?? []).filter((each) => !isOpenJob(each)).slice(0, 1);
  useReloadAtEnd(recent[0]?.id);
  const reasons = useQuery({
    queryKey: ["pipelines", api, path, "reasons"],
    queryFn: async () => {
      const load = (status: string) => get<Reason[]>(`${path}/deliveries/reasons/`, { status });
      const [dead, open] = await Promise.all([load("dead"), load("retrying,waiting")]);
      return [...open.map((each) => ({ ...each, isDead: false })), ...dead.map((each) => ({ ...each, isDead: true }))];
    },
    refetchInterval: EVERY_MS,
  });
  const tab = (name: string, more: Record<string, string> = {}) => buildUrl(place, { tab: name, ...more });
  return (
    <>
      <Status {...props} replay={component?.public_jobs.replay ? tab("jobs") : ""} test={tab("test")} settings={tab("configuration")} />
      <div class="columns">
        <section class="panel" aria-label={t("Why events fail")}>
          <div class="head">
            <h2>{t("Why events fail")}</h2>
            <Link href={tab("logs", { level: "error" })}>{t("Error log")}</Link>
          </div>
          <Await query={reasons} rows={3}>
            {(found) =>
              found.length ? (
                <ul class="reasons">
                  {found.map((each) => (
                    <li key={`${each.isDead}${each.error}`}>
                      <div class="grow stack s">
                        <span class="mono small">
                          <Value value={each.error} maxChars={400} />
                        </span>
                        <span class="muted small">
                          {each.isDead ? tn(each.count, "{n} event given up", "{n} events given up") : tn(each.count, "{n} event, will be retried", "{n} events, will be retried")} · {t("newest")} <Ago at={each.newest_at} />
                        </span>
                      </div>
                      <Link class="button small" href={tab(each.isDead ? "dead" : "waiting", { error: each.error })} aria-label={t("Show events with {error}", { error: each.error.slice(0, 80) })}>
                        {t("Show")}
                      </Link>
                    </li>
                  ))}
                </ul>
              ) : (
                <Empty title={t("Nothing fails")}>{t("No event waits for another attempt, and there are no dead letters.")}</Empty>
              )
            }
          </Await>
        </section>
        {(open.length > 0 || recent.length > 0) && (
          <section class="panel" aria-label={t("Jobs")}>
            <div class="head">
              <h2>{open.length ? t("Running now") : t("Last job")}</h2>
              <Link href={tab("jobs")}>{t("All jobs")}</Link>
            </div>
            <div class="body stack">
              {(open.length ? open : recent).map((job) => (
                <JobProgress key={job.id} job={job} path={path} refusal={refusal} isEnabled={record.enabled} />
              ))}
            </div>
          </section>
        )}
      </div>
      <MetricsPanel {...props} />
    </>
  );
}

function Status(props: RecordProps & { replay: string; test: string; settings: string }) {
  const { record, health, replay, test } = props;
  const error = readError(record, health);
  const queue = health?.queue;
  const day = health?.last_24h;
  const [tone, title] = !record.enabled
    ? ["", t("Off")]
    : health?.paused_until
      ? ["warn", t("Paused after repeated failures")]
      : error
        ? ["bad", t("Failing")]
        : queue && queue.retrying
          ? ["warn", t("Some events are retried")]
          : ["on", t("Working")];
  return (
    <section class="panel" aria-label={t("State")}>
      <div class="head">
        <h2 class="row">
          <span class={`tag ${tone}`}>{title}</span>
          {health?.paused_until && <span class="muted small">{t("next attempt {when}", { when: formatAgo(health.paused_until) })}</span>}
        </h2>
        <span class="row">
          {record.enabled && health?.paused_until && <TryAgain {...props} />}
          {queue && queue.dead > 0 && <RetryAll {...props} count={queue.dead} error="" kind="primary" />}
          {replay && (
            <Link class="button" href={replay}>
              {t("Replay a period…")}
            </Link>
          )}
          <Link class="button" href={test}>
            {t("Send a test event")}
          </Link>
        </span>
      </div>
      <div class="body stack">
        {error && (
          <p class="notice bad" role="status">
            <Value value={error} maxChars={600} />
          </p>
        )}
        {!record.enabled && (
          <p class="muted">
            {t("It is off: new events are not sent. Events that wait stay until it is on again.")} <Link href={props.settings}>{t("Configuration")}</Link>
          </p>
        )}
        <div class="figures">
          <Figure label={t("Delivered in 24 h")} value={day?.delivered} />
          <Figure label={t("Attempts that failed in 24 h")} value={day && day.retried + day.dead} />
          <Figure label={t("Waiting now")} value={queue && queue.waiting + queue.retrying} />
          <Figure label={t("Dead letters")} value={queue?.dead} isBad />
        </div>
      </div>
    </section>
  );
}

/** A job that has ended changed the figures: load them all, so that none contradicts another. */
function useReloadAtEnd(ended: Job["id"] | undefined) {
  const last = useRef(ended);
  useEffect(() => {
    if (last.current !== undefined && last.current !== ended) void queryClient.invalidateQueries({ queryKey: ["pipelines"] });
    last.current = ended;
  }, [ended]);
}

/** End the pause: one event that waits is sent now, and the others follow if it arrives. */
function TryAgain({ path, refusal }: RecordProps) {
  const retry = useMutation({
    mutationFn: async () => {
      const [first] = (await get<PageOf<Delivery>>(`${path}/deliveries/`, { status: "retrying,waiting", limit: 1 })).results;
      if (first) await call("POST", `${path}/deliveries/${first.id}/retry/`);
    },
    onSuccess: () => notify(t("One event is sent now. If it arrives, all others follow.")),
    onError: notifyError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["pipelines"] }),
  });
  return (
    <Button kind="primary" disabled={retry.isPending || !!refusal} title={refusal} onClick={() => retry.mutate()}>
      {t("Try again now")}
    </Button>
  );
}

function Figure({ label, value, isBad }: { label: string; value: number | undefined; isBad?: boolean }) {
  return (
    <div class="figure">
      <div class="muted">{label}</div>
      <div class={`value ${isBad && value ? "bad-number" : ""}`}>{value === undefined ? "…" : formatNumber(value)}</div>
    </div>
  );
}

