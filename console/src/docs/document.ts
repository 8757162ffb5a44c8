// The OpenAPI document, with and without the paths that exist twice.
export interface ApiDocument {
  info: { version: string; description?: string };
  paths: Record<string, unknown>;
}

const ALIAS = "/api/environments/";
const ORIGINAL = "/api/projects/";

/** Whether a path is the second address of a path below /api/projects/, as in PostHog. */
function isAlias(path: string, document: ApiDocument): boolean {
  return path.startsWith(ALIAS) && ORIGINAL + path.slice(ALIAS.length) in document.paths;
}

export function countAliases(document: ApiDocument): number {
  return Object.keys(document.paths).filter((path) => isAlias(path, document)).length;
}

export function removeAliases(document: ApiDocument): ApiDocument {
  const paths = Object.entries(document.paths).filter(([path]) => !isAlias(path, document));
  return { ...document, paths: Object.fromEntries(paths) };
}

/** Whether all words of a search are in a text. */
export function matches(text: string, search: string): boolean {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}
