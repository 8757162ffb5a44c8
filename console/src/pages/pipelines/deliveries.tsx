// Events that have not arrived: those that wait, and dead letters with the reason and a way to retry.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Page as PageOf } from "../../api/types";
import { formatAgo, formatNumber, t, tn } from "../../lib/text";
import { buildUrl } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, IconButton, Select } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { ACTIONS, DETAILS, List, useList, useListState } from "../../ui/list";
import { Ago, Code, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import type { Delivery, Job, LogLine, Reason, RecordProps } from "./model";

const LIMIT = 25;
const EVERY_MS = 3000;

export function Deliveries(props: RecordProps & { isDead: boolean }) {
  const { path, isDead, refusal, component } = props;
  const { api } = useProject();
  const state = useListState("error", "status");
  const { error = "", status = "" } = state.filters;
  const parameters = { error, status: isDead ? "dead" : status || "retrying,waiting" };
  const deliveries = useList<Delivery>(["pipelines", api, path, "deliveries"], `${path}/deliveries/`, state, parameters, { limit: LIMIT, everyMs: EVERY_MS });
  const count = deliveries.data?.count ?? 0;
  return (
    <>
      {isDead && <Reasons {...props} error={error} onChoose={(value) => state.setFilter("error", value)} />}
      <List
        query={deliveries}
        state={state}
        search={t("Search reason, distinct id or uuid")}
        limit={LIMIT}
        controls={
          <>
            {!isDead && (
              <Select
                label={t("State")}
                isNarrow
                value={status}
                onChange={(value) => state.setFilter("status", value)}
                choices={[
                  { value: "", label: t("All that wait") },
                  { value: "retrying", label: t("Failed, will be retried") },
                  { value: "waiting", label: t("Not attempted yet") },
                ]}
              />
            )}
            <span class="grow" />
            {isDead && count > 0 && !state.search && component?.public_jobs.retry_dead_letters && <RetryAll {...props} count={count} error={error} kind="primary" />}
          </>
        }
        empty={
          isDead ? (
            <Empty title={t("No dead letters")}>{t("An event that the receiver refuses for good, or that failed 25 times, is kept here until you retry it.")}</Empty>
          ) : (
            <Empty title={t("Nothing waits")}>{t("Every event that should be here has arrived. Delivered events are counted under Metrics and not kept.")}</Empty>
          )
        }
        columns={[DETAILS, t("Event"), t("Why"), { label: t("Attempts"), class: "num" }, isDead ? t("Since") : t("Next attempt"), ACTIONS]}
      >
        {(items) => items.map((each) => <Row key={each.id} delivery={each} path={path} refusal={refusal} />)}
      </List>
    </>
  );
}

/** Dead letters by reason: usually one or two reasons explain all of them. */
function Reasons({ path, error, onChoose }: RecordProps & { error: string; onChoose: (error: string) => void }) {
  const { api } = useProject();
  const reasons = useQuery({
    queryKey: ["pipelines", api, path, "dead reasons"],
    queryFn: () => get<Reason[]>(`${path}/deliveries/reasons/`, { status: "dead" }),
    refetchInterval: EVERY_MS,
  });
  const found = reasons.data ?? [];
  if (found.length === 0) return null;
  return (
    <section class="panel" aria-label={t("Reasons")}>
      <div class="head">
        <h2>{t("Reasons")}</h2>
        {error && (
          <Button isSmall onClick={() => onChoose("")}>
            {t("Show all reasons")}
          </Button>
        )}
      </div>
      <ul class="reasons">
        {found.slice(0, 6).map((each) => (
          <li key={each.error} class={each.error === error ? "chosen" : ""}>
            <span class="grow mono small">
              <Value value={each.error} maxChars={300} />
            </span>
            <Button isSmall aria-pressed={each.error === error} aria-label={tn(each.count, "Show {n} event: {error}", "Show {n} events: {error}", { error: each.error.slice(0, 80) })} onClick={() => onChoose(each.error === error ? "" : each.error)}>
              {tn(each.count, "{n} event", "{n} events")}
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Retry all dead letters, or those with one reason, as a job. */
export function RetryAll({ path, record, refusal, count, error, kind }: RecordProps & { count: number; error: string; kind?: "primary" }) {
  const [place, navigate] = useLocation();
  const [isAsked, setAsked] = useState(false);
  const body = { job: { type: "retry_dead_letters", payload: error ? { error } : {} } };
  const start = useMutation({
    mutationFn: () => call<Job>("POST", `${path}/job/?format=json`, { body }),
    onSuccess: () => {
      setAsked(false);
      notify(
        record.enabled
          ? tn(count, "{n} dead letter is being retried.", "{n} dead letters are being retried.")
          : tn(count, "{n} dead letter is retried when {name} is on.", "{n} dead letters are retried when {name} is on.", { name: record.name }),
      );
      void queryClient.invalidateQueries({ queryKey: ["pipelines"] });
      navigate(buildUrl(place, {}));
    },
    onError: notifyError,
  });
  return (
    <>
      <Button {...(kind ? { kind } : {})} disabled={!!refusal} title={refusal} onClick={() => setAsked(true)}>
        {error ? tn(count, "Retry this one…", "Retry these {n}…") : tn(count, "Retry {n} dead letter…", "Retry {n} dead letters…")}
      </Button>
      <Confirm
        title={tn(count, "Retry {n} dead letter?", "Retry {n} dead letters?")}
        action={tn(count, "Retry {n} now", "Retry {n} now")}
        isOpen={isAsked}
        isBusy={start.isPending}
        onConfirm={() => start.mutate()}
        onClose={() => setAsked(false)}
      >
        <p>{tn(count, "{n} event is sent to {name} again.", "{n} events are sent to {name} again, as fast as it accepts them.", { name: record.name })}</p>
        {error && (
          <p class="mono small">
            <Value value={error} maxChars={300} />
          </p>
        )}
        {!record.enabled && <p class="notice warn">{t("It is off, so the job waits until it is on.")}</p>}
        <p class="muted">{t("Events that fail again become dead letters again. You can leave the page: the job goes on.")}</p>
        <p>
          <Button kind="quiet" isSmall onClick={() => void copyText(buildCurl("POST", `${path}/job/`, body))}>
            {t("Copy as curl")}
          </Button>
        </p>
      </Confirm>
    </>
  );
}

function Row({ delivery, path, refusal }: { delivery: Delivery; path: string; refusal: string | undefined }) {
  const [isOpen, setOpen] = useState(false);
  const name = delivery.event || delivery.uuid;
  const retry = useMutation({
    mutationFn: () => call<Delivery>("POST", `${path}/deliveries/${delivery.id}/retry/`),
    onSuccess: () => notify(t("{name} is sent again now.", { name })),
    onError: notifyError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["pipelines"] }),
  });
  return (
    <>
      <tr>
        <td class="shrink end">
          <IconButton isSmall icon={isOpen ? "down" : "right"} label={t("Details of {name}", { name })} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} />
        </td>
        <td class="first">
          <span class="name">
            <Value value={name} maxChars={80} />
          </span>
          <div class="muted small">
            <Value value={delivery.distinct_id} maxChars={60} />
          </div>
        </td>
        <td class="wide">{delivery.error ? <Value value={delivery.error} maxChars={160} /> : <span class="muted">{t("Not attempted yet")}</span>}</td>
        <td class="num drop">{formatNumber(delivery.attempts)}</td>
        <td class="muted drop">{delivery.status === "dead" ? <Ago at={delivery.created_at} /> : delivery.due_at ? formatAgo(delivery.due_at) : t("now")}</td>
        <td class="shrink end">
          <span title={refusal}>
            <Button isSmall disabled={retry.isPending || !!refusal} aria-label={t("Retry {name}", { name })} onClick={() => retry.mutate()}>
              {t("Retry")}
            </Button>
          </span>
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={6} class="wide">
            <Details delivery={delivery} path={path} />
          </td>
        </tr>
      )}
    </>
  );
}

/** The attempts of an event, from the log, and what is sent. */
function Details({ delivery, path }: { delivery: Delivery; path: string }) {
  const { api } = useProject();
  const attempts = useQuery({
    queryKey: ["pipelines", api, path, "attempts", delivery.uuid],
    queryFn: () => get<PageOf<LogLine>>(`${path}/logs/`, { search: delivery.uuid, limit: 25 }),
  });
  return (
    <div class="columns detail">
      <div class="stack">
        <h2>{t("Attempts")}</h2>
        <p class="muted small">
          {tn(delivery.attempts, "{n} attempt", "{n} attempts")} · {t("queued")} <Ago at={delivery.created_at} />
          {delivery.due_at && ` · ${t("next attempt {when}", { when: formatAgo(delivery.due_at) })}`}
        </p>
        <Await query={attempts} rows={2}>
          {(page) =>
            page.results.length ? (
              <ol class="stack s">
                {page.results.map((line) => (
                  <li key={line.id} class="small">
                    <Ago at={line.timestamp} />: <Value value={line.message} />
                  </li>
                ))}
              </ol>
            ) : (
              <p class="muted small">{delivery.error ? <Value value={delivery.error} /> : t("None so far.")}</p>
            )
          }
        </Await>
        <p class="small">
          <span class="muted">uuid</span> <code>{delivery.uuid}</code>
        </p>
      </div>
      <div class="stack">
        <h2>{t("Payload")}</h2>
        <Code label={t("Payload")} text={JSON.stringify(delivery.payload, null, 2)} />
      </div>
    </div>
  );
}
