// The four states of everything that is loaded: loading, empty, filtered to nothing, failed.
import type { ComponentChildren } from "preact";
import { ApiError } from "../api/client";
import { t } from "../lib/text";
import { Button } from "./controls";

export function Loading({ rows = 6 }: { rows?: number }) {
  return (
    <div class="skeleton" role="status">
      <span class="hidden-text">{t("Loading…")}</span>
      {Array.from({ length: rows }, (_, index) => (
        <i key={index} style={{ width: `${92 - ((index * 17) % 45)}%` }} />
      ))}
    </div>
  );
}

export function Empty({ title, children, action }: { title: string; children?: ComponentChildren; action?: ComponentChildren }) {
  return (
    <div class="state">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action && <div class="row">{action}</div>}
    </div>
  );
}

export function NoMatch({ onClear }: { onClear: () => void }) {
  return (
    <Empty title={t("Nothing matches")} action={<Button onClick={onClear}>{t("Clear search and filters")}</Button>}>
      {t("There is data here, but none of it matches what you search for.")}
    </Empty>
  );
}

const TITLES: Record<number, string> = {
  0: t("No connection"),
  401: t("You are logged out"),
  403: t("You may not see this"),
  404: t("This does not exist"),
  429: t("Too many requests"),
  503: t("The service is busy"),
};

export function Failed({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  const known = error instanceof ApiError ? error : new ApiError(-1, String(error));
  return (
    <div class="state" role="alert">
      <h2>{TITLES[known.status] ?? t("This did not work")}</h2>
      <p>{known.detail}</p>
      {known.requestId && (
        <p class="small">
          {t("Request id")} <code>{known.requestId}</code>
        </p>
      )}
      {onRetry && known.status !== 403 && (
        <div class="row">
          <Button onClick={onRetry}>{t("Try again")}</Button>
        </div>
      )}
    </div>
  );
}

interface Loaded<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
  refetch: () => unknown;
}

/** Show the right state of a query, and its data once there is some. */
export function Await<T>({ query, children, rows }: { query: Loaded<T>; children: (data: T) => ComponentChildren; rows?: number }) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <Failed error={query.error} onRetry={() => query.refetch()} />;
  return <Loading {...(rows ? { rows } : {})} />;
}
