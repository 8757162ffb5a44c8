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

type Json = Record<string, unknown>;

const COMPONENT = /^#\/components\/([^/]+)\/([^/]+)/;

/** Return the part of a document at a path, where it is, with the components that it refers to, and nothing else. */
export function extractPart(document: Json, path: string[]): Json {
  const part: Json = {};
  for (const [name, value] of Object.entries(document)) {
    if (name !== "paths" && name !== "components") part[name] = value;
  }
  const found = path.reduce<unknown>((value, key) => (value as Json | undefined)?.[key], document);
  const copied = new Set<string>();
  const components = document.components as Record<string, Json> | undefined;

  function put(keys: string[], value: unknown) {
    let at = part;
    for (const key of keys.slice(0, -1)) at = (at[key] ??= {}) as Json;
    at[keys[keys.length - 1]!] = value;
    copyReferences(value);
  }

  function copyReferences(value: unknown) {
    if (typeof value !== "object" || value === null) return;
    for (const [key, each] of Object.entries(value)) {
      if (key !== "$ref" || typeof each !== "string") {
        copyReferences(each);
        continue;
      }
      const [, kind, name] = COMPONENT.exec(each) ?? [];
      if (kind && name && !copied.has(each)) {
        copied.add(each);
        put(["components", kind, name], components?.[kind]?.[name]);
      }
    }
  }

  put(path, found);
  return part;
}

/** Whether all words of a search are in a text. */
export function matches(text: string, search: string): boolean {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}
