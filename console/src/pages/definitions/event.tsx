// One event: what it means, what its properties must be, and the newest ones.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useLocation, useParams } from "wouter-preact";
import { ApiError, call, get, queryClient } from "../../api/client";
import type { EventDefinition, Page as PageOf, PropertyDefinition } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import { buildUrl } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, Field, IconButton, Select, Switch } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { DetailsDialog } from "./describe";
import { useRefusal } from "../../shell/rights";
import "../insights/insights.css";

export function EventDefinitionPage() {
  const { api, root } = useProject();
  const { definition: id } = useParams<{ definition: string }>();
  const found = useQuery({ queryKey: ["event definition", api, id], queryFn: () => get<EventDefinition>(`${api}/event_definitions/${encodeURIComponent(id)}/`), refetchOnWindowFocus: false });
  if (!found.data)
    return (
      <Page title={t("Event")} crumbs={[{ label: t("Events"), to: `${root}/data-management/events` }]}>
        <div class="panel">
          <Await query={found}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Loaded definition={found.data} />;
}

function Loaded({ definition }: { definition: EventDefinition }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const [isEdited, setEdited] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const refusal = useRefusal("event_definition:write");
  const path = `${api}/event_definitions/${definition.id}/`;
  const save = async (body: object) => {
    const changed = await call<EventDefinition>("PATCH", path, { body });
    queryClient.setQueryData(["event definition", api, definition.id], changed);
    void queryClient.invalidateQueries({ queryKey: ["event definitions"] });
    return changed;
  };
  const edit = useMutation({ mutationFn: save, onError: notifyError });
  const remove = useMutation({
    mutationFn: () => call("DELETE", path),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["event definitions"] });
      notify(t("The definition is deleted."));
      navigate(`${root}/data-management/events`);
    },
    onError: notifyError,
  });
  return (
    <Page
      title={definition.name}
      crumbs={[{ label: t("Events"), to: `${root}/data-management/events` }]}
      sub={
        <>
          {tn(definition.volume_30_day, "{n} event in 30 days", "{n} events in 30 days")}
          {definition.last_seen_at && (
            <>
              {" · "}
              {t("last seen")} <Ago at={definition.last_seen_at} />
            </>
          )}
          {definition.first_seen_at && (
            <>
              {" · "}
              {t("first seen")} <Ago at={definition.first_seen_at} />
            </>
          )}
        </>
      }
      actions={
        <>
          <span class="muted">{definition.verified ? t("Verified") : t("Not verified")}</span>
          <Switch isOn={definition.verified} disabled={edit.isPending || definition.hidden || !!refusal} label={t("The event is verified")} onChange={(verified) => edit.mutate({ verified })} />
          <Menu
            trigger={<IconButton icon="more" label={t("More actions")} />}
            entries={[
              { label: t("Explore the events"), onSelect: () => navigate(buildUrl(`${root}/activity/explore`, { event: definition.name })) },
              { label: t("New insight"), onSelect: () => navigate(buildUrl(`${root}/insights/new`, { q: JSON.stringify({ kind: "TrendsQuery", series: [{ kind: "EventsNode", event: definition.name, math: "total" }], interval: "day", dateRange: { date_from: "-30d" }, trendsFilter: { display: "ActionsLineGraph" } }) })) },
              { label: t("Delete the definition…"), isDangerous: true, isDisabled: !!refusal, onSelect: () => setDeleting(true) },
            ]}
          />
          <Button disabled={!!refusal} title={refusal} onClick={() => setEdited(true)}>{t("Describe")}</Button>
        </>
      }
    >
      {(definition.description || definition.tags.length > 0 || definition.hidden) && (
        <div class="row">
          {definition.description && <Value value={definition.description} maxChars={1000} />}
          {definition.hidden && <span class="tag">{t("Hidden")}</span>}
          {definition.tags.map((tag) => (
            <span class="tag" key={tag}>
              <Value value={tag} maxChars={40} />
            </span>
          ))}
        </div>
      )}
      <div class="columns">
        <SchemaEditor definition={definition} onSave={save} />
        <Seen name={definition.name} />
      </div>
      {isEdited && <DetailsDialog title={definition.name} definition={definition} onSave={save} onClose={() => setEdited(false)} />}
      <Confirm title={t("Delete the definition of {name}?", { name: definition.name })} action={t("Delete the definition")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
        <p>{t("Description, tags and schema are deleted for good. The {n} events of the last 30 days stay, and the next one creates the definition anew.", { n: definition.volume_30_day })}</p>
      </Confirm>
    </Page>
  );
}

const EXAMPLE = { type: "object", required: ["plan"], properties: { plan: { enum: ["free", "pro"] }, amount: { type: "number", minimum: 0 } } };

function SchemaEditor({ definition, onSave }: { definition: EventDefinition; onSave: (body: object) => Promise<unknown> }) {
  const [text, setText] = useState(definition.schema ? JSON.stringify(definition.schema, null, 2) : "");
  const [mode, setMode] = useState<string>(definition.schema_mode);
  const save = useMutation({
    mutationFn: async () => onSave({ schema: text.trim() ? JSON.parse(text) : null, schema_mode: mode }),
    onSuccess: () => notify(text.trim() ? t("The schema is saved.") : t("The schema is removed.")),
  });
  const refusal = useRefusal("event_definition:write");
  const problem = checkJson(text);
  const error = save.error instanceof ApiError ? save.error.detail : undefined;
  const isChanged = text !== (definition.schema ? JSON.stringify(definition.schema, null, 2) : "") || mode !== definition.schema_mode;
  return (
    <section class="panel" aria-label={t("Schema")}>
      <div class="head">
        <h2>{t("Schema of the properties")}</h2>
        {!text && (
          <Button isSmall onClick={() => setText(JSON.stringify(EXAMPLE, null, 2))}>
            {t("Start from an example")}
          </Button>
        )}
      </div>
      <div class="body stack">
        <Field label={t("JSON schema")} error={problem || error} hint={t("Empty: no schema. Events are checked when they arrive.")}>
          {(attributes) => <textarea {...attributes} class="input code" rows={14} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />}
        </Field>
        <Field label={t("An event that breaks it")} hint={mode === "reject" ? t("It goes to the dead letters with the reason, and comes back by a retry.") : mode === "warn" ? t("It is stored, with a warning among the ingestion warnings.") : undefined}>
          {(attributes) => <Select id={attributes.id} label={t("An event that breaks it")} value={mode} onChange={setMode} choices={[{ value: "project", label: t("as the project chooses") }, { value: "off", label: t("is stored like any other") }, { value: "warn", label: t("is stored with a warning") }, { value: "reject", label: t("is rejected") }]} />}
        </Field>
        <div class="row">
          <Button kind="primary" disabled={!isChanged || !!problem || save.isPending || !!refusal} title={refusal} onClick={() => save.mutate()}>
            {t("Save the schema")}
          </Button>
        </div>
      </div>
    </section>
  );
}

function checkJson(text: string): string | undefined {
  if (!text.trim()) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value && !Array.isArray(value) ? undefined : t("Expected an object.");
  } catch (error) {
    return t("Not valid JSON: {detail}", { detail: error instanceof Error ? error.message : "" });
  }
}

/** Properties that events with this name had. */
function Seen({ name }: { name: string }) {
  const { api, root } = useProject();
  const found = useQuery({
    queryKey: ["properties of an event", api, name],
    queryFn: () => get<PageOf<PropertyDefinition>>(`${api}/property_definitions/`, { event_names: JSON.stringify([name]), filter_by_event_names: "true", limit: 100 }),
  });
  return (
    <section class="panel flush" aria-label={t("Properties")}>
      <div class="head">
        <h2>{t("Properties it was seen with")}</h2>
        {found.data && <span class="muted small">{formatNumber(found.data.count)}</span>}
      </div>
      <Await query={found} rows={4}>
        {(page) =>
          page.results.length ? (
            <div class="twin" tabIndex={0} role="region" aria-label={t("List of properties")}>
              <table class="table">
                <thead>
                  <tr>
                    <th scope="col">{t("Property")}</th>
                    <th scope="col">{t("Type")}</th>
                  </tr>
                </thead>
                <tbody>
                  {page.results.map((each) => (
                    <tr key={each.id}>
                      <td class="mono">
                        <Link href={buildUrl(`${root}/data-management/properties`, { search: each.name })}>
                          <Value value={each.name} maxChars={80} />
                        </Link>
                      </td>
                      <td class="muted">{each.property_type ?? t("Unknown")}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <p class="muted body">{t("None yet.")}</p>
          )
        }
      </Await>
    </section>
  );
}
