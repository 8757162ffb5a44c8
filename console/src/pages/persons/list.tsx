// Persons that match parameters, page by page, as a part of another page.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Page as PageOf, Person } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatNumber, t, tn } from "../../lib/text";
import type { Parameters } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, SearchInput } from "../../ui/controls";
import { Await, NoMatch } from "../../ui/states";
import { PersonRow, readCursor } from "./persons";

const LIMIT = 25;
/** A list with more rows than this counts on demand. */
export const COUNTED_ROWS = 12;

function usePersonCount(parameters: Parameters, isEnabled = true) {
  const { api } = useProject();
  return useQuery({
    queryKey: ["persons", api, "count", parameters],
    queryFn: ({ signal }) => get<PageOf<Person>>(`${api}/persons/`, { ...parameters, limit: 1 }, signal).then((page) => page.count),
    enabled: isEnabled,
  });
}

/** How many persons match. Lists with many rows count on demand: each count reads all persons. */
export function PersonCount({ parameters, isLazy = false, label }: { parameters: Parameters; isLazy?: boolean; label: string }) {
  const [isAsked, setAsked] = useState(!isLazy);
  const count = usePersonCount(parameters, isAsked);
  if (!isAsked)
    return (
      <Button isSmall kind="quiet" aria-label={label} onClick={() => setAsked(true)}>
        {t("Count")}
      </Button>
    );
  if (count.error) return <span class="muted">{t("unknown")}</span>;
  return <>{count.data === undefined ? "…" : formatNumber(count.data)}</>;
}

/** `parameters` are those of the list of persons in the API. */
export function PersonList({ parameters, empty }: { parameters: Parameters; empty: ComponentChildren }) {
  const { api, root } = useProject();
  const [text, setText] = useState("");
  const [cursor, setCursor] = useState<string | null>(null);
  const search = useSettled(text.trim());
  const persons = useQuery({
    queryKey: ["persons", api, parameters, search, cursor],
    queryFn: ({ signal }) => get<PageOf<Person>>(`${api}/persons/`, { ...parameters, search, cursor, limit: LIMIT }, signal),
    placeholderData: keepPreviousData,
  });
  const find = (value: string) => {
    setText(value);
    setCursor(null);
  };
  return (
    <>
      <div class="row">
        <SearchInput label={t("Search by email, name or distinct id")} value={text} onInput={find} />
        {persons.data && <span class="muted">{tn(persons.data.count, "{n} person", "{n} persons")}</span>}
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
                    <Button isSmall icon="left" disabled={!page.previous || !cursor} onClick={() => setCursor(readCursor(page.previous))}>
                      {t("Previous")}
                    </Button>
                    <Button isSmall disabled={!page.next} onClick={() => setCursor(readCursor(page.next))}>
                      {t("Next")}
                    </Button>
                  </span>
                </nav>
              </>
            ) : search ? (
              <NoMatch onClear={() => find("")} />
            ) : (
              empty
            )
          }
        </Await>
      </div>
    </>
  );
}
