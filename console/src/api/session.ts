// Who uses the console. Nothing else knows how: a personal API key, kept until the tab closes, or the
// cookie of a session, which scripts cannot read.
import { signal } from "./signal";

export type LoginState = "out" | "in" | "expired";

const KEY = "hedgerow.key";
// Whether this browser has logged in with a password, so that others are not asked.
const HINT = "hedgerow.session";
// How people can log in here; `provider` is the name of an OpenID Connect provider.
type LoginMethods = { password: boolean; reset: boolean; provider: string };

export const LOGIN = readMethods();

function readMethods(): LoginMethods {
  const content = document.querySelector<HTMLMetaElement>("meta[name=login]")?.content ?? "";
  return content.startsWith("{") ? (JSON.parse(content) as LoginMethods) : { password: false, reset: false, provider: "" };
}

// The provider has sent the browser back with a session.
if (location.hash === "#logged-in") {
  rememberSession();
  history.replaceState(null, "", location.pathname + location.search);
}

export const loginState = signal<LoginState>(
  sessionStorage.getItem(KEY) || localStorage.getItem(HINT) ? "in" : "out",
);

/** Return the headers that identify the caller. */
export function credentials(): Record<string, string> {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

export function keepKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

export function usesKey(): boolean {
  return sessionStorage.getItem(KEY) !== null;
}

export function rememberSession(): void {
  sessionStorage.removeItem(KEY);
  localStorage.setItem(HINT, "1");
}

export function markLoggedIn(): void {
  loginState.set("in");
}

/** The service refused the credentials. The page stays, with what was entered. */
export function markExpired(): void {
  if (loginState.get() === "in") loginState.set("expired");
}

export function forget(): void {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(HINT);
  loginState.set("out");
}

// Who waits until the person has logged in again, for a change that needs a recent login.
let waiting: ((isConfirmed: boolean) => void)[] = [];
export const isConfirming = signal(false);

/** Ask the person to log in again. Returns whether it did. */
export function confirmLogin(): Promise<boolean> {
  isConfirming.set(true);
  return new Promise((resolve) => waiting.push(resolve));
}

export function endConfirmation(isConfirmed: boolean): void {
  const all = waiting;
  waiting = [];
  isConfirming.set(false);
  for (const resolve of all) resolve(isConfirmed);
}
