// Scopes: what a key or a role may read and change. Pure.
import { t, tn } from "./text";

export type Level = "none" | "read" | "write";

/** Whether scopes include one. Write includes read. */
export function includes(granted: readonly string[], needed: string): boolean {
  return granted.includes("*") || granted.includes(needed) || (needed.endsWith(":read") && granted.includes(needed.replace(/read$/, "write")));
}

/** Return the name of what a scope is about, such as "Feature flag". */
export function nameObject(object: string): string {
  const words = object.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Say in short what scopes allow. */
export function describeScopes(scopes: readonly string[]): string {
  if (scopes.includes("*")) return t("Everything");
  const written = scopes.filter((each) => each.endsWith(":write")).map((each) => nameObject(each.split(":")[0]!));
  const read = scopes.filter((each) => each.endsWith(":read")).length;
  if (!written.length) return tn(read, "Reads {n} kind of data", "Reads {n} kinds of data");
  const names = written.length > 3 ? tn(written.length, "{n} kind of data", "{n} kinds of data") : written.join(", ").toLowerCase();
  return t("Changes {names}", { names });
}

/** Return the level of each object. Write includes read. */
export function readLevels(scopes: readonly string[]): Map<string, Level> {
  const levels = new Map<string, Level>();
  for (const scope of scopes) {
    const [object = "", action] = scope.split(":");
    if (action === "write" || (action === "read" && levels.get(object) !== "write")) levels.set(object, action);
  }
  return levels;
}
