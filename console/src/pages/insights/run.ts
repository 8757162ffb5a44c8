// Runs the query of a draft, a moment after its last change, and keeps the last result until the next one is there.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useRef } from "preact/hooks";
import { call } from "../../api/client";
import { useSettled } from "../../lib/debounce";
import { useProject } from "../../shell/project";
import { type Source, toRunnable } from "./query";

export interface QueryResponse {
  results: unknown;
  columns: string[];
  last_refresh: string | null;
  is_cached: boolean;
  hasMore: boolean;
  timezone: string;
}

/** The response with the query that it answers: the draft may be another one already. */
export interface Answer {
  source: Source;
  response: QueryResponse;
}

export function useAnswer(source: Source) {
  const { api } = useProject();
  const text = useSettled(JSON.stringify(toRunnable(source)), 300);
  const isForced = useRef(false);
  const answer = useQuery({
    queryKey: ["answer", api, text],
    queryFn: async ({ signal }): Promise<Answer> => {
      const query = JSON.parse(text) as Source;
      const refresh = isForced.current ? "force_blocking" : "blocking";
      isForced.current = false;
      return { source: query, response: await call<QueryResponse>("POST", `${api}/query/`, { body: { query, refresh }, signal }) };
    },
    placeholderData: keepPreviousData,
    refetchOnWindowFocus: false,
    staleTime: 60_000,
  });
  const refresh = () => {
    isForced.current = true;
    void answer.refetch();
  };
  return { answer, refresh };
}

/** Return errors of series by their number: the API names their place. */
export function findSeriesErrors(attr: string | null, detail: string): Record<number, string> {
  const found = /^query__series__(\d+)/.exec(attr ?? "");
  return found ? { [Number(found[1])]: detail } : {};
}
