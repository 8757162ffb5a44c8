// A table of events that loads more on demand. Each row opens its properties.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { get } from "../../api/client";
import type { EventRecord } from "../../api/types";
import { t } from "../../lib/text";
import type { Parameters } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, IconButton } from "../../ui/controls";
import { Ago, Properties, Value } from "../../ui/show";

const LIMIT = 100;

interface EventPage {
  next: string | null;
  results: EventRecord[];
}

export interface LoadedEvents {
  query: { data: unknown; error: unknown; isPending: boolean; refetch: () => unknown };
  results: EventRecord[];
  hasMore: boolean;
  isLoadingMore: boolean;
  loadMore: () => void;
}

/** Load events, newest first, page by page. */
export function useEvents(parameters: Parameters): LoadedEvents {
  const { api } = useProject();
  const query = useInfiniteQuery({
    queryKey: ["events", api, parameters],
    queryFn: ({ pageParam, signal }) => {
      if (pageParam === "") return get<EventPage>(`${api}/events/`, { ...parameters, limit: LIMIT }, signal);
      const link = new URL(pageParam);
      return get<EventPage>(link.pathname, Object.fromEntries(link.searchParams), signal);
    },
    initialPageParam: "",
    getNextPageParam: (page: EventPage) => page.next ?? undefined,
  });
  return {
    query,
    results: query.data?.pages.flatMap((page) => page.results) ?? [],
    hasMore: query.hasNextPage,
    isLoadingMore: query.isFetchingNextPage,
    loadMore: () => void query.fetchNextPage(),
  };
}

export function EventTable({ events, columns = [] }: { events: Pick<LoadedEvents, "results" | "hasMore" | "isLoadingMore" | "loadMore">; columns?: string[] }) {
  return (
    <>
      <div class="table-scroll" tabIndex={0} role="region" aria-label={t("Events")}>
        <table class="table cards">
          <thead>
            <tr>
              <th scope="col" class="shrink">
                <span class="hidden-text">{t("Details")}</span>
              </th>
              <th scope="col">{t("Event")}</th>
              <th scope="col">{t("Person")}</th>
              {columns.map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
              <th scope="col">{t("Time")}</th>
            </tr>
          </thead>
          <tbody>
            {events.results.map((event) => (
              <EventRow key={event.id} event={event} columns={columns} />
            ))}
          </tbody>
        </table>
      </div>
      {events.hasMore && (
        <div class="pager">
          <span />
          <Button isSmall disabled={events.isLoadingMore} onClick={events.loadMore}>
            {events.isLoadingMore ? t("Loading…") : t("Load older events")}
          </Button>
        </div>
      )}
    </>
  );
}

export function EventRow({ event, columns }: { event: EventRecord; columns: string[] }) {
  const { root } = useProject();
  const [isOpen, setOpen] = useState(false);
  const properties = (event.properties ?? {}) as Record<string, unknown>;
  const email = (event.person as { properties?: { email?: unknown } } | null)?.properties?.email;
  return (
    <>
      <tr>
        <td class="shrink corner">
          <IconButton isSmall icon={isOpen ? "down" : "right"} label={t("Details of {event}", { event: event.event })} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} />
        </td>
        <td class="name first">
          <Value value={event.event} maxChars={80} />
        </td>
        <td class="clip wide">
          <Link href={`${root}/persons?search=${encodeURIComponent(event.distinct_id)}`}>
            <Value value={typeof email === "string" ? email : event.distinct_id} maxChars={60} />
          </Link>
        </td>
        {columns.map((name) => (
          <td class="clip mono wide" key={name} data-label={name}>
            <Value value={properties[name]} maxChars={60} />
          </td>
        ))}
        <td class="muted">
          <Ago at={event.timestamp} />
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td class="wide" colSpan={4 + columns.length}>
            <Properties values={{ ...properties, distinct_id: event.distinct_id, uuid: event.id }} />
          </td>
        </tr>
      )}
    </>
  );
}
