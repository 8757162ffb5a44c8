// Persons that match parameters, page by page, as a part of another page.
import { useQuery } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Page as PageOf, Person } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import type { Parameters } from "../../lib/url";
import { useLocalState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { PERSON_COLUMNS, PersonRow, SEARCH_PERSONS } from "./persons";
import { List, useList, useListStateIn } from "../../ui/list";

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
  const state = useListStateIn(useLocalState());
  const persons = useList<Person>("persons", `${api}/persons/`, state, parameters, { limit: LIMIT });
  return (
    <List
      query={persons}
      state={state}
      search={SEARCH_PERSONS}
      controls={persons.data && <span class="muted">{tn(persons.data.count, "{n} person", "{n} persons")}</span>}
      limit={LIMIT}
      isByCursor
      empty={empty}
      columns={PERSON_COLUMNS}
    >
      {(items) => items.map((person) => <PersonRow key={person.uuid} person={person} to={`${root}/persons/${person.uuid}`} />)}
    </List>
  );
}
