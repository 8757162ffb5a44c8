// HogQL: an editor with completion, errors at their place, and a table that stays quick at 10,000 rows.
import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense } from "preact/compat";
import { useRef, useState } from "preact/hooks";
import { ApiError, buildCurl, call } from "../api/client";
import { formatNumber, showValue, t, tn } from "../lib/text";
import { useUrlState } from "../lib/url";
import { useProject } from "../shell/project";
import { Button } from "../ui/controls";
import { Page } from "../ui/page";
import { copyText, Value } from "../ui/show";
import { Empty, Loading } from "../ui/states";
import { SavedQueries } from "./saved-queries";
import { findErrorPlace, toCsv } from "./query-text";

const SqlEditor = lazy(() => import("./sql-editor").then((module) => ({ default: module.SqlEditor })));
const FIRST = "select event, count() as events, uniq(person_id) as persons\nfrom events\nwhere timestamp > now() - interval 7 day\ngroup by event\norder by events desc\nlimit 100";
const ROW_PX = 32;
const OVERSCAN = 10;

interface QueryResult {
  results: unknown[][];
  columns: string[];
  types: [string, string][];
  hasMore: boolean | null;
}

export function QueryPage() {
  const { api } = useProject();
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("q") ?? FIRST);
  // The editor keeps its text; a saved query that is opened is another editor.
  const [opened, setOpened] = useState(0);
  const current = useRef(text);
  current.current = text;
  const body = () => ({ query: { kind: "HogQLQuery", query: current.current } });
  const started = useRef<AbortController | null>(null);
  const run = useMutation({
    mutationFn: () => {
      started.current = new AbortController();
      return call<QueryResult>("POST", `${api}/query/`, { body: body(), signal: started.current.signal });
    },
  });
  const start = () => {
    change({ q: current.current === FIRST ? null : current.current });
    run.mutate();
  };
  const error = run.error instanceof ApiError ? run.error : null;
  return (
    <Page
      title={t("Query")}
      sub={t("HogQL over events, persons and groups")}
      actions={
        <>
          <Button kind="quiet" onClick={() => void copyText(buildCurl("POST", `${api}/query/`, body()))}>
            {t("Copy as curl")}
          </Button>
          <SavedQueries
            current={url.get("saved")}
            text={text}
            onSaved={(insight) => change({ saved: insight.short_id })}
            onOpen={(insight, query) => {
              setText(query);
              setOpened(opened + 1);
              run.reset();
              change({ saved: insight.short_id, q: query });
            }}
          />
          {run.isPending ? (
            <Button onClick={() => started.current?.abort()}>{t("Cancel")}</Button>
          ) : (
            <Button kind="primary" icon="play" onClick={start}>
              {t("Run")}
            </Button>
          )}
        </>
      }
    >
      <div class="editor-place">
        <Suspense fallback={<Loading rows={4} />}>
          <SqlEditor key={opened} label={t("Query text")} value={text} onChange={setText} onRun={start} problem={error ? { ...findErrorPlace(error.detail), message: error.detail } : null} />
        </Suspense>
      </div>
      {error && (
        <p class="notice bad" role="alert">
          {error.detail}
          {error.requestId && <span class="small muted"> {t("Request id {id}", { id: error.requestId })}</span>}
        </p>
      )}
      <div class="panel flush" aria-busy={run.isPending} hidden={!!error}>
        {run.isPending ? (
          <Loading />
        ) : run.data ? (
          run.data.results.length ? (
            <Results result={run.data} />
          ) : (
            <Empty title={t("No rows")}>{t("The query ran, and nothing matches it.")}</Empty>
          )
        ) : run.isError ? (
          <Empty title={t("The query was canceled")}>{t("Run it again, or narrow it to fewer days.")}</Empty>
        ) : (
          <Empty title={t("Nothing has run yet")}>{t("Press Ctrl Enter or Cmd Enter in the editor.")}</Empty>
        )}
      </div>
    </Page>
  );
}

function download(result: QueryResult): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([toCsv(result.columns, result.results)], { type: "text/csv" }));
  link.download = "query.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Only the rows in sight exist in the page. */
function Results({ result }: { result: QueryResult }) {
  const [top, setTop] = useState(0);
  const count = result.results.length;
  const from = Math.max(0, Math.floor(top / ROW_PX) - OVERSCAN);
  const to = Math.min(count, from + 40 + OVERSCAN);
  const isNumber = result.types.map(([, type]) => /Int|Float|Decimal/.test(type));
  return (
    <>
      <div class="pager" style={{ borderTop: 0, borderBottom: "1px solid var(--line)" }}>
        <span>
          {tn(count, "{n} row", "{n} rows")}
          {result.hasMore && ` · ${t("more rows exist: add a limit or an offset")}`}
        </span>
        <Button isSmall icon="download" onClick={() => download(result)}>
          {t("Download CSV")}
        </Button>
      </div>
      <div class="virtual" tabIndex={0} role="region" aria-label={t("Results")} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <table class="table" aria-rowcount={count + 1}>
          <thead>
            <tr>
              {result.columns.map((name, index) => (
                <th scope="col" key={index} class={isNumber[index] ? "num" : ""}>
                  <Value value={name} maxChars={60} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {from > 0 && (
              <tr aria-hidden="true">
                <td colSpan={result.columns.length} style={{ height: `${from * ROW_PX}px` }} />
              </tr>
            )}
            {result.results.slice(from, to).map((row, index) => (
              <tr key={from + index} aria-rowindex={from + index + 2}>
                {row.map((value, column) => (
                  <td key={column} class={isNumber[column] ? "num" : ""} title={showValue(value).slice(0, 500)}>
                    {typeof value === "number" ? formatNumber(value) : <Value value={value} maxChars={120} />}
                  </td>
                ))}
              </tr>
            ))}
            {to < count && (
              <tr aria-hidden="true">
                <td colSpan={result.columns.length} style={{ height: `${(count - to) * ROW_PX}px` }} />
              </tr>
            )}
          </tbody>
        </table>
      </div>
    </>
  );
}
