// Calls of the public API: the same that curl makes.
import { QueryClient } from "@tanstack/react-query";
import { buildUrl, type Parameters } from "../lib/url";
import { ApiError } from "./errors";
import { confirmLogin, credentials, markExpired } from "./session";

export { ApiError } from "./errors";

const RETRIES = 3;
const MAX_WAIT_S = 30;
const BEGUN_MS = 5000;

export interface CallOptions {
  query?: Parameters;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

declare global {
  interface Window {
    /** Requests that index.html has begun, by their address. */
    begun?: Map<string, Promise<Response>>;
  }
}
// The first requests are made at once; later ones must not get an old response.
setTimeout(() => window.begun?.clear(), BEGUN_MS);

function takeBegun(url: string): Promise<Response> | undefined {
  const begun = window.begun?.get(url);
  window.begun?.delete(url);
  return begun;
}

async function send(method: string, path: string, options: CallOptions): Promise<Response> {
  const { query, body, signal, headers } = options;
  const init: RequestInit = {
    method,
    headers: {
      Accept: "application/json",
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...credentials(),
      ...headers,
    },
    credentials: "same-origin",
  };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal) init.signal = signal;
  const url = buildUrl(path, query);
  try {
    return await ((method === "GET" && takeBegun(url)) || fetch(url, init));
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The service cannot be reached. Check the connection and try again.");
  }
}

async function readError(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  return new ApiError(
    response.status,
    typeof body.detail === "string" ? body.detail : response.statusText || "The call failed.",
    typeof body.code === "string" ? body.code : "",
    typeof body.attr === "string" ? body.attr : null,
    response.headers.get("x-request-id") ?? "",
    Number(response.headers.get("retry-after")) || 0,
    body,
  );
}

/** Make a call and return its JSON. Throws ApiError. A change that needs a recent login asks for it, and is made then. */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T;
  const error = await readError(response);
  if (error.status === 401) markExpired();
  if (error.code === "login_not_recent" && (await confirmLogin())) return call<T>(method, path, options);
  throw error;
}

export const get = <T>(path: string, query?: Parameters, signal?: AbortSignal): Promise<T> =>
  call<T>("GET", path, { ...(query ? { query } : {}), ...(signal ? { signal } : {}) });

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      refetchOnWindowFocus: true,
      retry: (count, error) => error instanceof ApiError && error.isTemporary && count < RETRIES,
      retryDelay: (count, error) => {
        const wait = error instanceof ApiError ? error.retryAfterS : 0;
        return Math.min(wait || 2 ** count * 0.5, MAX_WAIT_S) * 1000;
      },
    },
    mutations: { retry: false },
  },
});

/** Return the command that makes the same call, for people who automate what they just did. */
export function buildCurl(method: string, path: string, body?: unknown): string {
  const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  const lines = [
    `curl --request ${method} ${quote(location.origin + path)}`,
    `--header "Authorization: Bearer $PERSONAL_KEY"`,
  ];
  if (body !== undefined)
    lines.push(`--header 'Content-Type: application/json'`, `--data ${quote(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}
