// One action: its steps, and the newest events that match it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useLocation, useParams } from "wouter-preact";
import { ApiError, buildCurl, call, get, queryClient } from "../../api/client";
import type { Action, ActionStep } from "../../api/types";
import { t } from "../../lib/text";
import { buildUrl } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Combobox, ValuesInput } from "../../ui/combobox";
import { Button, Field, IconButton, Select } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Page } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { useEventChoices } from "../insights/editor/choices";
import { Filters } from "../insights/editor/filters";
import { completeFilters } from "../insights/query";
import { useRefusal } from "../../shell/rights";
import "../insights/insights.css";

type Draft = Pick<Action, "name" | "description"> & { tags: string[]; steps: ActionStep[] };
const EMPTY_STEP: ActionStep = { event: null, url: null, url_matching: null, text: null, text_matching: null, href: null, href_matching: null, selector: null, tag_name: null, properties: [] };

export function ActionPage() {
  const { api, root } = useProject();
  const { action: id } = useParams<{ action: string }>();
  const action = useQuery({ queryKey: ["action", api, id], queryFn: () => get<Action>(`${api}/actions/${encodeURIComponent(id)}/`), enabled: id !== "new", refetchOnWindowFocus: false });
  if (id === "new") return <Editor key="new" saved={null} />;
  if (!action.data)
    return (
      <Page title={t("Action")} crumbs={[{ label: t("Actions"), to: `${root}/data-management/actions` }]}>
        <div class="panel">
          <Await query={action}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Editor key={id} saved={action.data} />;
}

function Editor({ saved }: { saved: Action | null }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const initial: Draft = saved ? { name: saved.name, description: saved.description, tags: [...saved.tags], steps: saved.steps } : { name: "", description: "", tags: [], steps: [EMPTY_STEP] };
  const [draft, setDraft] = useState(initial);
  const [isDeleting, setDeleting] = useState(false);
  const refusal = useRefusal("action:write");
  const change = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const path = saved ? `${api}/actions/${saved.id}/` : `${api}/actions/`;
  const body = { ...draft, name: draft.name.trim(), steps: draft.steps.map((each) => ({ ...each, properties: completeFilters(each.properties) })) };
  const save = useMutation({
    mutationFn: () => call<Action>(saved ? "PATCH" : "POST", path, { body }),
    onSuccess: (made) => {
      queryClient.setQueryData(["action", api, String(made.id)], made);
      void queryClient.invalidateQueries({ queryKey: ["actions"] });
      void queryClient.invalidateQueries({ queryKey: ["action events"] });
      notify(t("“{name}” is saved.", { name: made.name }));
      if (!saved) navigate(`${root}/data-management/actions/${made.id}`);
    },
  });
  const remove = useMutation({
    mutationFn: (deleted: boolean) => call("PATCH", path, { body: { deleted } }),
    onSuccess: (_, deleted) => {
      void queryClient.invalidateQueries({ queryKey: ["actions"] });
      if (!deleted) return;
      notify(t("“{name}” is deleted.", { name: draft.name }), "good", { label: t("Undo"), run: () => remove.mutate(false) });
      navigate(`${root}/data-management/actions`);
    },
    onError: notifyError,
  });
  const error = save.error instanceof ApiError ? save.error : null;
  const place = /^steps__(\d+)/.exec(error?.attr ?? "");
  const isChanged = JSON.stringify(draft) !== JSON.stringify(initial);
  const of = (name: string) => (error?.attr === name ? error.detail : undefined);
  return (
    <Page
      title={saved ? saved.name : t("New action")}
      crumbs={[{ label: t("Actions"), to: `${root}/data-management/actions` }]}
      actions={
        <>
          <Menu
            trigger={<IconButton icon="more" label={t("More actions")} />}
            entries={[
              { label: t("Copy as curl"), onSelect: () => void copyText(buildCurl(saved ? "PATCH" : "POST", path, body)) },
              ...(saved
                ? [
                    { label: t("New insight"), onSelect: () => navigate(buildUrl(`${root}/insights/new`, { q: JSON.stringify({ kind: "TrendsQuery", series: [{ kind: "ActionsNode", id: saved.id, name: saved.name, math: "total" }], interval: "day", dateRange: { date_from: "-30d" }, trendsFilter: { display: "ActionsLineGraph" } }) })) },
                    { label: t("Delete…"), isDangerous: true, isDisabled: !!refusal, onSelect: () => setDeleting(true) },
                  ]
                : []),
            ]}
          />
          <Button kind="primary" disabled={!isChanged || !draft.name.trim() || save.isPending || !!refusal} title={refusal} onClick={() => save.mutate()}>
            {t("Save")}
          </Button>
        </>
      }
    >
      <div class="split">
        <div class="stack">
          <section class="panel" aria-label={t("Name")}>
            <div class="body columns">
              <Field label={t("Name")} error={of("name")}>
                {(attributes) => <input {...attributes} class="input" value={draft.name} onInput={(event) => change({ name: event.currentTarget.value })} />}
              </Field>
              <Field label={t("Description")} error={of("description")}>
                {(attributes) => <input {...attributes} class="input" value={draft.description} onInput={(event) => change({ description: event.currentTarget.value })} />}
              </Field>
              <div class="field">
                <span class="label">{t("Tags")}</span>
                <ValuesInput label={t("Tags")} values={draft.tags} options={[]} onSearch={() => {}} onChange={(tags) => change({ tags })} />
              </div>
            </div>
          </section>
          {draft.steps.map((step, index) => (
            <Step
              key={index}
              step={step}
              number={index + 1}
              isOnly={draft.steps.length === 1}
              error={place && Number(place[1]) === index ? error?.detail : undefined}
              onChange={(changed) => change({ steps: draft.steps.map((each, where) => (where === index ? changed : each)) })}
              onRemove={() => change({ steps: draft.steps.filter((_, where) => where !== index) })}
            />
          ))}
          <div>
            <Button icon="plus" onClick={() => change({ steps: [...draft.steps, EMPTY_STEP] })}>
              {t("Or match other events")}
            </Button>
          </div>
          {error && !place && !["name", "description"].includes(error.attr ?? "") && (
            <p class="notice bad" role="alert">
              {error.detail}
            </p>
          )}
        </div>
        <aside aria-label={t("Matching events")}>{saved ? <Matching action={saved} isChanged={isChanged} /> : <div class="panel"><Empty title={t("Matching events")}>{t("Save the action to see which events match it.")}</Empty></div>}</aside>
      </div>
      {saved && (
        <Confirm title={t("Delete “{name}”?", { name: saved.name })} action={t("Delete the action")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate(true)} onClose={() => setDeleting(false)}>
          <p>{t("Insights and queries that use it are refused until they do without it. The events stay. You can undo it.")}</p>
        </Confirm>
      )}
    </Page>
  );
}

const MATCHINGS = [
  { value: "contains", label: t("contains") },
  { value: "exact", label: t("is") },
  { value: "regex", label: t("matches pattern") },
];

function Step({ step, number, isOnly, error, onChange, onRemove }: { step: ActionStep; number: number; isOnly: boolean; error: string | undefined; onChange: (step: ActionStep) => void; onRemove: () => void }) {
  const options = useEventChoices(step.event ?? "", false).filter((each) => !each.value.startsWith("action:"));
  const isAutocapture = step.event === "$autocapture" || !!(step.text || step.selector || step.href || step.tag_name);
  const text = (name: "url" | "text" | "href", label: string) => (
    <div class="field">
      <span class="label">{label}</span>
      <div class="row tight">
        <Select label={t("{label}, comparison", { label })} isNarrow value={step[`${name}_matching`] ?? (name === "url" ? "contains" : "exact")} choices={MATCHINGS} onChange={(value) => onChange({ ...step, [`${name}_matching`]: value })} />
        <input class="input" aria-label={label} placeholder={t("Any")} value={step[name] ?? ""} onInput={(event) => onChange({ ...step, [name]: event.currentTarget.value || null })} />
      </div>
    </div>
  );
  return (
    <section class="condition" aria-label={t("Match {number}", { number })}>
      <header>
        <h2 class="grow">{number === 1 ? t("An event matches if") : t("or if")}</h2>
        <IconButton isSmall icon="trash" label={t("Remove match {number}", { number })} disabled={isOnly} onClick={onRemove} />
      </header>
      <div class="body">
        <div class="field">
          <span class="label">{t("Event")}</span>
          <Combobox label={t("Event of match {number}", { number })} placeholder={t("Any event")} value={step.event ?? ""} options={options} onInput={(event) => onChange({ ...step, event: event || null })} onChoose={(event) => onChange({ ...step, event })} />
        </div>
        {text("url", t("Address of the page"))}
        {isAutocapture && (
          <>
            {text("text", t("Text of the element"))}
            {text("href", t("Address of the link"))}
            <Field label={t("CSS selector")}>{(attributes) => <input {...attributes} class="input mono" placeholder={t("Any")} value={step.selector ?? ""} onInput={(event) => onChange({ ...step, selector: event.currentTarget.value || null })} />}</Field>
          </>
        )}
        <Filters label={t("Filter of match {number}", { number })} filters={step.properties} event={step.event} onChange={(properties) => onChange({ ...step, properties })} />
        {error && (
          <p class="error-text" role="alert">
            {error}
          </p>
        )}
      </div>
    </section>
  );
}

function Matching({ action, isChanged }: { action: Action; isChanged: boolean }) {
  const { api, root } = useProject();
  const query = { kind: "EventsQuery", select: ["event", "distinct_id", "timestamp"], actionId: action.id, after: "-30d", limit: 20 };
  const events = useQuery({ queryKey: ["action events", api, action.id, JSON.stringify(action.steps)], queryFn: ({ signal }) => call<{ results: [string, string, string][]; hasMore: boolean }>("POST", `${api}/query/`, { body: { query }, signal }) });
  return (
    <section class="panel flush" aria-label={t("Newest matching events")}>
      <div class="head">
        <h2>{t("Newest matching events")}</h2>
        {isChanged && <span class="tag warn">{t("as saved")}</span>}
      </div>
      <Await query={events} rows={4}>
        {(page) =>
          page.results.length ? (
            <table class="table">
              <thead>
                <tr>
                  <th scope="col">{t("Event")}</th>
                  <th scope="col">{t("When")}</th>
                </tr>
              </thead>
              <tbody>
                {page.results.map(([event, person, at], index) => (
                  <tr key={index}>
                    <td>
                      <Value value={event} maxChars={40} />
                      <div class="small muted">
                        <Link href={buildUrl(`${root}/persons`, { search: person })}>
                          <Value value={person} maxChars={40} />
                        </Link>
                      </div>
                    </td>
                    <td class="muted shrink">
                      <Ago at={at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <Empty title={t("No events match")}>{t("None in the last 30 days.")}</Empty>
          )
        }
      </Await>
    </section>
  );
}
