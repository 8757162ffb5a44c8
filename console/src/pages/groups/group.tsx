// One group: properties, the persons and events that belong to it, and the flags that it gets now.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useLocation, useParams } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Flag, Group, Page as PageOf } from "../../api/types";
import { runQuery } from "../../lib/query";
import { formatNumber, t, tn } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { useMay } from "../../shell/rights";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Refusal, TextField } from "../../ui/forms";
import { Page, Tabs } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { EventTable, useEvents } from "../events/table";
import { nameGroup, useGroupTypes } from "./groups";

export function GroupPage() {
  const { api, root } = useProject();
  const { type } = useParams<{ type: string }>();
  const key = readKey(location.pathname);
  const [url] = useUrlState();
  const [path] = useLocation();
  const tab = url.get("tab") ?? "properties";
  const name = useGroupTypes().data?.find((each) => String(each.group_type_index) === type)?.group_type ?? "";
  const query = { group_type_index: type, group_key: key };
  const group = useQuery({ queryKey: ["group", api, type, key], queryFn: () => get<Group>(`${api}/groups/find/`, query) });
  const tabs = [
    ["properties", t("Properties")],
    ["persons", t("Persons")],
    ["events", t("Events")],
    ["flags", t("Flags now")],
  ].map(([each, label]) => ({ name: each!, label: label!, to: buildUrl(path, { tab: each === "properties" ? null : each! }) }));
  return (
    <Page
      title={group.data ? nameGroup(group.data) : t("Group")}
      crumbs={[{ label: t("Groups"), to: `${root}/groups/${type}` }]}
      sub={
        group.data && (
          <>
            {name} <code>{key}</code> · {t("first seen")} <Ago at={group.data.created_at} />
          </>
        )
      }
      actions={<Button onClick={() => void copyText(buildCurl("GET", buildUrl(`${api}/groups/find/`, query)))}>{t("Copy as curl")}</Button>}
    >
      <Tabs label={t("Parts of the group")} tabs={tabs} current={tab} />
      <div class="panel flush">
        <Await query={group}>
          {(found) =>
            tab === "persons" ? (
              <GroupPersons group={found} />
            ) : tab === "events" ? (
              <GroupEvents group={found} />
            ) : tab === "flags" ? (
              <GroupFlags group={found} type={name} />
            ) : (
              <GroupProperties group={found} type={name} />
            )
          }
        </Await>
      </div>
    </Page>
  );
}

/** Return the key at the end of the address. It may contain anything, so the address is read as it is. */
function readKey(path: string): string {
  const text = path.slice(path.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function GroupProperties({ group, type }: { group: Group; type: string }) {
  const { api } = useProject();
  const mayEdit = useMay("group:write");
  const [edited, setEdited] = useState<{ key: string; value: string; isNew: boolean } | null>(null);
  const save = useMutation({
    mutationFn: ({ key, value }: { key: string; value: string }) => call("POST", `${api}/groups/`, { body: { group_type: type, group_key: group.group_key, group_properties: { [key]: parseValue(value) } } }),
    onSuccess: () => {
      for (const each of ["groups", "group"]) void queryClient.invalidateQueries({ queryKey: [each] });
      setEdited(null);
      notify(t("The property is saved."));
    },
  });
  const open = (key: string, value: string, isNew: boolean) => {
    save.reset();
    setEdited({ key, value, isNew });
  };
  return (
    <>
      <table class="table properties">
        <thead>
          <tr>
            <th scope="col">{t("Property")}</th>
            <th scope="col">{t("Value")}</th>
            <th scope="col" class="shrink">
              {mayEdit ? (
                <Button isSmall icon="plus" disabled={!type} onClick={() => open("", "", true)}>
                  {t("Add")}
                </Button>
              ) : (
                <span class="hidden-text">{t("Actions")}</span>
              )}
            </th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <td>{t("key")}</td>
            <td class="mono">
              <Value value={group.group_key} />
            </td>
            <td />
          </tr>
          {Object.keys(group.group_properties)
            .sort()
            .map((key) => (
              <tr key={key}>
                <td>
                  <Value value={key} maxChars={100} />
                </td>
                <td class="mono">
                  <Value value={group.group_properties[key]} />
                </td>
                <td class="shrink">
                  {mayEdit && (
                    <Button isSmall kind="quiet" aria-label={t("Edit {key}", { key })} onClick={() => open(key, JSON.stringify(group.group_properties[key]), false)}>
                      {t("Edit…")}
                    </Button>
                  )}
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
            <TextField label={t("Property")} isCode required disabled={!edited.isNew} value={edited.key} onInput={(key) => setEdited({ ...edited, key })} />
            <TextField label={t("Value")} isCode value={edited.value} hint={t("JSON, or a text.")} onInput={(value) => setEdited({ ...edited, value })} />
            <Refusal error={save.error} />
            <Button kind="primary" type="submit" disabled={save.isPending}>
              {t("Save")}
            </Button>
          </form>
        </Dialog>
      )}
    </>
  );
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function GroupEvents({ group }: { group: Group }) {
  const events = useEvents({ properties: JSON.stringify([{ key: `$group_${group.group_type_index}`, type: "event_metadata", operator: "exact", value: group.group_key }]), after: "-365d" });
  return (
    <Await query={events.query}>
      {() => (events.results.length ? <EventTable events={events} /> : <Empty title={t("No events")}>{t("No event of the last year names this group.")}</Empty>)}
    </Await>
  );
}

type PersonRow = [id: string, email: unknown, name: unknown, events: number, last: string];
const DAYS = 90;
const MOST = 100;

/** The persons with events of the group, those seen last first. */
function GroupPersons({ group }: { group: Group }) {
  const { api, root } = useProject();
  const column = `$group_${group.group_type_index}`;
  const persons = useQuery({
    queryKey: ["group persons", api, group.group_type_index, group.group_key],
    queryFn: ({ signal }) =>
      runQuery<PersonRow>(
        api,
        `select person_id, any(person.properties.email), any(person.properties.name), count(), max(timestamp) as last from events where ${column} = {key} and timestamp > now() - interval ${DAYS} day group by person_id order by last desc limit ${MOST}`,
        { key: group.group_key },
        signal,
      ),
  });
  return (
    <Await query={persons}>
      {(rows) =>
        rows.length ? (
          <>
            <table class="table cards">
              <thead>
                <tr>
                  <th scope="col">{t("Person")}</th>
                  <th scope="col" class="num">
                    {t("Events")}
                  </th>
                  <th scope="col">{t("Last seen")}</th>
                </tr>
              </thead>
              <tbody>
                {rows.map(([id, email, name, events, last]) => (
                  <tr key={id}>
                    <td class="first">
                      <Link href={`${root}/persons/${id}`} class="name">
                        <Value value={email || name || id} maxChars={80} />
                      </Link>
                    </td>
                    <td class="num">{formatNumber(events)}</td>
                    <td class="muted">
                      <Ago at={last} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            <p class="pager">{rows.length < MOST ? tn(rows.length, "{n} person with events in the last 90 days", "{n} persons with events in the last 90 days") : t("The {n} persons seen last, of those with events in the last 90 days", { n: MOST })}</p>
          </>
        ) : (
          <Empty title={t("No persons")}>{t("No event of the last 90 days names this group.")}</Empty>
        )
      }
    </Await>
  );
}

interface Reason {
  value: boolean | string;
  evaluation: { reason: string };
}

/** Only flags that apply to groups of this type: others ask for a person. */
function GroupFlags({ group, type }: { group: Group; type: string }) {
  const { api, root } = useProject();
  const flags = useQuery({
    queryKey: ["group flags", api, type, group.group_key],
    queryFn: async () => {
      const reasons = get<Record<string, Reason>>(`${api}/feature_flags/evaluation_reasons/`, { distinct_id: group.group_key, groups: JSON.stringify({ [type]: group.group_key }) });
      const found: Flag[] = [];
      for (;;) {
        const page = await get<PageOf<Flag>>(`${api}/feature_flags/`, { limit: 500, offset: found.length || null });
        found.push(...page.results);
        if (!page.next || !page.results.length) break;
      }
      const values = await reasons;
      return found.filter((flag) => flag.filters.aggregation_group_type_index === group.group_type_index).map((flag) => ({ flag, reason: values[flag.key] }));
    },
    enabled: type !== "",
  });
  return (
    <Await query={flags}>
      {(rows) =>
        rows.length ? (
          <table class="table cards">
            <thead>
              <tr>
                <th scope="col">{t("Flag")}</th>
                <th scope="col">{t("Value")}</th>
                <th scope="col">{t("Reason")}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ flag, reason }) => (
                <tr key={flag.id}>
                  <td class="first">
                    <Link href={`${root}/feature_flags/${flag.id}`} class="name mono">
                      <Value value={flag.key} maxChars={100} />
                    </Link>
                  </td>
                  <td>
                    <span class={`tag ${reason && reason.value !== false ? "on" : ""}`}>
                      <Value value={String(reason?.value ?? false)} maxChars={40} />
                    </span>
                  </td>
                  <td class="muted">{flag.active ? (reason?.evaluation.reason.replaceAll("_", " ") ?? "") : t("the flag is off")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        ) : (
          <Empty title={t("No flag applies to groups of this type")} />
        )
      }
    </Await>
  );
}
