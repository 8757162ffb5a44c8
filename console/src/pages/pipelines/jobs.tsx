// Jobs of a record: replay of a period, imports, with progress that goes on when the page is closed.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, buildCurl, call, get, queryClient } from "../../api/client";
import type { Page as PageOf } from "../../api/types";
import { formatDate, formatNumber, formatPercent, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { ValuesInput } from "../../ui/combobox";
import { Button, Field, Select } from "../../ui/controls";
import { Pager } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { useEventNames } from "../events/explore";
import { isOpenJob, type Job, readConfig, type RecordProps } from "./model";

const LIMIT = 10;
const RUNNING_MS = 1000;
const IDLE_MS = 5000;

const TITLES: Record<string, string> = {
  replay: t("Replay"),
  retry_dead_letters: t("Retry of dead letters"),
  test_connection: t("Connection test"),
  import: t("Import"),
};

/** The jobs of a record, loaded often while one runs. */
export function useJobs(path: string, offset = 0) {
  const { api } = useProject();
  return useQuery({
    queryKey: ["pipelines", api, path, "jobs", offset],
    queryFn: () => get<PageOf<Job>>(`${path}/jobs/`, { limit: LIMIT, offset: offset || null }),
    refetchInterval: (query) => (query.state.data?.results.some(isOpenJob) ? RUNNING_MS : IDLE_MS),
  });
}

export function Jobs(props: RecordProps) {
  const { path, component, record, refusal } = props;
  const [offset, setOffset] = useState(0);
  const jobs = useJobs(path, offset);
  const offers = component?.public_jobs ?? {};
  return (
    <>
      {refusal && <p class="notice warn">{refusal}</p>}
      {!refusal && offers.replay && <ReplayForm {...props} />}
      {!refusal && (offers.import || offers.test_connection) && !offers.replay && <ImportForm {...props} />}
      <section class="panel" aria-label={t("Jobs")}>
        <div class="head">
          <h2>{t("Jobs")}</h2>
        </div>
        <Await query={jobs} rows={3}>
          {(page) =>
            page.results.length ? (
              <>
                <ul class="jobs">
                  {page.results.map((job) => (
                    <li key={job.id}>
                      <JobProgress job={job} path={path} refusal={refusal} isEnabled={record.enabled} />
                    </li>
                  ))}
                </ul>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={setOffset} />
              </>
            ) : (
              <Empty title={t("No jobs so far")}>{t("A job runs in the background and is listed here with its progress, also if you leave the page.")}</Empty>
            )
          }
        </Await>
      </section>
    </>
  );
}

const RANGES = [
  { value: "-1h", label: t("The last hour") },
  { value: "-6h", label: t("The last 6 hours") },
  { value: "-24h", label: t("The last 24 hours") },
  { value: "-7d", label: t("The last 7 days") },
  { value: "-30d", label: t("The last 30 days") },
  { value: "custom", label: t("A period of your choice") },
];

const toIso = (local: string): string | null => (local && !Number.isNaN(Date.parse(local)) ? new Date(local).toISOString() : null);

function useStart(path: string, onStarted?: () => void) {
  return useMutation({
    mutationFn: (job: { type: string; payload: Record<string, unknown> }) => call<Job>("POST", `${path}/job/?format=json`, { body: { job } }),
    onSuccess: (job) => {
      notify(t("{title} has started. It goes on if you leave the page.", { title: TITLES[job.type] ?? job.type }));
      onStarted?.();
    },
    onError: (error) => {
      if (!(error instanceof ApiError && error.attr)) notifyError(error);
    },
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["pipelines"] }),
  });
}

function ReplayForm({ path, record }: RecordProps) {
  const wanted = readConfig(record).events;
  const [range, setRange] = useState("-24h");
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [names, setNames] = useState<string[]>([]);
  const [search, setSearch] = useState("");
  const [isAgain, setAgain] = useState(false);
  const options = useEventNames(search);
  const start = useStart(path);
  const payload = {
    ...(range === "custom" ? { date_from: toIso(from), date_to: toIso(to) } : { date_from: range }),
    ...(names.length ? { events: names } : {}),
    again: isAgain,
  };
  const count = useReplayCount({ ...payload, events: names.length ? names : Array.isArray(wanted) ? (wanted as string[]) : [] });
  const error = start.error instanceof ApiError && start.error.attr ? start.error : null;
  const errorOf = (name: string) => (error?.attr === `job__payload__${name}` ? error.detail : undefined);
  const job = { type: "replay", payload };
  return (
    <section class="panel" aria-label={t("Replay a period")}>
      <div class="head">
        <h2>{t("Replay a period")}</h2>
        <Button kind="quiet" isSmall onClick={() => void copyText(buildCurl("POST", `${path}/job/`, { job }))}>
          {t("Copy as curl")}
        </Button>
      </div>
      <form
        class="body stack"
        onSubmit={(event) => {
          event.preventDefault();
          start.mutate(job);
        }}
      >
        <div class="columns">
          <Field label={t("Period")} error={range === "custom" ? undefined : errorOf("date_from")}>
            {(attributes) => <Select label={t("Period")} id={attributes.id} value={range} choices={RANGES} onChange={setRange} />}
          </Field>
          <div class="field">
            <span class="label">{t("Events")}</span>
            <ValuesInput label={t("Only these events")} values={names} options={options} onSearch={setSearch} onChange={setNames} />
            <span class={errorOf("events") ? "error-text" : "hint"}>{errorOf("events") ?? t("Empty: all that pass the filters of this destination.")}</span>
          </div>
          {range === "custom" && (
            <>
              <Field label={t("From")} error={errorOf("date_from")} hint={t("Your time")}>
                {(attributes) => <input {...attributes} type="datetime-local" class="input" value={from} onInput={(event) => setFrom(event.currentTarget.value)} />}
              </Field>
              <Field label={t("To")} error={errorOf("date_to")} hint={t("Empty: now")}>
                {(attributes) => <input {...attributes} type="datetime-local" class="input" value={to} onInput={(event) => setTo(event.currentTarget.value)} />}
              </Field>
            </>
          )}
        </div>
        <label class="row check">
          <input type="checkbox" checked={isAgain} onChange={(event) => setAgain(event.currentTarget.checked)} />
          {t("Also send events that {name} already has", { name: record.name })}
        </label>
        {!record.enabled && <p class="notice warn">{t("This destination is off, so the job waits until it is on.")}</p>}
        <div class="row">
          <Button kind="primary" type="submit" disabled={start.isPending || (range === "custom" && !toIso(from))}>
            {t("Start the replay")}
          </Button>
          <span class="muted" role="status">
            {count === null ? t("Counting the stored events…") : tn(count, "{n} stored event in this period.", "{n} stored events in this period.")}{" "}
            {isAgain ? t("All that match are sent again, also those that arrived before.") : t("Those that already arrived are skipped, dead letters are retried.")}
          </span>
        </div>
      </form>
    </section>
  );
}

interface ReplayPeriod {
  date_from?: string | null;
  date_to?: string | null;
  events: string[];
}

/** Count the stored events of a period; null while unknown. */
function useReplayCount(payload: ReplayPeriod): number | null {
  const { api } = useProject();
  const relative = /^-(\d+)([hd])$/.exec(payload.date_from ?? "");
  const since = relative ? `now() - interval ${relative[1]} ${relative[2] === "h" ? "hour" : "day"}` : "toDateTime({from})";
  const conditions = [`timestamp >= ${since}`, ...(payload.date_to ? ["timestamp < toDateTime({to})"] : []), ...(payload.events.length ? ["event in {events}"] : [])];
  const values = { from: payload.date_from, to: payload.date_to, events: payload.events };
  const count = useQuery({
    queryKey: ["replay count", api, payload],
    queryFn: ({ signal }) =>
      call<{ results: [[number]] }>("POST", `${api}/query/`, { signal, body: { query: { kind: "HogQLQuery", query: `select count() from events where ${conditions.join(" and ")}`, values } } }),
    enabled: !!payload.date_from,
    staleTime: 10_000,
    retry: false,
  });
  return count.data?.results[0]?.[0] ?? null;
}

function ImportForm({ path, component }: RecordProps) {
  const [isAgain, setAgain] = useState(false);
  const start = useStart(path);
  const schedule = useQuery({ queryKey: ["pipelines", path, "schedule"], queryFn: () => get<{ schedule: string; next_run_at: string | null }>(`${path}/schedule/`) });
  return (
    <section class="panel" aria-label={t("Run")}>
      <div class="head">
        <h2>{t("Run now")}</h2>
        <span class="muted small">
          {schedule.data?.schedule ? (schedule.data.next_run_at ? t("Scheduled: {schedule}, next {when}", { schedule: schedule.data.schedule, when: formatDate(schedule.data.next_run_at) }) : t("Scheduled: {schedule}", { schedule: schedule.data.schedule })) : t("Not scheduled")}
        </span>
      </div>
      <div class="body stack">
        <label class="row check">
          <input type="checkbox" checked={isAgain} onChange={(event) => setAgain(event.currentTarget.checked)} />
          {t("Read everything again from the beginning. Nothing is stored twice.")}
        </label>
        <div class="row">
          {component?.public_jobs.import && (
            <Button kind="primary" disabled={start.isPending} onClick={() => start.mutate({ type: "import", payload: { again: isAgain } })}>
              {t("Import now")}
            </Button>
          )}
          {component?.public_jobs.test_connection && (
            <Button disabled={start.isPending} onClick={() => start.mutate({ type: "test_connection", payload: {} })}>
              {t("Test the connection")}
            </Button>
          )}
        </div>
      </div>
    </section>
  );
}

const TONES: Record<string, string> = { done: "on", failed: "bad", cancelled: "", paused: "warn", running: "info", waiting: "info" };

export function JobProgress({ job, path, refusal, isEnabled }: { job: Job; path: string; refusal: string | undefined; isEnabled: boolean }) {
  const act = useMutation({
    mutationFn: (action: string) => call<Job>("POST", `${path}/jobs/${job.id}/${action}/`),
    onError: notifyError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["pipelines"] }),
  });
  const title = TITLES[job.type] ?? job.type;
  const isOpen = isOpenJob(job);
  const share = job.total ? (job.done / job.total) * 100 : 0;
  const details = Object.entries(job.details as Record<string, unknown>).filter(([, value]) => typeof value === "number" && value > 0);
  const button = (action: string, label: string) => (
    <Button isSmall disabled={act.isPending || !!refusal} aria-label={`${label}: ${title}`} onClick={() => act.mutate(action)}>
      {label}
    </Button>
  );
  return (
    <div class="stack s" role="group" aria-label={title}>
      <div class="row spread">
        <span class="row">
          <strong>{title}</strong>
          <span class={`tag ${TONES[job.status] ?? ""}`}>{job.status}</span>
          <span class="muted small">
            <Value value={job.requested_by} maxChars={40} /> · <Ago at={job.created_at} />
          </span>
        </span>
        <span class="row tight">
          {(job.status === "running" || job.status === "waiting") && button("pause", t("Pause"))}
          {(job.status === "paused" || job.status === "failed") && button("resume", t("Resume"))}
          {isOpen && button("cancel", t("Cancel"))}
        </span>
      </div>
      {isOpen && <progress class="progress" aria-label={t("Progress of {title}", { title })} {...(job.total ? { max: job.total, value: job.done } : {})} />}
      <span class="muted small" role={isOpen ? "status" : undefined}>
        {job.total ? t("{done} of {total}", { done: job.done, total: job.total }) : formatNumber(job.done)}
        {isOpen && job.total ? ` · ${formatPercent(Math.floor(share))}` : ""}
        {job.status === "running" && job.rate > 0 ? ` · ${t("{rate} a second", { rate: Math.round(job.rate) })}` : ""}
        {details.map(([name, value]) => ` · ${name} ${formatNumber(value as number)}`).join("")}
        {job.status === "waiting" && !isEnabled ? ` · ${t("waits until it is on")}` : ""}
        {job.ended_at && ` · ${formatDate(job.ended_at)}`}
      </span>
      {job.error && (
        <span class="error-text">
          <Value value={job.error} />
        </span>
      )}
    </div>
  );
}
