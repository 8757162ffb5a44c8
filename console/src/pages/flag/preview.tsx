// What the draft does: who gets it, who changes, and why one person gets what they get.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, call, get } from "../../api/client";
import type { Page, Person } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatNumber, formatPercent, showValue, t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Combobox } from "../../ui/combobox";
import { Value } from "../../ui/show";
import { Failed, Loading } from "../../ui/states";
import { showOperator } from "./describe";
import { type Draft, type DraftFilter, findProblems, toFields } from "./draft";

const SETTLE_MS = 300;
// The service counts no more than that.
const MAX_PERSONS = 10_000;
const SERIES = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5"];

export interface ConditionCounts {
  matches: number;
  gets: number;
  decides: number;
}

interface PreviewResult {
  total_persons: number;
  sampled_persons: number;
  conditions: ConditionCounts[];
  values: Record<string, number>;
  changes: { before: string; after: string; persons: number }[];
}

/** The draft as the preview sees it: as if it were on, with some key. */
function toPreviewed(draft: Draft, id: number | null): Record<string, unknown> {
  const fields = toFields(draft);
  return { ...fields, active: true, archived: false, key: draft.key || "new-flag", ...(id === null ? {} : { id }) };
}

/** Whether the service can evaluate the draft: a filter that is being entered may have no value yet. A preview needs no key. */
function isComplete(draft: Draft): boolean {
  const isFilled = ({ key, value, operator }: DraftFilter) => !!key && (/^is_(not_)?set$/.test(operator ?? "") || !(value == null || value === "" || (Array.isArray(value) && !value.length)));
  return Object.keys(findProblems(draft)).every((each) => each === "key") && draft.conditions.every((each) => each.filters.every(isFilled));
}

/** Evaluate the draft over stored persons, a while after the last change. Counts belong to conditions, not to places. */
export function usePreview(draft: Draft, id: number | null) {
  const { api } = useProject();
  const body = useSettled(isComplete(draft) ? JSON.stringify(toPreviewed(draft, id)) : "", SETTLE_MS);
  const uids = useSettled(draft.conditions.map((each) => each.uid).join(" "), SETTLE_MS);
  const preview = useQuery<PreviewResult & { uids: string }>({
    queryKey: ["preview", api, body, uids],
    queryFn: ({ signal }) => call<PreviewResult>("POST", `${api}/feature_flags/preview/`, { body: JSON.parse(body) as unknown, signal }).then((result) => ({ ...result, uids })),
    enabled: body !== "",
    placeholderData: keepPreviousData,
    retry: false,
  });
  const counts = new Map<string, ConditionCounts>();
  if (preview.data && !preview.error)
    preview.data.uids.split(" ").forEach((uid, index) => {
      const found = preview.data.conditions[index];
      if (found) counts.set(uid, found);
    });
  return { preview, counts };
}

export function WhoGetsIt({ draft, preview }: { draft: Draft; preview: ReturnType<typeof usePreview>["preview"] }) {
  return (
    <section class="panel" aria-label={t("Who gets it")} aria-busy={preview.isFetching}>
      <div class="head">
        <h2>{t("Who gets it")}</h2>
        {!draft.active && <span class="tag warn">{t("The flag is off: as if it were on")}</span>}
      </div>
      <div class="body stack">
        {preview.error ? (
          <p class="notice warn" role="status">
            {preview.error instanceof ApiError ? preview.error.detail : String(preview.error)}
          </p>
        ) : preview.data ? (
          <Distribution result={preview.data} />
        ) : (
          <Loading rows={3} />
        )}
      </div>
    </section>
  );
}

/** Say of whom the counts are: all persons, the newest of very many, or those that were counted in time. */
function describeSample(sampled: number, total: number): string {
  if (sampled >= total) return t("Of all {total} persons.", { total });
  if (sampled >= MAX_PERSONS) return t("Of the newest {sampled} of {total} persons.", { sampled, total });
  return t("Of the newest {sampled} of {total} persons: the service was too busy to count more in time.", { sampled, total });
}

function Distribution({ result }: { result: PreviewResult }) {
  const total = Math.max(result.sampled_persons, 1);
  const values = Object.entries(result.values).sort(([left], [right]) => (left === "false" ? 1 : right === "false" ? -1 : left < right ? -1 : 1));
  const sum = (keep: (before: string, after: string) => boolean) =>
    result.changes.filter((each) => keep(each.before, each.after)).reduce((all, each) => all + each.persons, 0);
  const gained = sum((before) => before === "false");
  const lost = sum((_, after) => after === "false");
  const other = sum((before, after) => before !== "false" && after !== "false");
  if (result.total_persons === 0) return <p class="muted">{t("There are no persons yet. Send an event with an SDK, and see who gets the flag.")}</p>;
  return (
    <>
      <div class="bars">
        {values.map(([value, count], index) => (
          <div class="bar" key={value}>
            <span class="cut">{value === "false" ? t("off") : value === "true" ? t("on") : <Value value={value} maxChars={40} />}</span>
            <span class="track" aria-hidden="true">
              <span class="fill" style={{ width: `${(count / total) * 100}%`, background: `var(${value === "false" ? "--series-0" : SERIES[index % SERIES.length]})` }} />
            </span>
            <span class="num">
              {formatNumber(count)} <span class="muted small">{formatPercent(Math.round((count / total) * 1000) / 10)}</span>
            </span>
          </div>
        ))}
      </div>
      <p class="small muted">
        {describeSample(result.sampled_persons, result.total_persons)}
      </p>
      {gained + lost + other > 0 && (
        <p>
          {t("If you save:")} {gained > 0 && <span class="tag on">{t("{n} get it", { n: gained })}</span>} {lost > 0 && <span class="tag bad">{t("{n} lose it", { n: lost })}</span>}{" "}
          {other > 0 && <span class="tag info">{t("{n} get another variant", { n: other })}</span>}
        </p>
      )}
    </>
  );
}

interface ExplainedFilter {
  kind: string;
  about: string;
  key: string;
  operator: string;
  wanted: unknown;
  found: unknown;
  source: string;
  holds: boolean | null;
}

interface Explanation {
  value: boolean | string;
  description: string;
  conditions: {
    index: number;
    filters: ExplainedFilter[];
    rollout: { percentage: number; place: number | null; is_in: boolean };
    verdict: string;
    is_reached: boolean;
  }[];
  exceptions: { kind: string; decides: boolean }[];
}

export function TryPerson({ draft, id }: { draft: Draft; id: number | null }) {
  const { api } = useProject();
  const [text, setText] = useState("");
  const [person, setPerson] = useState("");
  const search = useSettled(text.trim(), 200);
  const found = useQuery({
    queryKey: ["persons", api, "try", search],
    queryFn: ({ signal }) => get<Page<Person>>(`${api}/persons/`, { search, limit: 8 }, signal),
    staleTime: 30_000,
  });
  const options = (found.data?.results ?? []).map((each) => ({ value: each.distinct_ids[0] ?? each.uuid, label: each.name }));
  const body = useSettled(isComplete(draft) && person ? JSON.stringify({ ...toPreviewed(draft, id), active: draft.active, distinct_id: person }) : "", SETTLE_MS);
  const explained = useQuery({
    queryKey: ["explain", api, body],
    queryFn: ({ signal }) => call<Explanation>("POST", `${api}/feature_flags/explain/`, { body: JSON.parse(body) as unknown, signal }),
    enabled: body !== "",
    placeholderData: keepPreviousData,
    retry: false,
  });
  const stored = useQuery({
    queryKey: ["persons", api, "distinct id", person],
    queryFn: ({ signal }) => get<Page<Person>>(`${api}/persons/`, { distinct_id: person, limit: 1 }, signal),
    enabled: person !== "",
    staleTime: 30_000,
  });
  return (
    <section class="panel" aria-label={t("Try one person")}>
      <div class="head">
        <h2>{t("Try one person")}</h2>
      </div>
      <div class="body stack">
        <Combobox
          label={t("Person")}
          placeholder={t("Email or distinct id")}
          value={text}
          options={options}
          isLoading={found.isFetching}
          onInput={setText}
          onChoose={(value) => {
            const chosen = options.find((each) => each.value === value || each.label === value);
            setPerson(chosen?.value ?? value);
            setText(chosen?.label ?? value);
          }}
        />
        {person && stored.data?.results.length === 0 && <p class="notice warn">{t("No stored person has the distinct id {id}. A new person with this id would get:", { id: person })}</p>}
        {person && explained.error && <Failed error={explained.error} />}
        {person && !explained.error && explained.data && <Verdicts explanation={explained.data} />}
      </div>
    </section>
  );
}

export function Verdicts({ explanation }: { explanation: Explanation }) {
  return (
    <div class="verdicts" role="status">
      <p>
        <span class={`tag ${explanation.value === false ? "" : "on"}`}>
          <Value value={String(explanation.value)} maxChars={60} />
        </span>{" "}
        <span class="muted">{explanation.description}</span>
      </p>
      {explanation.exceptions
        .filter((each) => each.decides)
        .map((each) => (
          <p key={each.kind} class="verdict yes">
            {t("Decided by the {kind}.", { kind: each.kind })}
          </p>
        ))}
      {explanation.conditions.map((condition) => (
        <div key={condition.index} class="stack s">
          <strong class={condition.is_reached ? "" : "muted"}>
            {t("Condition {number}", { number: condition.index + 1 })}
            {!condition.is_reached && ` · ${t("not reached")}`}
          </strong>
          {condition.filters.map((filter, index) => (
            <FilterVerdict key={index} filter={filter} />
          ))}
          <span class={`verdict ${condition.rollout.is_in ? "yes" : "no"} small`}>
            {condition.rollout.place === null
              ? t("Rollout {percent}", { percent: formatPercent(condition.rollout.percentage) })
              : t("Rollout {percent}: this person is at {place}", {
                  percent: formatPercent(condition.rollout.percentage),
                  place: formatPercent(Math.round(condition.rollout.place * 10) / 10),
                })}
          </span>
        </div>
      ))}
    </div>
  );
}

function FilterVerdict({ filter }: { filter: ExplainedFilter }) {
  const wanted = Array.isArray(filter.wanted) ? filter.wanted.map(showValue).join(", ") : showValue(filter.wanted);
  if (filter.kind === "cohort")
    return (
      <span class={`verdict ${filter.holds ? "yes" : "no"} small`}>
        {filter.found ? t("in the cohort") : t("not in the cohort")} <Value value={filter.key} maxChars={60} />
      </span>
    );
  return (
    <span class={`verdict ${filter.holds ? "yes" : "no"} small`}>
      <code>
        <Value value={filter.key} maxChars={60} />
      </code>{" "}
      {showOperator(filter.operator)} <Value value={wanted} maxChars={80} />
      {" — "}
      {filter.source === "missing" ? (
        t("not set")
      ) : (
        <>
          {t("is")} <Value value={filter.found} maxChars={80} />
        </>
      )}
    </span>
  );
}
