// A list that the service searches, filters and pages: search field, filters, table, the four states, pager.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { get } from "../api/client";
import type { Page as PageOf } from "../api/types";
import { useSettled } from "../lib/debounce";
import { t } from "../lib/text";
import { type Parameters, type StateOf, useUrlState } from "../lib/url";
import { useRefusal } from "../shell/rights";
import { SearchInput } from "./controls";
import { CursorPager, Pager } from "./page";
import { Value } from "./show";
import { Await, NoMatch } from "./states";

export const LIST_LIMIT = 50;
const SETTLED_MS = 100;

export interface ListState {
  text: string;
  setText: (text: string) => void;
  search: string;
  offset: number;
  /** Where the page begins, in lists that the service pages by cursors. */
  cursor: string;
  /** The filters by name, empty if not set. */
  filters: Record<string, string>;
  setFilter: (name: string, value: string) => void;
  move: (to: { offset?: number; cursor?: string | null }) => void;
  clear: () => void;
  isFiltered: boolean;
}

/** The state of a list in the address. `names` are its filters. */
export function useListState(...names: string[]): ListState {
  return useListStateIn(useUrlState(), ...names);
}

/** The state of a list that is a part of a page: see `useLocalState`. */
export function useListStateIn([stored, change]: StateOf, ...names: string[]): ListState {
  const [text, setText] = useState(stored.get("search") ?? "");
  const search = useSettled(text.trim(), SETTLED_MS);
  const start = { offset: null, cursor: null };
  useEffect(() => {
    if (search !== (stored.get("search") ?? "")) change({ search, ...start });
  }, [search]);
  const filters = Object.fromEntries(names.map((name) => [name, stored.get(name) ?? ""]));
  return {
    text,
    setText,
    search,
    offset: Number(stored.get("offset")) || 0,
    cursor: stored.get("cursor") ?? "",
    filters,
    setFilter: (name, value) => change({ [name]: value, ...start }),
    move: ({ offset, cursor }) => change({ offset: offset || null, cursor: cursor || null }),
    clear: () => {
      setText("");
      change({ search: null, ...start, ...Object.fromEntries(names.map((name) => [name, null])) });
    },
    isFiltered: search !== "" || Object.values(filters).some(Boolean),
  };
}

interface ListOptions {
  limit?: number;
  /** How often the list is loaded again while its tab is visible. */
  everyMs?: number | false;
}

/** Load the page of a list that its state names. `key` starts the key under which it is kept. */
export function useList<T>(key: string | readonly unknown[], path: string, state: ListState, parameters: Parameters = {}, { limit = LIST_LIMIT, everyMs = false }: ListOptions = {}) {
  const query = { ...parameters, search: state.search, offset: state.offset || null, cursor: state.cursor, limit };
  return useQuery({
    queryKey: [...(typeof key === "string" ? [key] : key), path, query],
    queryFn: ({ signal }) => get<PageOf<T>>(path, query, signal),
    placeholderData: keepPreviousData,
    refetchInterval: everyMs,
  });
}

/** The head of a column. A label that only screen readers need is hidden; "num" and "shrink" are classes. */
export type Column = ComponentChildren | { label: ComponentChildren; isHidden?: boolean; class?: "num" | "shrink" };
export const ACTIONS: Column = { label: t("Actions"), isHidden: true, class: "shrink" };
export const DETAILS: Column = { label: t("Details"), isHidden: true, class: "shrink" };

export function Table({ columns, children, label, class: extra = "" }: { columns: readonly Column[]; children: ComponentChildren; label?: string; class?: string }) {
  return (
    <table class={`table cards ${extra}`} aria-label={label}>
      <thead>
        <tr>
          {columns.map((each, index) => {
            const { label, isHidden, class: name } = each && typeof each === "object" && "label" in each ? each : { label: each };
            return (
              <th scope="col" key={index} class={name}>
                {isHidden ? <span class="hidden-text">{label}</span> : label}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

interface ListProps<T> {
  query: { data: PageOf<T> | undefined; error: unknown; isPending: boolean; isFetching: boolean; refetch: () => unknown };
  state: ListState;
  /** The label of the search field. Without it there is none. */
  search?: string;
  /** What stands beside the search field. */
  controls?: ComponentChildren;
  limit?: number;
  /** Whether the service pages by cursors, as it does for persons. */
  isByCursor?: boolean;
  /** What is shown while there is nothing at all. */
  empty: ComponentChildren;
  /** The rows of the page; a table of them if `columns` are given. */
  columns?: readonly Column[];
  children: (items: T[], page: PageOf<T>) => ComponentChildren;
}

export function List<T>({ query, state, search, controls, limit = LIST_LIMIT, isByCursor, empty, columns, children }: ListProps<T>) {
  const show = (page: PageOf<T>) => {
    const rows = children(page.results, page);
    return columns ? <Table columns={columns}>{rows}</Table> : rows;
  };
  return (
    <>
      {(search || controls) && (
        <div class="row">
          {search && <SearchInput label={search} value={state.text} onInput={state.setText} />}
          {controls}
        </div>
      )}
      <div class="panel flush" aria-busy={query.isFetching}>
        <Await query={query}>
          {(page) =>
            page.results.length ? (
              <>
                {show(page)}
                {isByCursor ? (
                  <CursorPager
                    toPrevious={state.cursor && page.previous ? () => state.move({ cursor: readCursor(page.previous) }) : undefined}
                    toNext={page.next ? () => state.move({ cursor: readCursor(page.next) }) : undefined}
                  />
                ) : (
                  <Pager offset={state.offset} limit={limit} count={page.count} onMove={(offset) => state.move({ offset })} />
                )}
              </>
            ) : state.isFiltered || state.offset || state.cursor ? (
              <NoMatch onClear={state.clear} />
            ) : (
              empty
            )
          }
        </Await>
      </div>
    </>
  );
}

/** Return the cursor of a link to another page. */
function readCursor(link: string | null): string | null {
  return link ? new URL(link).searchParams.get("cursor") : null;
}

/** The link to the page that creates something, or why the person may not; nothing then if it is quiet. */
export function CreateLink({ to, scope, isQuiet, children }: { to: string; scope: string; isQuiet?: boolean; children: ComponentChildren }) {
  const refusal = useRefusal(scope);
  if (refusal) return isQuiet ? null : <span class="muted small">{refusal}</span>;
  return (
    <Link href={to} class="button primary">
      {children}
    </Link>
  );
}

interface NameProps {
  /** The page of the object, if it has one. */
  to?: string;
  name: string;
  description?: string | null | undefined;
  isCode?: boolean;
  tags?: readonly string[];
  onTag?: (tag: string) => void;
  /** Marks between the name and the tags. */
  children?: ComponentChildren;
}

/** The first cell of a row: name with link, marks, tags, description. */
export function NameCell({ to, name, description, isCode, tags = [], onTag, children }: NameProps) {
  const names = `name ${isCode ? "mono" : ""}`;
  const value = <Value value={name} maxChars={120} />;
  return (
    <td class="first">
      <div class="row">
        {to ? (
          <Link href={to} class={names}>
            {value}
          </Link>
        ) : (
          <span class={names}>{value}</span>
        )}
        {children}
        {tags.slice(0, 5).map((tag) => (
          <Tag key={tag} tag={tag} onTag={onTag} />
        ))}
      </div>
      {description && (
        <div class="muted small">
          <Value value={description} maxChars={140} />
        </div>
      )}
    </td>
  );
}

function Tag({ tag, onTag }: { tag: string; onTag: ((tag: string) => void) | undefined }) {
  const value = <Value value={tag} maxChars={30} />;
  if (!onTag) return <span class="tag">{value}</span>;
  return (
    <button type="button" class="tag" title={t("Only those with this tag")} aria-label={t("Only those with the tag {tag}", { tag })} onClick={() => onTag(tag)}>
      {value}
    </button>
  );
}

/** The tag by which a list is filtered, with a way to remove it. */
export function TagFilter({ state }: { state: ListState }) {
  const { tag } = state.filters;
  if (!tag) return null;
  return (
    <span class="tag info">
      <span class="cut">
        {t("Tag:")} <Value value={tag} maxChars={60} />
      </span>
      <button type="button" aria-label={t("Remove the filter by tag")} onClick={() => state.setFilter("tag", "")}>
        ×
      </button>
    </span>
  );
}

/** Return the parameter of the API for the filter by tag. */
export const toTags = (state: ListState): string => (state.filters.tag ? JSON.stringify([state.filters.tag]) : "");
