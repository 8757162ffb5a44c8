// Names and values of properties that persons really have, for completion.
import { useQuery } from "@tanstack/react-query";
import { call, get } from "../../api/client";
import type { Cohort, Page } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatNumber } from "../../lib/text";
import { useProject } from "../../shell/project";
import type { Option } from "../../ui/combobox";

const STALE_MS = 60_000;
const NAMES = "select arrayJoin(JSONExtractKeys(properties)) as name, count() as n from persons group by name order by n desc limit 300";
const VALUES =
  "select trim(both '\"' from JSONExtractRaw(properties, {key})) as value, count() as n from persons " +
  "where value != '' and value ilike {search} group by value order by n desc limit 20";

interface Rows {
  results: [string, number][];
}

function run(api: string, query: string, values: object, signal: AbortSignal): Promise<Rows> {
  return call<Rows>("POST", `${api}/query/`, { body: { query: { kind: "HogQLQuery", query, values } }, signal });
}

export function usePropertyNames(): Option[] {
  const { api } = useProject();
  const names = useQuery({
    queryKey: ["property names", api],
    queryFn: ({ signal }) => run(api, NAMES, {}, signal),
    staleTime: STALE_MS,
  });
  return (names.data?.results ?? []).map(([value, count]) => ({ value, note: formatNumber(count) }));
}

export function usePropertyValues(key: string, search: string): { options: Option[]; isLoading: boolean } {
  const { api } = useProject();
  const settled = useSettled(search, 200);
  const values = useQuery({
    queryKey: ["property values", api, key, settled],
    queryFn: ({ signal }) => run(api, VALUES, { key, search: `%${settled.replace(/[\\%_]/g, "\\$&")}%` }, signal),
    enabled: key !== "",
    staleTime: STALE_MS,
  });
  return {
    options: (values.data?.results ?? []).map(([value, count]) => ({ value, note: formatNumber(count) })),
    isLoading: values.isFetching,
  };
}

export function useCohorts(isNeeded = true): Cohort[] {
  const { api } = useProject();
  const cohorts = useQuery({
    queryKey: ["cohorts", api],
    queryFn: () => get<Page<Cohort>>(`${api}/cohorts/`, { limit: 500 }),
    enabled: isNeeded,
    staleTime: STALE_MS,
  });
  return cohorts.data?.results ?? [];
}
