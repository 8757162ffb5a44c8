// Swagger UI, with a search over operations instead of its search over tags, and with our login.
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle";
import "swagger-ui-dist/swagger-ui.css";
import { credentials } from "../api/session";
import { type ApiDocument, extractPart, matches } from "./document";

export interface Viewer {
  search(text: string): void;
}

// The parts of Immutable.js that are used here.
interface Items<T> {
  get(name: string): unknown;
  set(name: string, value: unknown): Items<T>;
  filter(keep: (item: T) => boolean): Items<T>;
  map(change: (item: T, key: string) => T): Items<T>;
  forEach(visit: (item: T, key: string) => void): void;
  size: number;
}
type Operation = { get(name: string): string; getIn(path: string[]): string | undefined };
type Tag = Items<Operation>;

interface CallToSend {
  url: string;
  headers: Record<string, string>;
}

function describe(operation: Operation): string {
  const texts = ["summary", "description", "x-scope"].map((name) => operation.getIn(["operation", name]) ?? "");
  return [operation.get("method"), operation.get("path"), ...texts].join(" ");
}

/** Keep the operations that match, and the tags that have any. */
function filterOperations(tags: Items<Tag>, search: string): Items<Tag> {
  return tags
    .map((tag, name) =>
      tag.set("operations", (tag.get("operations") as Items<Operation>).filter((each) => matches(`${name} ${describe(each)}`, search))) as Tag,
    )
    .filter((tag) => (tag.get("operations") as Items<Operation>).size > 0);
}

/** Send calls as the person who is logged in, unless the page has other credentials for them. */
function addCredentials(call: CallToSend): CallToSend {
  const isOurs = new URL(call.url, location.href).origin === location.origin;
  if (isOurs && !call.headers.Authorization) Object.assign(call.headers, credentials());
  return call;
}

type Resolve = (document: Record<string, unknown>, path: string[], options: unknown) => Promise<unknown>;

/** Let the viewer resolve references in the part of the document that it shows. It would go through all of it each time, for seconds. */
function resolveParts(this: { fn: { resolveSubtree: Resolve } }) {
  const resolve = this.fn.resolveSubtree;
  this.fn.resolveSubtree = (document, path, options) => resolve(extractPart(document, path), path, options);
}

// The page has its own search and its own head. A link inside of a button, as the viewer has it, is none for a screen reader.
const ourParts = () => ({
  afterLoad: resolveParts,
  fn: { opsFilter: filterOperations },
  components: { FilterContainer: () => null, InfoContainer: () => null, DeepLink: ({ text }: { text: unknown }) => text },
});

export function showDocument(place: HTMLElement, document: ApiDocument): Viewer {
  const ui = SwaggerUI({
    domNode: place,
    spec: document,
    plugins: [ourParts],
    presets: [SwaggerUI.presets.apis],
    docExpansion: "none",
    defaultModelsExpandDepth: 0,
    deepLinking: true,
    requestSnippetsEnabled: true,
    // Its colors are too pale for some eyes.
    syntaxHighlight: false,
    displayRequestDuration: true,
    validatorUrl: null,
    requestInterceptor: addCredentials,
  });
  return {
    search(text) {
      const search = text.trim();
      ui.layoutActions.updateFilter(search);
      const tags: Items<Tag> = ui.specSelectors.taggedOperations();
      // What is found is shown, and without a search the groups are closed again.
      tags.forEach((_, name) => ui.layoutActions.show(["operations-tag", name], search !== ""));
    },
  };
}
