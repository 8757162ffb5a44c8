// The list of persons: searched by the service, paged by its cursors.
import { Link } from "wouter-preact";
import type { Person } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { List, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";

const SHOWN = 3;
export const PERSON_COLUMNS = [t("Person"), t("Distinct ids"), t("Properties"), t("First seen")];
export const SEARCH_PERSONS = t("Search by email, name or distinct id");

export function PersonsPage() {
  const { api, root } = useProject();
  const state = useListState();
  const persons = useList<Person>("persons", `${api}/persons/`, state);
  return (
    <Page title={t("Persons")} sub={persons.data ? tn(persons.data.count, "{n} person", "{n} persons") : undefined}>
      <List query={persons} state={state} search={SEARCH_PERSONS} isByCursor empty={<Empty title={t("No persons yet")}>{t("A person appears with the first event that has their distinct id.")}</Empty>} columns={PERSON_COLUMNS}>
        {(items) => items.map((person) => <PersonRow key={person.uuid} person={person} to={`${root}/persons/${person.uuid}`} />)}
      </List>
    </Page>
  );
}

export function PersonRow({ person, to }: { person: Person; to: string }) {
  const names = Object.keys(person.properties).filter((name) => !name.startsWith("$") && name !== "email");
  return (
    <tr>
      <td class="first">
        <Link href={to} class="name">
          <Value value={person.name} maxChars={80} />
        </Link>
      </td>
      <td class="mono muted clip drop">
        <Value value={person.distinct_ids.slice(0, 2).join(", ")} maxChars={60} />
        {person.distinct_ids.length > 2 && ` +${person.distinct_ids.length - 2}`}
      </td>
      <td class="wide">
        <span class="row">
          {names.slice(0, SHOWN).map((name) => (
            <span class="tag" key={name}>
              <Value value={name} maxChars={24} /> <Value value={String(JSON.stringify(person.properties[name]) ?? "").replace(/^"|"$/g, "")} maxChars={24} />
            </span>
          ))}
          {names.length > SHOWN && <span class="muted small">+{names.length - SHOWN}</span>}
        </span>
      </td>
      <td class="muted drop">
        <Ago at={person.created_at} />
      </td>
    </tr>
  );
}
