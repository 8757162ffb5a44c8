// A new version of the service has other files: a page that was loaded before cannot load its parts any more.
const KEY = "hedgerow.reloaded";
const AGAIN_MS = 60_000;

/** Reload the page, which keeps drafts, unless that did not help a moment ago. */
export function reloadOnce(error: unknown): Promise<never> {
  const last = Number(sessionStorage.getItem(KEY)) || 0;
  if (Date.now() - last < AGAIN_MS) return Promise.reject(error);
  sessionStorage.setItem(KEY, String(Date.now()));
  location.reload();
  return new Promise(() => {});
}
