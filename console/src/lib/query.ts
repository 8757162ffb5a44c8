// HogQL queries over the public API.
import { call } from "../api/client";

interface Rows<T> {
  results: T[];
}

export async function runQuery<T>(api: string, query: string, values: object, signal?: AbortSignal): Promise<T[]> {
  const body = { query: { kind: "HogQLQuery", query, values } };
  return (await call<Rows<T>>("POST", `${api}/query/`, { body, ...(signal ? { signal } : {}) })).results;
}
