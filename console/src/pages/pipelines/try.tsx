// Try a record on a real event: what it would send, what it changes, and what the receiver says.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, buildCurl, call, get, queryClient } from "../../api/client";
import type { EventRecord } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatAgo, t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, Field, Select } from "../../ui/controls";
import { Code, copyText, Value } from "../../ui/show";
import { Loading } from "../../ui/states";
import { diff } from "../flag/draft";
import { Changes } from "../flag/review";
import { type Draft, listChanges, type Preview, readConfig, type RecordProps, type Setting, toBodies, toDraft, toParts, type TransformationPreview } from "./model";

const RECENT = 20;
const NAME_MAX = 200;

export interface Sample {
  event: string;
  distinct_id: string;
  properties: Record<string, unknown>;
  person_properties: Record<string, unknown>;
}

const EXAMPLE: Sample = { event: "bought", distinct_id: "ann", properties: { price: 3, currency: "EUR" }, person_properties: { plan: "pro" } };

interface FullEvent extends Omit<EventRecord, "person" | "properties"> {
  person?: { properties?: Record<string, unknown> } | null;
  properties?: Record<string, unknown>;
}

function toSample(event: FullEvent): Sample {
  return {
    event: event.event.slice(0, NAME_MAX),
    distinct_id: event.distinct_id.slice(0, NAME_MAX),
    properties: event.properties ?? {},
    person_properties: event.person?.properties ?? {},
  };
}

/** The newest events, those that pass the filter by name first. */
function useRecent(names: string[]): FullEvent[] {
  const { api } = useProject();
  const event = names[0] ?? "";
  const recent = useQuery({
    queryKey: ["recent events", api, event],
    queryFn: ({ signal }) => get<{ results: FullEvent[] }>(`${api}/events/`, { limit: RECENT, after: "-30d", event }, signal),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
  });
  return recent.data?.results ?? [];
}

function useSample(names: string[]) {
  const events = useRecent(names);
  const [chosen, setChosen] = useState("");
  const event = events.find((each) => each.id === chosen) ?? events[0];
  return { events, sample: event ? toSample(event) : EXAMPLE, id: event?.id ?? "", choose: setChosen };
}

function EventChoice({ events, id, onChoose }: { events: FullEvent[]; id: string; onChoose: (id: string) => void }) {
  if (!events.length) return <p class="muted small">{t("No event has arrived in 30 days, so an example is used.")}</p>;
  return (
    <Select
      label={t("Event to try")}
      value={id}
      choices={events.map((each) => ({ value: each.id, label: `${each.event.slice(0, 40)} · ${each.distinct_id.slice(0, 30)} · ${formatAgo(each.timestamp)}` }))}
      onChange={onChoose}
    />
  );
}

/** What the settings as they are typed would do to a real event. Nothing is sent. */
export function DraftPreview({ family, path, record, draft, settings, isBlocked, refusal }: RecordProps & { draft: Draft; settings: Setting[]; isBlocked: boolean }) {
  const isTransformation = family.name === "transformations";
  const { events, sample, id, choose } = useSample((draft.values.events ?? []) as string[]);
  const parts = toParts(draft, settings);
  const { config } = toBodies(listChanges(toParts(toDraft(record, settings), settings), parts, new Set()), parts);
  const body = useSettled(JSON.stringify({ ...sample, ...(Object.keys(config).length ? { config } : {}) }), 400);
  const preview = useQuery({
    queryKey: ["preview", path, record.updated_at, body],
    queryFn: ({ signal }) => call<Preview & TransformationPreview>("POST", `${path}/${isTransformation ? "test" : "preview"}/`, { body: JSON.parse(body), signal }),
    enabled: !isBlocked && !refusal,
    placeholderData: keepPreviousData,
    retry: false,
  });
  const error = preview.error instanceof ApiError ? preview.error.detail : "";
  return (
    <section class="panel" aria-label={t("Preview with a real event")}>
      <div class="head">
        <h2>{t("Preview with a real event")}</h2>
      </div>
      <div class="body stack" aria-busy={preview.isFetching}>
        <EventChoice events={events} id={id} onChoose={choose} />
        {refusal ? (
          <p class="muted">{refusal}</p>
        ) : isBlocked ? (
          <p class="muted">{t("The preview appears when the settings are complete.")}</p>
        ) : error ? (
          <p class="notice warn">{error}</p>
        ) : preview.data ? (
          isTransformation ? (
            <Transformed result={preview.data} />
          ) : (
            <Exchanges result={preview.data} isSent={false} />
          )
        ) : (
          <Loading rows={4} />
        )}
      </div>
    </section>
  );
}

function Transformed({ result }: { result: TransformationPreview }) {
  if (result.error) return <p class="notice bad">{result.error}</p>;
  if (!result.after) return <p class="notice warn">{t("This event is dropped: it is not stored and no destination gets it.")}</p>;
  if (!result.changed) return <p class="notice">{t("This event passes unchanged.")}</p>;
  return <Changes changes={diff(result.before, result.after)} />;
}

const pretty = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};
const showHeaders = (headers: Record<string, string> | null | undefined): string =>
  Object.entries(headers ?? {})
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");

/** Requests, and the responses if they were sent. */
function Exchanges({ result, isSent }: { result: Preview; isSent: boolean }) {
  return (
    <div class="stack">
      {isSent && (
        <p class={`notice ${result.delivered ? "" : "bad"}`} role="status">
          {result.delivered ? t("The event arrived.") : <Value value={result.error || t("The event did not arrive.")} />}
        </p>
      )}
      {!isSent && result.error && (
        <p class="notice bad">
          <Value value={result.error} />
        </p>
      )}
      {result.requests.map((each, index) => (
        <div class={isSent ? "columns" : "stack"} key={index}>
          <div class="stack s">
            <h3>{t("Request")}</h3>
            <p class="mono small">
              <strong>{each.method}</strong> <Value value={each.url} />
            </p>
            {showHeaders(each.headers as Record<string, string>) && <Code label={t("Headers of the request")} text={showHeaders(each.headers as Record<string, string>)} />}
            {each.body && <Code label={t("Body of the request")} text={pretty(each.body)} />}
          </div>
          {isSent && (
            <div class="stack s">
              <h3>{t("Response")}</h3>
              {each.response_headers === null ? (
                <p class="muted">{t("No response.")}</p>
              ) : (
                <>
                  <p>
                    <span class={`tag ${each.status && each.status < 300 ? "on" : each.status ? "bad" : ""}`}>{each.status ?? t("Done")}</span>
                  </p>
                  {showHeaders(each.response_headers as Record<string, string>) && <Code label={t("Headers of the response")} text={showHeaders(each.response_headers as Record<string, string>)} />}
                  {each.response_body && <Code label={t("Body of the response")} text={pretty(each.response_body)} />}
                </>
              )}
            </div>
          )}
        </div>
      ))}
      {!result.requests.length && !result.error && <p class="muted">{t("Nothing is sent for this event.")}</p>}
    </div>
  );
}

/** The test page: edit a sample, and send it. */
export function TryIt({ family, path, record, refusal }: RecordProps) {
  const isTransformation = family.name === "transformations";
  const config = readConfig(record);
  const { events, sample, id, choose } = useSample((Array.isArray(config.events) ? config.events : []) as string[]);
  const [text, setText] = useState<string | null>(null);
  const shown = text ?? JSON.stringify(sample, null, 2);
  let parsed: unknown;
  let problem = "";
  try {
    parsed = JSON.parse(shown);
  } catch (reason) {
    problem = t("This is not valid JSON: {reason}", { reason: (reason as Error).message });
  }
  const run = useMutation({
    mutationFn: () => call<Preview & TransformationPreview>("POST", `${path}/test/`, { body: parsed }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["pipelines"] }),
  });
  const error = run.error instanceof ApiError ? run.error : null;
  return (
    <>
      {refusal && <p class="notice warn">{refusal}</p>}
      <section class="panel" aria-label={t("Event")}>
        <div class="head">
          <h2>{isTransformation ? t("Try it on one event") : t("Send one event now")}</h2>
          <Button kind="quiet" isSmall onClick={() => void copyText(buildCurl("POST", `${path}/test/`, parsed))}>
            {t("Copy as curl")}
          </Button>
        </div>
        <div class="body stack">
          <div class="row">
            <span class="label">{t("Start from")}</span>
            <div class="grow" style={{ maxWidth: "30rem" }}>
              <EventChoice
                events={events}
                id={id}
                onChoose={(next) => {
                  choose(next);
                  setText(null);
                }}
              />
            </div>
          </div>
          <Field
            label={t("Event, as JSON")}
            hint={isTransformation ? t("Nothing is stored.") : t("It is sent with the saved settings, whether the destination is on or off. Filters do not apply, and nothing is stored.")}
            error={problem || (error && (error.attr ? `${error.attr.replace("config__", "")}: ${error.detail}` : error.detail)) || undefined}
          >
            {(attributes) => <textarea {...attributes} class="input code" rows={12} spellcheck={false} value={shown} onInput={(event) => setText(event.currentTarget.value)} />}
          </Field>
          <div class="row">
            <Button kind="primary" disabled={!!problem || run.isPending || !!refusal} onClick={() => run.mutate()}>
              {run.isPending ? t("Sending…") : isTransformation ? t("Transform") : t("Send now")}
            </Button>
          </div>
        </div>
      </section>
      {run.data && (
        <section class="panel" aria-label={t("Result")}>
          <div class="head">
            <h2>{t("Result")}</h2>
          </div>
          <div class="body">{isTransformation ? <Transformed result={run.data} /> : <Exchanges result={run.data} isSent />}</div>
        </section>
      )}
    </>
  );
}
