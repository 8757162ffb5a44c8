// Search, the switch for aliases, and below them the viewer, which is loaded after the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { t, tn } from "../lib/text";
import { countAliases, type ApiDocument, removeAliases } from "./document";
import type { Viewer } from "./viewer";

const DOCUMENT = "/api/schema/";

async function load(): Promise<{ document: ApiDocument; module: typeof import("./viewer") }> {
  const [response, module] = await Promise.all([fetch(DOCUMENT), import("./viewer")]);
  if (!response.ok) throw new Error(t("The service answers {status}.", { status: response.status }));
  return { document: (await response.json()) as ApiDocument, module };
}

export function DocsPage() {
  const [loaded, setLoaded] = useState<Awaited<ReturnType<typeof load>>>();
  const [failure, setFailure] = useState("");
  const [search, setSearch] = useState("");
  const [hasAliases, setHasAliases] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const viewer = useRef<Viewer>();
  useEffect(() => {
    load().then(setLoaded, (error: Error) => setFailure(error.message));
  }, []);
  useEffect(() => {
    if (!loaded || !place.current) return;
    const shown = hasAliases ? loaded.document : removeAliases(loaded.document);
    viewer.current = loaded.module.showDocument(place.current, shown);
    if (search) viewer.current.search(search);
  }, [loaded, hasAliases]);
  const type = (text: string) => {
    setSearch(text);
    viewer.current?.search(text);
  };
  return (
    <>
      <header class="docs-head">
        <div class="row">
          <h1>{t("Hedgerow API")}</h1>
          <span class="muted">{loaded?.document.info.version}</span>
          <nav class="row" aria-label={t("Other pages")}>
            <a href="/">{t("Console")}</a>
            <a href={DOCUMENT}>{t("OpenAPI document")}</a>
          </nav>
        </div>
        <div class="row">
          <input
            class="input docs-search"
            type="search"
            aria-label={t("Search paths, names and descriptions")}
            placeholder={t("Search paths, names and descriptions")}
            value={search}
            onInput={(event) => type(event.currentTarget.value)}
          />
          {loaded && (
            <label class="row">
              <input type="checkbox" checked={hasAliases} onChange={(event) => setHasAliases(event.currentTarget.checked)} />
              {tn(countAliases(loaded.document), "Show {n} alias under /api/environments/", "Show {n} aliases under /api/environments/")}
            </label>
          )}
        </div>
      </header>
      <section class="docs-about muted" aria-label={t("About")}>
        <p>{loaded?.document.info.description?.replaceAll("`", "")}</p>
        <h2 class="hidden-text">{t("Operations")}</h2>
      </section>
      <div class="docs-body">
        {failure && <p role="alert">{t("The API cannot be described now: {failure} Reload the page.", { failure })}</p>}
        {!loaded && !failure && <p class="muted">{t("Loading…")}</p>}
        <div ref={place} />
      </div>
    </>
  );
}
