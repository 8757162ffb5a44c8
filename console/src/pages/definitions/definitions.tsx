// Definitions of events and of properties: what they mean, whether they are trusted, how many there are.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ApiError, call, get, queryClient } from "../../api/client";
import type { EventDefinition, Page as PageOf, PropertyDefinition } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatNumber, t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, SearchInput, Select, Switch } from "../../ui/controls";
import { Page, Pager, Tabs } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { DetailsDialog } from "./describe";
import { useRefusal } from "../insights/rights";
import "../insights/insights.css";

const LIMIT = 50;
const fail = (error: unknown) => notify(error instanceof ApiError ? error.detail : String(error), "bad");

export function DefinitionTabs({ current }: { current: string }) {
  const { root } = useProject();
  return (
    <Tabs
      label={t("Data management")}
      current={current}
      tabs={[
        { name: "events", label: t("Events"), to: `${root}/data-management/events` },
        { name: "properties", label: t("Properties"), to: `${root}/data-management/properties` },
        { name: "actions", label: t("Actions"), to: `${root}/data-management/actions` },
      ]}
    />
  );
}

/** What the lists of events and of properties have in common: search, trust, tag, page. */
function useFilters() {
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim());
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const verified = url.get("verified") ?? "";
  const tag = url.get("tag") ?? "";
  const hidden = url.get("hidden") ?? "";
  const offset = Number(url.get("offset")) || 0;
  const parameters = { search, verified, tags: tag ? JSON.stringify([tag]) : "", exclude_hidden: hidden ? "" : "true", offset: offset || null, limit: LIMIT };
  const clear = () => {
    setText("");
    change({ search: null, verified: null, tag: null, offset: null });
  };
  const bar = (
    <>
      <SearchInput label={t("Search by name")} value={text} onInput={setText} />
      <Select label={t("Verified")} isNarrow value={verified} onChange={(value) => change({ verified: value, offset: null })} choices={[{ value: "", label: t("Verified or not") }, { value: "true", label: t("Verified") }, { value: "false", label: t("Not verified") }]} />
      <label class="check">
        <input type="checkbox" checked={!!hidden} onChange={(event) => change({ hidden: event.currentTarget.checked ? "1" : null, offset: null })} />
        {t("Show hidden")}
      </label>
      {tag && (
        <span class="tag on">
          <Value value={tag} maxChars={40} />
          <button type="button" aria-label={t("Any tag")} onClick={() => change({ tag: null, offset: null })}>
            ×
          </button>
        </span>
      )}
    </>
  );
  return { url, change, parameters, offset, clear, bar, isFiltered: !!(search || verified || tag) };
}

function Tags({ tags, onTag }: { tags: readonly string[]; onTag: (tag: string) => void }) {
  return (
    <>
      {tags.slice(0, 5).map((tag) => (
        <span class="tag" key={tag}>
          <button type="button" title={t("Only those with this tag")} onClick={() => onTag(tag)}>
            <Value value={tag} maxChars={30} />
          </button>
        </span>
      ))}
    </>
  );
}

export function EventDefinitionsPage() {
  const { api, root } = useProject();
  const { change, url, parameters, offset, clear, bar, isFiltered } = useFilters();
  const ordering = url.get("ordering") ?? "-volume_30_day";
  const found = useQuery({
    queryKey: ["event definitions", api, JSON.stringify(parameters), ordering],
    queryFn: ({ signal }) => get<PageOf<EventDefinition>>(`${api}/event_definitions/`, { ...parameters, ordering }, signal),
    placeholderData: keepPreviousData,
  });
  const refusal = useRefusal("event_definition:write");
  const verify = useMutation({
    mutationFn: ({ id, verified }: { id: string; verified: boolean }) => call("PATCH", `${api}/event_definitions/${id}/`, { body: { verified } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["event definitions"] }),
    onError: fail,
  });
  return (
    <Page title={t("Events")} sub={found.data ? tn(found.data.count, "{n} event", "{n} events") : undefined}>
      <DefinitionTabs current="events" />
      <div class="row">
        {bar}
        <Select label={t("Order")} isNarrow value={ordering} onChange={(value) => change({ ordering: value === "-volume_30_day" ? null : value, offset: null })} choices={[{ value: "-volume_30_day", label: t("Most frequent first") }, { value: "-last_seen_at", label: t("Last seen first") }, { value: "-first_seen_at", label: t("Newest first") }, { value: "name", label: t("By name") }]} />
      </div>
      <div class="panel flush" aria-busy={found.isFetching}>
        <Await query={found}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col">{t("Event")}</th>
                      <th scope="col" class="num">
                        {t("In 30 days")}
                      </th>
                      <th scope="col">{t("Last seen")}</th>
                      <th scope="col">{t("Schema")}</th>
                      <th scope="col" class="shrink">
                        {t("Verified")}
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((each) => (
                      <tr key={each.id}>
                        <td class="first">
                          <div class="row">
                            <Link href={`${root}/data-management/events/${each.id}`} class="name mono">
                              <Value value={each.name} maxChars={100} />
                            </Link>
                            {each.hidden && <span class="tag">{t("Hidden")}</span>}
                            <Tags tags={each.tags} onTag={(tag) => change({ tag, offset: null })} />
                          </div>
                          {each.description && (
                            <div class="muted small">
                              <Value value={each.description} maxChars={140} />
                            </div>
                          )}
                        </td>
                        <td class="num muted">{formatNumber(each.volume_30_day)}</td>
                        <td class="muted drop">{each.last_seen_at ? <Ago at={each.last_seen_at} /> : t("Never")}</td>
                        <td class="muted drop">{each.schema ? <SchemaTag mode={each.schema_mode} /> : ""}</td>
                        <td class="shrink end">
                          <Switch isOn={each.verified} disabled={verify.isPending || each.hidden || !!refusal} label={t("{name} is verified", { name: each.name })} onChange={(verified) => verify.mutate({ id: each.id, verified })} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : isFiltered ? (
              <NoMatch onClear={clear} />
            ) : (
              <Empty title={t("No events yet")}>{t("Events appear here a moment after they are captured for the first time.")}</Empty>
            )
          }
        </Await>
      </div>
    </Page>
  );
}

export function SchemaTag({ mode }: { mode: string }) {
  if (mode === "reject") return <span class="tag bad">{t("rejects")}</span>;
  return mode === "warn" ? <span class="tag warn">{t("warns")}</span> : <span class="tag">{t("not checked")}</span>;
}

export function PropertyDefinitionsPage() {
  const { api } = useProject();
  const { change, url, parameters, offset, clear, bar, isFiltered } = useFilters();
  const type = url.get("type") ?? "event";
  const [edited, setEdited] = useState<PropertyDefinition | null>(null);
  const found = useQuery({
    queryKey: ["property definitions", api, JSON.stringify(parameters), type],
    queryFn: ({ signal }) => get<PageOf<PropertyDefinition>>(`${api}/property_definitions/`, { ...parameters, type }, signal),
    placeholderData: keepPreviousData,
  });
  const refusal = useRefusal("property_definition:write");
  const save = (id: string, body: object) => call("PATCH", `${api}/property_definitions/${id}/`, { body }).then(() => queryClient.invalidateQueries({ queryKey: ["property definitions"] }));
  const edit = useMutation({ mutationFn: ({ id, body }: { id: string; body: object }) => save(id, body), onError: fail });
  const types = ["String", "Numeric", "Boolean", "DateTime"];
  return (
    <Page title={t("Properties")} sub={found.data ? tn(found.data.count, "{n} property", "{n} properties") : undefined}>
      <DefinitionTabs current="properties" />
      <div class="row">
        {bar}
        <Select label={t("Properties of")} isNarrow value={type} onChange={(value) => change({ type: value === "event" ? null : value, offset: null })} choices={[{ value: "event", label: t("Of events") }, { value: "person", label: t("Of persons") }]} />
      </div>
      <div class="panel flush" aria-busy={found.isFetching}>
        <Await query={found}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col">{t("Property")}</th>
                      <th scope="col">{t("Type")}</th>
                      <th scope="col">{t("Last seen")}</th>
                      <th scope="col" class="shrink">
                        {t("Verified")}
                      </th>
                      <th scope="col" class="shrink">
                        <span class="hidden-text">{t("Actions")}</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((each) => (
                      <tr key={each.id}>
                        <td class="first">
                          <div class="row">
                            <span class="name mono">
                              <Value value={each.name} maxChars={100} />
                            </span>
                            {each.hidden && <span class="tag">{t("Hidden")}</span>}
                            <Tags tags={each.tags} onTag={(tag) => change({ tag, offset: null })} />
                          </div>
                          {each.description && (
                            <div class="muted small">
                              <Value value={each.description} maxChars={140} />
                            </div>
                          )}
                        </td>
                        <td>
                          <Select label={t("Type of {name}", { name: each.name })} isNarrow value={each.property_type ?? ""} choices={[...(each.property_type ? [] : [{ value: "", label: t("Unknown") }]), ...types.map((value) => ({ value, label: value }))]} onChange={(value) => edit.mutate({ id: each.id, body: { property_type: value } })} />
                        </td>
                        <td class="muted drop">{each.last_seen_at ? <Ago at={each.last_seen_at} /> : t("Never")}</td>
                        <td class="shrink end">
                          <Switch isOn={each.verified} disabled={edit.isPending || each.hidden || !!refusal} label={t("{name} is verified", { name: each.name })} onChange={(verified) => edit.mutate({ id: each.id, body: { verified } })} />
                        </td>
                        <td class="shrink">
                          <Button isSmall disabled={!!refusal} title={refusal} aria-label={t("Describe {name}", { name: each.name })} onClick={() => setEdited(each)}>
                            {t("Describe")}
                          </Button>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : isFiltered ? (
              <NoMatch onClear={clear} />
            ) : (
              <Empty title={t("No properties yet")}>{t("Properties appear here a moment after an event with them is captured.")}</Empty>
            )
          }
        </Await>
      </div>
      {edited && <DetailsDialog title={edited.name} definition={edited} onSave={(body) => save(edited.id, body)} onClose={() => setEdited(null)} />}
    </Page>
  );
}
