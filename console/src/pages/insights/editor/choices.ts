// Names and values that the editors complete: events, actions, properties, and values that are really stored.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { get } from "../../../api/client";
import type { Page } from "../../../api/types";
import { useSettled } from "../../../lib/debounce";
import { formatNumber, t } from "../../../lib/text";
import { useProject } from "../../../shell/project";
import type { Option } from "../../../ui/combobox";
import { useCohorts, usePropertyValues } from "../../flag/properties";

const STALE_MS = 60_000;
const LIMIT = 20;
export const ACTION = "action:";
export const ALL_EVENTS = "*";

interface EventName {
  name: string;
  volume_30_day: number;
}

/** Events by volume, and actions, that match a text. */
export function useEventChoices(search: string, hasAll = true): Option[] {
  const { api } = useProject();
  const settled = useSettled(search, 200);
  const events = useQuery({
    queryKey: ["event choices", api, settled],
    queryFn: ({ signal }) => get<Page<EventName>>(`${api}/event_definitions/`, { search: settled, exclude_hidden: "true", ordering: "-volume_30_day", limit: LIMIT }, signal),
    staleTime: STALE_MS,
    placeholderData: keepPreviousData,
  });
  const actions = useQuery({
    queryKey: ["action choices", api, settled],
    queryFn: ({ signal }) => get<Page<{ id: number; name: string }>>(`${api}/actions/`, { search: settled, limit: LIMIT }, signal),
    staleTime: STALE_MS,
    placeholderData: keepPreviousData,
  });
  return [
    ...(hasAll && !settled ? [{ value: ALL_EVENTS, label: t("All events") }] : []),
    ...(events.data?.results ?? []).map((each) => ({ value: each.name, note: formatNumber(each.volume_30_day) })),
    ...(actions.data?.results ?? []).map((each) => ({ value: `${ACTION}${each.id}`, label: each.name, note: t("action") })),
  ];
}

export type PropertyType = "event" | "person";

/** Properties of events and persons that match a text. Values are "event:plan" and "person:plan". Those that none of `events` has come last. */
export function usePropertyChoices(search: string, types: PropertyType[] = ["event", "person"], isNumerical?: boolean, events: string[] = []): Option[] {
  const { api } = useProject();
  const settled = useSettled(search, 200);
  const found = useQuery({
    queryKey: ["property choices", api, settled, types.join(), isNumerical, events.join("\n")],
    queryFn: async ({ signal }) =>
      Promise.all(
        types.map((type) =>
          get<Page<{ name: string; is_seen_on_filtered_events: boolean | null }>>(
            `${api}/property_definitions/`,
            { type, search: settled, exclude_hidden: "true", limit: LIMIT, ...(isNumerical ? { is_numerical: "true" } : {}), ...(type === "event" && events.length ? { event_names: JSON.stringify(events) } : {}) },
            signal,
          ),
        ),
      ),
    staleTime: STALE_MS,
    placeholderData: keepPreviousData,
  });
  const labels: Record<PropertyType, string> = { event: t("event"), person: t("person") };
  const options = (found.data ?? []).flatMap((page, index) =>
    page.results.map((each) => {
      const type = types[index]!;
      const isElsewhere = type === "event" && each.is_seen_on_filtered_events === false;
      return { value: `${type}:${each.name}`, label: each.name, note: isElsewhere ? t("other events") : labels[type], isElsewhere };
    }),
  );
  return options.sort((left, right) => Number(left.isElsewhere) - Number(right.isElsewhere)).map(({ isElsewhere: _, ...option }) => option);
}

/** Values that a property has. Those of events are of the last seven days. */
export function useValueChoices(type: string, key: string, search: string, event?: string | null): { options: Option[]; isLoading: boolean } {
  const { api } = useProject();
  const settled = useSettled(search, 200);
  const isEvent = type === "event";
  const values = useQuery({
    queryKey: ["event values", api, key, settled, event],
    queryFn: ({ signal }) => get<{ name: unknown }[]>(`${api}/events/values/`, { key, value: settled, event_name: event ?? null }, signal),
    enabled: isEvent && key !== "",
    staleTime: STALE_MS,
  });
  const persons = usePropertyValues(isEvent ? "" : key, search);
  if (!isEvent) return persons;
  return { options: (values.data ?? []).map((each) => ({ value: typeof each.name === "string" ? each.name : JSON.stringify(each.name) })), isLoading: values.isFetching };
}

export { useCohorts };
