import { expect, test } from "vitest";
import { countAliases, matches, removeAliases } from "./document";

const document = {
  info: { version: "1" },
  paths: { "/api/projects/{id}/flags/": {}, "/api/environments/{id}/flags/": {}, "/api/environments/{id}/only/": {}, "/decide": {} },
};

test("aliases of paths that exist under projects are removed", () => {
  expect(countAliases(document)).toBe(1);
  expect(Object.keys(removeAliases(document).paths)).toEqual(["/api/projects/{id}/flags/", "/api/environments/{id}/only/", "/decide"]);
});

test("a search matches all its words in any order", () => {
  expect(matches("GET /api/projects/ List projects", "list api")).toBe(true);
  expect(matches("GET /api/projects/ List projects", "list flags")).toBe(false);
});
