// The list of persons: searched by the service, paged by its cursors.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { get } from "../../api/client";
import type { Page as PageOf, Person } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, SearchInput } from "../../ui/controls";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";

const LIMIT = 50;
const SHOWN = 3;

/** Return the cursor of a link to another page. */
export function readCursor(link: string | null): string | null {
  return link ? new URL(link).searchParams.get("cursor") : null;
}

export function PersonsPage() {
  const { api, root } = useProject();
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim());
  const cursor = url.get("cursor") ?? "";
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, cursor: null });
  }, [search]);
  const persons = useQuery({
    queryKey: ["persons", api, search, cursor],
    queryFn: ({ signal }) => get<PageOf<Person>>(`${api}/persons/`, { search, cursor, limit: LIMIT }, signal),
    placeholderData: keepPreviousData,
  });
  return (
    <Page title={t("Persons")} sub={persons.data ? tn(persons.data.count, "{n} person", "{n} persons") : undefined}>
      <div class="row">
        <SearchInput label={t("Search by email, name or distinct id")} value={text} onInput={setText} />
      </div>
      <div class="panel flush" aria-busy={persons.isFetching}>
        <Await query={persons}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col">{t("Person")}</th>
                      <th scope="col">{t("Distinct ids")}</th>
                      <th scope="col">{t("Properties")}</th>
                      <th scope="col">{t("First seen")}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((person) => (
                      <PersonRow key={person.uuid} person={person} to={`${root}/persons/${person.uuid}`} />
                    ))}
                  </tbody>
                </table>
                <nav class="pager" aria-label={t("Pages")}>
                  <span />
                  <span class="row tight">
                    <Button isSmall icon="left" disabled={!page.previous || !cursor} onClick={() => change({ cursor: readCursor(page.previous) })}>
                      {t("Previous")}
                    </Button>
                    <Button isSmall disabled={!page.next} onClick={() => change({ cursor: readCursor(page.next) })}>
                      {t("Next")}
                    </Button>
                  </span>
                </nav>
              </>
            ) : search ? (
              <NoMatch onClear={() => setText("")} />
            ) : (
              <Empty title={t("No persons yet")}>{t("A person appears with the first event that has their distinct id.")}</Empty>
            )
          }
        </Await>
      </div>
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
