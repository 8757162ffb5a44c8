// The address holds the state of a page: what is searched, filtered and shown.
import { useCallback, useState } from "preact/hooks";
import { useLocation, useSearch } from "wouter-preact";

export type Parameters = Record<string, string | number | undefined | null>;

/** Return an address with these parameters. Empty ones are left out. */
export function buildUrl(path: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined && value !== null && value !== "") query.set(name, String(value));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Parameters, and a function that changes some of them. */
export type StateOf = [URLSearchParams, (changes: Parameters) => void];

/** The parameters of the address. */
export function useUrlState(): StateOf {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const parameters = new URLSearchParams(search);
  const change = useCallback(
    (changes: Parameters) => {
      const all = { ...Object.fromEntries(new URLSearchParams(search)), ...changes };
      navigate(buildUrl(path, all), { replace: true });
    },
    [search, path, navigate],
  );
  return [parameters, change];
}

/** Parameters that the address does not hold, for a list that is a part of a page. */
export function useLocalState(): StateOf {
  const [stored, setStored] = useState<Parameters>({});
  const parameters = new URLSearchParams(buildUrl("", stored).slice(1));
  return [parameters, (changes) => setStored((before) => ({ ...before, ...changes }))];
}
