// The answer of an insight: options, chart, notes, and the table with the same figures.
import type { UseQueryResult } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError } from "../../../api/client";
import { t } from "../../../lib/text";
import { useRefusal } from "../../../shell/rights";
import { Button, IconButton } from "../../../ui/controls";
import { Ago } from "../../../ui/show";
import { Failed, Loading } from "../../../ui/states";
import { AnnotationDialog, useAnnotations } from "./annotations";
import { ViewOptions } from "../editor/options";
import { isTotal, type Source } from "../query";
import { InsightResult, Twin } from "./result";
import { toTable } from "./results";
import type { Answer } from "../run";

interface Props {
  label: string;
  source: Source;
  answer: UseQueryResult<Answer>;
  insightId: number | null;
  isEditable: boolean;
  onChange: (part: Partial<Source>) => void;
  onRefresh: () => void;
}

const HAS_TIME = (source: Source) => (source.kind === "TrendsQuery" && !isTotal(source)) || source.funnelsFilter?.funnelVizType === "trends";
/** Charts that are tables already need no second one. */
const HAS_TWIN = (source: Source) => source.kind !== "HogQLQuery" && source.trendsFilter?.display !== "ActionsTable";

export function Answered({ label, source, answer, insightId, isEditable, onChange, onRefresh }: Props) {
  const refusal = useRefusal("annotation:write");
  const [note, setNote] = useState<number | "new" | null>(null);
  const hasTime = HAS_TIME(source);
  const { marks, annotations } = useAnnotations(hasTime, source.dateRange?.date_from ?? null, insightId);
  const data = answer.data;
  const error = answer.error;
  const isBad = error instanceof ApiError && error.status === 400;
  return (
    <div class="stack">
      <section class="panel" aria-label={t("Result")} aria-busy={answer.isFetching}>
        <div class="head">
          {isEditable ? <ViewOptions source={source} onChange={onChange} /> : <span />}
          <div class="row tight apart">
            <span class="small muted" role="status">
              {answer.isFetching ? t("Computing…") : data?.response.last_refresh ? <>{t("computed")} <Ago at={data.response.last_refresh} /></> : null}
            </span>
            {hasTime && (
              <Button isSmall kind="quiet" icon="plus" disabled={!!refusal} title={refusal} onClick={() => setNote("new")}>
                {t("Note")}
              </Button>
            )}
            <IconButton isSmall icon="refresh" label={t("Compute again")} disabled={answer.isFetching} onClick={onRefresh} />
          </div>
        </div>
        <div class={`body ${answer.isPlaceholderData ? "outdated" : ""}`}>
          {error && !answer.isFetching ? (
            isBad ? (
              <p class="notice warn" role="alert">
                {error.detail}
              </p>
            ) : (
              <Failed error={error} onRetry={() => void answer.refetch()} />
            )
          ) : data ? (
            <InsightResult label={label} source={data.source} results={data.response.results} columns={data.response.columns} marks={marks} onMark={(mark) => setNote(mark.id)} />
          ) : (
            <Loading />
          )}
        </div>
      </section>
      {data && !error && HAS_TWIN(data.source) && (
        <section class="panel flush" aria-label={t("The same figures as a table")}>
          <Twin table={toTable(data.source, data.response.results, data.response.columns)} label={label} />
        </section>
      )}
      {note !== null && <AnnotationDialog annotation={note === "new" ? null : (annotations.find((each) => each.id === note) ?? null)} insightId={insightId} onClose={() => setNote(null)} />}
    </div>
  );
}
