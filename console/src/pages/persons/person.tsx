// One person: properties, events, and the flags that they get now.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useLocation, useParams } from "wouter-preact";
import { call, get, queryClient } from "../../api/client";
import { explain } from "../../api/errors";
import type { Person } from "../../api/types";
import { runQuery } from "../../lib/query";
import { t, tn } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { Button, Field, IconButton, SearchInput } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Check } from "../../ui/forms";
import { Menu } from "../../ui/menu";
import { Page, Tabs } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { EventTable, useEvents } from "../events/table";
import { Verdicts } from "../flag/preview";

export function PersonPage() {
  const { api, root } = useProject();
  const { person: id } = useParams<{ person: string }>();
  const [url] = useUrlState();
  const [path] = useLocation();
  const tab = url.get("tab") ?? "properties";
  const person = useQuery({ queryKey: ["person", api, id], queryFn: () => get<Person>(`${api}/persons/${encodeURIComponent(id)}/`) });
  const tabs = [
    ["properties", t("Properties")],
    ["events", t("Events")],
    ["flags", t("Flags now")],
  ].map(([name, label]) => ({ name: name!, label: label!, to: buildUrl(path, { tab: name === "properties" ? null : name! }) }));
  return (
    <Page
      title={person.data?.name ?? t("Person")}
      crumbs={[{ label: t("Persons"), to: `${root}/persons` }]}
      sub={
        person.data && (
          <>
            {tn(person.data.distinct_ids.length, "{n} distinct id", "{n} distinct ids")} · {t("first seen")} <Ago at={person.data.created_at} />
          </>
        )
      }
      actions={person.data && <PersonActions person={person.data} />}
    >
      <Tabs label={t("Parts of the person")} tabs={tabs} current={tab} />
      <div class="panel flush">
        <Await query={person}>
          {(found) => (tab === "events" ? <PersonEvents person={found} /> : tab === "flags" ? <PersonFlags person={found} /> : <PersonProperties person={found} />)}
        </Await>
      </div>
    </Page>
  );
}

function PersonActions({ person }: { person: Person }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const [isDeleting, setDeleting] = useState(false);
  const [withEvents, setWithEvents] = useState(false);
  const refusal = useRefusal("person:write");
  const events = useQuery({
    queryKey: ["number of events", api, person.uuid],
    queryFn: ({ signal }) => runQuery<[number]>(api, "select count() from events where person_id = {id}", { id: person.uuid }, signal),
    enabled: isDeleting,
  });
  const number = events.data?.[0]?.[0];
  const remove = useMutation({
    mutationFn: () => call("DELETE", `${api}/persons/${person.uuid}/`, { query: { delete_events: withEvents ? "true" : "" } }),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["persons"] });
      notify(t("{name} is deleted.", { name: person.name }));
      navigate(`${root}/persons`);
    },
    onError: notifyError,
  });
  if (refusal) return <span class="muted small">{refusal}</span>;
  return (
    <>
      <Menu
        trigger={<IconButton label={t("Actions for this person")} icon="more" />}
        entries={[{ label: t("Delete…"), isDangerous: true, onSelect: () => setDeleting(true) }]}
      />
      <Confirm title={t("Delete this person?")} action={t("Delete the person")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
        <p>
          {tn(person.distinct_ids.length, "The person and {n} distinct id are deleted.", "The person and {n} distinct ids are deleted.")}{" "}
          {tn(Object.keys(person.properties).length, "{n} property is lost.", "{n} properties are lost.")}{" "}
          {number === undefined
            ? withEvents
              ? t("Their events are deleted, too.")
              : t("Their events stay.")
            : withEvents
              ? tn(number, "Their {n} event is deleted, too.", "Their {n} events are deleted, too.")
              : tn(number, "Their {n} event stays.", "Their {n} events stay.")}{" "}
          {t("This cannot be undone.")}
        </p>
        <Check label={t("Delete their events, too")} isOn={withEvents} onChange={setWithEvents} />
        {remove.isPending && (
          <p class="muted" role="status">
            {t("Deleting. Events of a large project take some seconds.")}
          </p>
        )}
      </Confirm>
    </>
  );
}

function PersonProperties({ person }: { person: Person }) {
  const { api } = useProject();
  const refusal = useRefusal("person:write");
  const [edited, setEdited] = useState<{ key: string; value: string; isNew: boolean } | null>(null);
  const save = useMutation({
    mutationFn: ({ key, value }: { key: string; value: string }) => call("POST", `${api}/persons/${person.uuid}/update_property/`, { body: { key, value: parseValue(value) } }),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["person"] });
      setEdited(null);
      notify(t("The property is saved."));
    },
  });
  const unset = useMutation({
    mutationFn: (key: string) => call("POST", `${api}/persons/${person.uuid}/delete_property/`, { body: { $unset: key } }),
    onSuccess: (_, key) => {
      void queryClient.invalidateQueries({ queryKey: ["person"] });
      notify(t("The property is removed."), "good", { label: t("Undo"), run: () => save.mutate({ key, value: JSON.stringify(person.properties[key]) }) });
    },
    onError: notifyError,
  });
  return (
    <>
      <table class="table properties">
        <thead>
          <tr>
            <th scope="col">{t("Property")}</th>
            <th scope="col">{t("Value")}</th>
            <th scope="col" class="shrink">
              <Button isSmall icon="plus" disabled={!!refusal} title={refusal} onClick={() => setEdited({ key: "", value: "", isNew: true })}>
                {t("Add")}
              </Button>
            </th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <td>distinct_id</td>
            <td class="mono">
              {person.distinct_ids.map((each) => (
                <div key={each}>
                  <Value value={each} />
                </div>
              ))}
            </td>
            <td />
          </tr>
          {sortNames(Object.keys(person.properties))
            .map((key) => (
              <tr key={key}>
                <td>
                  <Value value={key} maxChars={100} />
                </td>
                <td class="mono">
                  <Value value={person.properties[key]} />
                </td>
                <td class="shrink">
                  <Menu
                    trigger={<IconButton isSmall icon="more" disabled={!!refusal} label={t("Actions for {key}", { key })} />}
                    entries={[
                      { label: t("Edit…"), onSelect: () => setEdited({ key, value: JSON.stringify(person.properties[key]) ?? "", isNew: false }) },
                      { label: t("Remove"), isDangerous: true, onSelect: () => unset.mutate(key) },
                    ]}
                  />
                </td>
              </tr>
            ))}
        </tbody>
      </table>
      {edited && (
        <Dialog title={edited.isNew ? t("Add a property") : t("Edit the property")} isOpen onClose={() => setEdited(null)}>
          <form
            class="body stack"
            onSubmit={(event) => {
              event.preventDefault();
              save.mutate(edited);
            }}
          >
            <Field label={t("Property")}>
              {(attributes) => <input {...attributes} class="input mono" required readOnly={!edited.isNew} value={edited.key} onInput={(event) => setEdited({ ...edited, key: event.currentTarget.value })} />}
            </Field>
            <Field label={t("Value")} hint={t("JSON, or a text.")} error={save.error ? explain(save.error) : undefined}>
              {(attributes) => <input {...attributes} class="input mono" value={edited.value} onInput={(event) => setEdited({ ...edited, value: event.currentTarget.value })} />}
            </Field>
            <Button kind="primary" type="submit" disabled={save.isPending}>
              {t("Save")}
            </Button>
          </form>
        </Dialog>
      )}
    </>
  );
}

/** Properties of the customer first, then those of SDKs, which begin with $. */
function sortNames(names: string[]): string[] {
  return names.sort((left, right) => Number(left.startsWith("$")) - Number(right.startsWith("$")) || (left < right ? -1 : 1));
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function PersonEvents({ person }: { person: Person }) {
  const events = useEvents({ person_id: person.uuid });
  return (
    <Await query={events.query}>
      {() => (events.results.length ? <EventTable events={events} /> : <Empty title={t("No events in the last 24 hours and before")}>{t("Nothing is stored for this person.")}</Empty>)}
    </Await>
  );
}

interface Reason {
  value: boolean | string;
  evaluation: { reason: string; condition_index: number | null };
}

function PersonFlags({ person }: { person: Person }) {
  const { api, root } = useProject();
  const [asked, setAsked] = useState<string | null>(null);
  const [text, setText] = useState("");
  const distinctId = person.distinct_ids[0] ?? person.uuid;
  const reasons = useQuery({
    queryKey: ["reasons", api, distinctId],
    queryFn: () => get<Record<string, Reason>>(`${api}/feature_flags/evaluation_reasons/`, { distinct_id: distinctId }),
  });
  return (
    <Await query={reasons}>
      {(found) => {
        const all = Object.keys(found);
        const keys = all.filter((key) => key.toLowerCase().includes(text.trim().toLowerCase())).sort((left, right) => Number(found[left]!.value === false) - Number(found[right]!.value === false) || (left < right ? -1 : 1));
        if (!all.length) return <Empty title={t("No feature flags yet")} />;
        const on = all.filter((key) => found[key]!.value !== false).length;
        return (
          <>
            <div class="body row">
              <SearchInput label={t("Search by key")} value={text} onInput={setText} />
              <span class="muted">{t("{on} of {n} flags are on for this person", { on, n: all.length })}</span>
            </div>
            {!keys.length && <NoMatch onClear={() => setText("")} />}
            <table class="table cards">
              <thead>
                <tr>
                  <th scope="col">{t("Flag")}</th>
                  <th scope="col">{t("Value")}</th>
                  <th scope="col">{t("Reason")}</th>
                  <th scope="col" class="shrink">
                    <span class="hidden-text">{t("Actions")}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {keys.map((key) => (
                  <tr key={key}>
                    <td class="first">
                      <Link href={`${root}/feature_flags/${encodeURIComponent(key)}`} class="name mono">
                        <Value value={key} maxChars={100} />
                      </Link>
                    </td>
                    <td>
                      <span class={`tag ${found[key]!.value === false ? "" : "on"}`}>
                        <Value value={String(found[key]!.value)} maxChars={40} />
                      </span>
                    </td>
                    <td class="muted">{found[key]!.evaluation.reason.replaceAll("_", " ")}</td>
                    <td class="shrink end">
                      <Button isSmall onClick={() => setAsked(key)} aria-label={t("Why {key}?", { key })}>
                        {t("Why?")}
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {asked && <Why flag={asked} distinctId={distinctId} onClose={() => setAsked(null)} />}
          </>
        );
      }}
    </Await>
  );
}

function Why({ flag, distinctId, onClose }: { flag: string; distinctId: string; onClose: () => void }) {
  const { api } = useProject();
  const explained = useQuery({
    queryKey: ["why", api, flag, distinctId],
    queryFn: async () => {
      const { id } = await get<{ id: number }>(`${api}/feature_flags/${encodeURIComponent(flag)}/`);
      return call<Parameters<typeof Verdicts>[0]["explanation"]>("POST", `${api}/feature_flags/explain/`, { body: { id, distinct_id: distinctId } });
    },
  });
  return (
    <Dialog title={t("Why {key}?", { key: flag })} isOpen onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <div class="body">
        <Await query={explained}>{(found) => <Verdicts explanation={found} />}</Await>
      </div>
    </Dialog>
  );
}
