// A list that the service searches, filters and pages. The address holds its state.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client";
import type { Page as PageOf } from "../api/types";
import { useSettled } from "../lib/debounce";
import { type Parameters, useUrlState } from "../lib/url";
import { Pager } from "./page";
import { Await, NoMatch } from "./states";

export const LIST_LIMIT = 50;

export interface ListState {
  text: string;
  setText: (text: string) => void;
  search: string;
  offset: number;
  /** The filters of the address by name, empty if not set. */
  filters: Record<string, string>;
  setFilter: (name: string, value: string) => void;
  move: (offset: number) => void;
  clear: () => void;
  isFiltered: boolean;
}

export function useListState(...names: string[]): ListState {
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim());
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const filters = Object.fromEntries(names.map((name) => [name, url.get(name) ?? ""]));
  return {
    text,
    setText,
    search,
    offset: Number(url.get("offset")) || 0,
    filters,
    setFilter: (name, value) => change({ [name]: value, offset: null }),
    move: (offset) => change({ offset: offset || null }),
    clear: () => {
      setText("");
      change({ search: null, offset: null, ...Object.fromEntries(names.map((name) => [name, null])) });
    },
    isFiltered: search !== "" || Object.values(filters).some(Boolean),
  };
}

/** Load the page of a list that its state names. `name` starts the key under which it is kept. */
export function useList<T>(name: string, path: string, state: ListState, parameters: Parameters = {}) {
  const query = { ...parameters, search: state.search, offset: state.offset || null, limit: LIST_LIMIT };
  return useQuery({
    queryKey: [name, path, query],
    queryFn: ({ signal }) => get<PageOf<T>>(path, query, signal),
    placeholderData: keepPreviousData,
  });
}

interface ListProps<T> {
  query: ReturnType<typeof useList<T>>;
  state: ListState;
  /** What is shown while there is nothing at all. */
  empty: ComponentChildren;
  children: (items: T[]) => ComponentChildren;
}

export function List<T>({ query, state, empty, children }: ListProps<T>) {
  return (
    <div class="panel flush" aria-busy={query.isFetching}>
      <Await query={query}>
        {(page) =>
          page.results.length ? (
            <>
              {children(page.results)}
              <Pager offset={state.offset} limit={LIST_LIMIT} count={page.count} onMove={state.move} />
            </>
          ) : state.isFiltered || state.offset ? (
            <NoMatch onClear={state.clear} />
          ) : (
            empty
          )
        }
      </Await>
    </div>
  );
}
