// What ingestion had to refuse or change: warnings, and events that could not be processed.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { components } from "../../api/schema";
import type { Page as PageOf } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, IconButton } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { ACTIONS, DETAILS, List, useList, useListState } from "../../ui/list";
import { Page, Tabs } from "../../ui/page";
import { Ago, Code, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { useRefusal } from "../../shell/rights";
import "../pipelines/pipelines.css";

type Warning = components["schemas"]["WarningItem"];
type Letter = components["schemas"]["DeadLetterItem"];
type LetterContent = components["schemas"]["DeadLetterContent"];
type Retried = components["schemas"]["RetryItem"];

const EVERY_MS = 5000;

export function IngestionPage() {
  const [url] = useUrlState();
  const [path] = useLocation();
  const { api } = useProject();
  const tab = url.get("tab") === "dead" ? "dead" : "warnings";
  const count = useQuery({
    queryKey: ["ingestion", api, "dead count"],
    queryFn: () => get<PageOf<Letter>>(`${api}/dead_letters/`, { limit: 1 }),
    refetchInterval: EVERY_MS,
  }).data?.count;
  return (
    <Page title={t("Ingestion")} sub={t("Events that were refused, changed or could not be processed")}>
      <Tabs
        label={t("Parts of ingestion")}
        current={tab}
        tabs={[
          { name: "warnings", label: t("Warnings"), to: path },
          { name: "dead", label: count ? `${t("Dead letters")} ${formatNumber(count)}` : t("Dead letters"), to: buildUrl(path, { tab: "dead" }) },
        ]}
      />
      {tab === "dead" ? <DeadLetters /> : <Warnings />}
    </Page>
  );
}

function Warnings() {
  const { api, root } = useProject();
  const state = useListState("type");
  const { type = "" } = state.filters;
  const warnings = useList<Warning>(["ingestion", api], `${api}/ingestion_warnings/`, state, { type }, { everyMs: EVERY_MS });
  return (
    <List
      query={warnings}
      state={state}
      search={t("Search warnings")}
      controls={
        <>
          {type && (
            <Button isSmall icon="close" onClick={() => state.setFilter("type", "")}>
              {type.replaceAll("_", " ")}
            </Button>
          )}
          <span class="grow" />
          <span class="muted small">{warnings.data ? tn(warnings.data.count, "{n} warning", "{n} warnings") : ""}</span>
        </>
      }
      empty={<Empty title={t("No warnings")}>{t("Every event was accepted as it was sent. Events that are refused or changed appear here with the reason.")}</Empty>}
      columns={[t("Warning"), t("Event"), t("Why"), { label: t("When"), class: "shrink" }]}
    >
      {(items) =>
        items.map((each) => (
          <tr key={each.id}>
            <td class="first top">
              <Button isSmall kind="quiet" title={t("Only warnings of this kind")} onClick={() => state.setFilter("type", each.type)}>
                {each.type.replaceAll("_", " ")}
              </Button>
            </td>
            <td class="top">
              <Value value={each.event} maxChars={60} />
              {each.distinct_id && (
                <div class="muted small">
                  <Link href={buildUrl(`${root}/activity/explore`, { distinct_id: each.distinct_id })}>
                    <Value value={each.distinct_id} maxChars={60} />
                  </Link>
                </div>
              )}
            </td>
            <td class="wide top">
              <Value value={each.detail} maxChars={300} />
            </td>
            <td class="shrink top muted">
              <Ago at={each.timestamp} />
            </td>
          </tr>
        ))
      }
    </List>
  );
}

function DeadLetters() {
  const { api } = useProject();
  const state = useListState();
  const refusal = useRefusal("ingestion_warning:write");
  const letters = useList<Letter>(["ingestion", api], `${api}/dead_letters/`, state, {}, { everyMs: EVERY_MS });
  const newest = state.offset === 0 && !state.search ? letters.data?.results[0]?.id : undefined;
  return (
    <List
      query={letters}
      state={state}
      search={t("Search reason, event or distinct id")}
      controls={
        <>
          <span class="grow" />
          {newest !== undefined && <RetryAll count={letters.data!.count} newest={newest} refusal={refusal} />}
        </>
      }
      empty={<Empty title={t("No dead letters")}>{t("An event that was accepted and cannot be processed is kept here unchanged, until someone retries it.")}</Empty>}
      columns={[DETAILS, t("Event"), t("Why"), t("Step"), t("When"), ACTIONS]}
    >
      {(items) => items.map((each) => <Row key={each.id} letter={each} refusal={refusal} />)}
    </List>
  );
}

/** Retry all dead letters that exist now, in steps of a thousand. */
function RetryAll({ count, newest, refusal }: { count: number; newest: number; refusal: string | undefined }) {
  const { api } = useProject();
  const [isAsked, setAsked] = useState(false);
  const [left, setLeft] = useState<number | null>(null);
  const path = buildUrl(`${api}/dead_letters/retry/`, { until: newest });
  const retry = useMutation({
    mutationFn: async () => {
      let events = 0;
      for (let open = count; open > 0; ) {
        setLeft(open);
        const step = await call<Retried>("POST", path);
        events += step.events;
        if (!step.events) break;
        open = step.left;
      }
      return events;
    },
    onSuccess: (events) => {
      setAsked(false);
      notify(tn(events, "{n} event is processed again.", "{n} events are processed again."));
    },
    onError: notifyError,
    onSettled: () => {
      setLeft(null);
      void queryClient.invalidateQueries({ queryKey: ["ingestion"] });
    },
  });
  return (
    <>
      <span title={refusal}>
        <Button kind="primary" disabled={!!refusal} onClick={() => setAsked(true)}>
          {tn(count, "Retry {n} dead letter…", "Retry {n} dead letters…")}
        </Button>
      </span>
      <Confirm title={tn(count, "Retry {n} dead letter?", "Retry {n} dead letters?")} action={t("Retry now")} isOpen={isAsked} isBusy={retry.isPending} onConfirm={() => retry.mutate()} onClose={() => setAsked(false)}>
        <p>{t("Their events are processed again, after those that were accepted in the meantime. Correct the cause first: what fails again comes back.")}</p>
        {left !== null && (
          <div role="status">
            <progress class="progress" max={count} value={count - left} aria-label={t("Progress")} />
            {t("{done} of {count}", { done: count - left, count })}
          </div>
        )}
        <p>
          <Button kind="quiet" isSmall onClick={() => void copyText(buildCurl("POST", path))}>
            {t("Copy as curl")}
          </Button>
        </p>
      </Confirm>
    </>
  );
}

function Row({ letter, refusal }: { letter: Letter; refusal: string | undefined }) {
  const { api } = useProject();
  const [isOpen, setOpen] = useState(false);
  const name = letter.event || t("An event that cannot be read");
  const retry = useMutation({
    mutationFn: () => call<Retried>("POST", `${api}/dead_letters/${letter.id}/retry/`),
    onSuccess: (done) => notify(tn(done.events, "{n} event is processed again.", "{n} events are processed again.")),
    onError: notifyError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["ingestion"] }),
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
          {letter.events > 1 && <span class="tag">{tn(letter.events, "{n} event", "{n} events")}</span>}
          <div class="muted small">
            <Value value={letter.distinct_id} maxChars={60} />
          </div>
        </td>
        <td class="wide">
          <Value value={letter.reason} maxChars={200} />
        </td>
        <td class="muted drop">{letter.step === "store" ? t("store") : t("process")}</td>
        <td class="muted drop">
          <Ago at={letter.timestamp} />
        </td>
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
            <Content id={letter.id} />
          </td>
        </tr>
      )}
    </>
  );
}

function Content({ id }: { id: number }) {
  const { api } = useProject();
  const letter = useQuery({ queryKey: ["dead letter", api, id], queryFn: () => get<LetterContent>(`${api}/dead_letters/${id}/`) });
  return (
    <Await query={letter} rows={3}>
      {(found) => (
        <div class="detail stack s">
          <p class="small">
            <span class="muted">uuid</span> <code>{found.uuid}</code>
          </p>
          <Code label={t("Events as they were accepted")} text={JSON.stringify(found.content, null, 2).slice(0, 50_000)} />
        </div>
      )}
    </Await>
  );
}
