// What ingestion had to refuse or change: warnings, and events that could not be processed.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { components } from "../../api/schema";
import type { Page as PageOf } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatNumber, t, tn } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, IconButton, SearchInput } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Page, Pager, Tabs } from "../../ui/page";
import { Ago, Code, copyText, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { tell } from "../pipelines/list";
import { useRefusal } from "../pipelines/rights";
import "../pipelines/pipelines.css";

type Warning = components["schemas"]["WarningItem"];
type Letter = components["schemas"]["DeadLetterItem"];
type LetterContent = components["schemas"]["DeadLetterContent"];
type Retried = components["schemas"]["RetryItem"];

const LIMIT = 50;
const EVERY_MS = 5000;

/** The text that is searched for, in the address, and the page of the list. */
function useListState() {
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim());
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const clear = () => {
    setText("");
    change({ search: null, type: null, offset: null });
  };
  return { url, change, text, setText, search, offset: Number(url.get("offset")) || 0, clear };
}

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
  const { url, change, text, setText, search, offset, clear } = useListState();
  const type = url.get("type") ?? "";
  const query = { type, search, limit: LIMIT, offset: offset || null };
  const warnings = useQuery({
    queryKey: ["ingestion", api, "warnings", query],
    queryFn: ({ signal }) => get<PageOf<Warning>>(`${api}/ingestion_warnings/`, query, signal),
    placeholderData: keepPreviousData,
    refetchInterval: EVERY_MS,
  });
  return (
    <>
      <div class="row">
        <SearchInput label={t("Search warnings")} value={text} onInput={setText} />
        {type && (
          <Button isSmall icon="close" onClick={() => change({ type: null, offset: null })}>
            {type.replaceAll("_", " ")}
          </Button>
        )}
        <span class="grow" />
        <span class="muted small">{warnings.data ? tn(warnings.data.count, "{n} warning", "{n} warnings") : ""}</span>
      </div>
      <div class="panel flush">
        <Await query={warnings}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col">{t("Warning")}</th>
                      <th scope="col">{t("Event")}</th>
                      <th scope="col">{t("Why")}</th>
                      <th scope="col" class="shrink">
                        {t("When")}
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((each) => (
                      <tr key={each.id}>
                        <td class="first top">
                          <Button isSmall kind="quiet" title={t("Only warnings of this kind")} onClick={() => change({ type: each.type, offset: null })}>
                            {each.type.replaceAll("_", " ")}
                          </Button>
                        </td>
                        <td class="top">
                          <Value value={each.event} maxChars={60} />
                          {each.distinct_id && (
                            <div class="muted small">
                              <a href={buildUrl(`${root}/activity/explore`, { distinct_id: each.distinct_id })}>
                                <Value value={each.distinct_id} maxChars={60} />
                              </a>
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
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : search || type ? (
              <NoMatch onClear={clear} />
            ) : (
              <Empty title={t("No warnings")}>{t("Every event was accepted as it was sent. Events that are refused or changed appear here with the reason.")}</Empty>
            )
          }
        </Await>
      </div>
    </>
  );
}

function DeadLetters() {
  const { api } = useProject();
  const { change, text, setText, search, offset, clear } = useListState();
  const refusal = useRefusal("ingestion_warning:write");
  const query = { search, limit: LIMIT, offset: offset || null };
  const letters = useQuery({
    queryKey: ["ingestion", api, "dead", query],
    queryFn: ({ signal }) => get<PageOf<Letter>>(`${api}/dead_letters/`, query, signal),
    placeholderData: keepPreviousData,
    refetchInterval: EVERY_MS,
  });
  const newest = offset === 0 && !search ? letters.data?.results[0]?.id : undefined;
  return (
    <>
      <div class="row">
        <SearchInput label={t("Search reason, event or distinct id")} value={text} onInput={setText} />
        <span class="grow" />
        {newest !== undefined && <RetryAll count={letters.data!.count} newest={newest} refusal={refusal} />}
      </div>
      <div class="panel flush">
        <Await query={letters}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col" class="shrink">
                        <span class="hidden-text">{t("Details")}</span>
                      </th>
                      <th scope="col">{t("Event")}</th>
                      <th scope="col">{t("Why")}</th>
                      <th scope="col">{t("Step")}</th>
                      <th scope="col">{t("When")}</th>
                      <th scope="col" class="shrink">
                        <span class="hidden-text">{t("Actions")}</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((each) => (
                      <Row key={each.id} letter={each} refusal={refusal} />
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : search ? (
              <NoMatch onClear={clear} />
            ) : (
              <Empty title={t("No dead letters")}>{t("An event that was accepted and cannot be processed is kept here unchanged, until someone retries it.")}</Empty>
            )
          }
        </Await>
      </div>
    </>
  );
}

/** Retry all dead letters that exist now, in steps of a thousand. */
function RetryAll({ count, newest, refusal }: { count: number; newest: number; refusal: string }) {
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
    onError: tell,
    onSettled: () => {
      setLeft(null);
      void queryClient.invalidateQueries({ queryKey: ["ingestion"] });
    },
  });
  return (
    <>
      <span title={refusal || undefined}>
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

function Row({ letter, refusal }: { letter: Letter; refusal: string }) {
  const { api } = useProject();
  const [isOpen, setOpen] = useState(false);
  const name = letter.event || t("An event that cannot be read");
  const retry = useMutation({
    mutationFn: () => call<Retried>("POST", `${api}/dead_letters/${letter.id}/retry/`),
    onSuccess: (done) => notify(tn(done.events, "{n} event is processed again.", "{n} events are processed again.")),
    onError: tell,
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
          <span title={refusal || undefined}>
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
