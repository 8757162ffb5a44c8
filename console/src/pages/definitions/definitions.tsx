// Definitions of events and of properties: what they mean, whether they are trusted, how many there are.
import { useMutation } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { call, queryClient } from "../../api/client";
import type { EventDefinition, PropertyDefinition } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, Select, Switch } from "../../ui/controls";
import { Check } from "../../ui/forms";
import { ACTIONS, List, type ListState, NameCell, TagFilter, toTags, useList, useListState } from "../../ui/list";
import { Page, Tabs } from "../../ui/page";
import { Ago } from "../../ui/show";
import { Empty } from "../../ui/states";
import { DetailsDialog } from "./describe";
import { useRefusal } from "../../shell/rights";
import { notifyError } from "../../ui/toasts";
import "../insights/insights.css";

const TYPES = ["String", "Numeric", "Boolean", "DateTime"];

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

/** The filters that the lists of events and of properties have in common, as parameters of the API. */
function toParameters(state: ListState) {
  return { verified: state.filters.verified ?? "", tags: toTags(state), exclude_hidden: state.filters.hidden ? "" : "true" };
}

function Filters({ state, children }: { state: ListState; children: ComponentChildren }) {
  return (
    <>
      <Select label={t("Verified")} isNarrow value={state.filters.verified ?? ""} onChange={(value) => state.setFilter("verified", value)} choices={[{ value: "", label: t("Verified or not") }, { value: "true", label: t("Verified") }, { value: "false", label: t("Not verified") }]} />
      <Check label={t("Show hidden")} isOn={!!state.filters.hidden} onChange={(isOn) => state.setFilter("hidden", isOn ? "1" : "")} />
      <TagFilter state={state} />
      {children}
    </>
  );
}

export function EventDefinitionsPage() {
  const { api, root } = useProject();
  const state = useListState("verified", "tag", "hidden", "ordering");
  const ordering = state.filters.ordering || "-volume_30_day";
  const found = useList<EventDefinition>("event definitions", `${api}/event_definitions/`, state, { ...toParameters(state), ordering });
  const refusal = useRefusal("event_definition:write");
  const verify = useMutation({
    mutationFn: ({ id, verified }: { id: string; verified: boolean }) => call("PATCH", `${api}/event_definitions/${id}/`, { body: { verified } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["event definitions"] }),
    onError: notifyError,
  });
  return (
    <Page title={t("Events")} sub={found.data ? tn(found.data.count, "{n} event", "{n} events") : undefined}>
      <DefinitionTabs current="events" />
      <List
        query={found}
        state={state}
        search={t("Search by name")}
        controls={
          <Filters state={state}>
            <Select label={t("Order")} isNarrow value={ordering} onChange={(value) => state.setFilter("ordering", value === "-volume_30_day" ? "" : value)} choices={[{ value: "-volume_30_day", label: t("Most frequent first") }, { value: "-last_seen_at", label: t("Last seen first") }, { value: "-first_seen_at", label: t("Newest first") }, { value: "name", label: t("By name") }]} />
          </Filters>
        }
        empty={<Empty title={t("No events yet")}>{t("Events appear here a moment after they are captured for the first time.")}</Empty>}
        columns={[t("Event"), { label: t("In 30 days"), class: "num" }, t("Last seen"), t("Schema"), { label: t("Verified"), class: "shrink" }]}
      >
        {(items) =>
          items.map((each) => (
            <tr key={each.id}>
              <NameCell to={`${root}/data-management/events/${each.id}`} name={each.name} isCode description={each.description} tags={each.tags} onTag={(tag) => state.setFilter("tag", tag)}>
                {each.hidden && <span class="tag">{t("Hidden")}</span>}
              </NameCell>
              <td class="num muted" data-label={t("In 30 days")}>{formatNumber(each.volume_30_day)}</td>
              <td class="muted drop">{each.last_seen_at ? <Ago at={each.last_seen_at} /> : t("Never")}</td>
              <td class="muted drop">{each.schema ? <SchemaTag mode={each.schema_mode} /> : ""}</td>
              <td class="shrink end">
                <Switch isOn={each.verified} disabled={verify.isPending || each.hidden || !!refusal} label={t("{name} is verified", { name: each.name })} onChange={(verified) => verify.mutate({ id: each.id, verified })} />
              </td>
            </tr>
          ))
        }
      </List>
    </Page>
  );
}

export function SchemaTag({ mode }: { mode: string }) {
  if (mode === "reject") return <span class="tag bad">{t("rejects")}</span>;
  if (mode === "project") return <span class="tag">{t("as the project chooses")}</span>;
  return mode === "warn" ? <span class="tag warn">{t("warns")}</span> : <span class="tag">{t("not checked")}</span>;
}

export function PropertyDefinitionsPage() {
  const { api } = useProject();
  const state = useListState("verified", "tag", "hidden", "type");
  const type = state.filters.type || "event";
  const [edited, setEdited] = useState<PropertyDefinition | null>(null);
  const found = useList<PropertyDefinition>("property definitions", `${api}/property_definitions/`, state, { ...toParameters(state), type });
  const refusal = useRefusal("property_definition:write");
  const save = (id: string, body: object) => call("PATCH", `${api}/property_definitions/${id}/`, { body }).then(() => queryClient.invalidateQueries({ queryKey: ["property definitions"] }));
  const edit = useMutation({ mutationFn: ({ id, body }: { id: string; body: object }) => save(id, body), onError: notifyError });
  return (
    <Page title={t("Properties")} sub={found.data ? tn(found.data.count, "{n} property", "{n} properties") : undefined}>
      <DefinitionTabs current="properties" />
      <List
        query={found}
        state={state}
        search={t("Search by name")}
        controls={
          <Filters state={state}>
            <Select label={t("Properties of")} isNarrow value={type} onChange={(value) => state.setFilter("type", value === "event" ? "" : value)} choices={[{ value: "event", label: t("Of events") }, { value: "person", label: t("Of persons") }]} />
          </Filters>
        }
        empty={<Empty title={t("No properties yet")}>{t("Properties appear here a moment after an event with them is captured.")}</Empty>}
        columns={[t("Property"), t("Type"), t("Last seen"), { label: t("Verified"), class: "shrink" }, ACTIONS]}
      >
        {(items) =>
          items.map((each) => (
            <tr key={each.id}>
              <NameCell name={each.name} isCode description={each.description} tags={each.tags} onTag={(tag) => state.setFilter("tag", tag)}>
                {each.hidden && <span class="tag">{t("Hidden")}</span>}
              </NameCell>
              <td>
                <Select label={t("Type of {name}", { name: each.name })} isNarrow disabled={!!refusal} value={each.property_type ?? ""} choices={[...(each.property_type ? [] : [{ value: "", label: t("Unknown") }]), ...TYPES.map((value) => ({ value, label: value }))]} onChange={(value) => edit.mutate({ id: each.id, body: { property_type: value } })} />
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
          ))
        }
      </List>
      {edited && <DetailsDialog title={edited.name} definition={edited} onSave={(body) => save(edited.id, body)} onClose={() => setEdited(null)} />}
    </Page>
  );
}
