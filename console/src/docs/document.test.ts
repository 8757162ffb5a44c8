import { expect, test } from "vitest";
import { countAliases, extractPart, matches, removeAliases } from "./document";

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

test("a part of a document has what it refers to, directly or not, and nothing else", () => {
  const list = { responses: { 200: { schema: { items: { $ref: "#/components/schemas/Flag" } } }, 400: { $ref: "#/components/responses/Error" } } };
  const schemas = { Flag: { properties: { parent: { $ref: "#/components/schemas/Flag" }, by: { $ref: "#/components/schemas/User" } } }, User: {}, Other: {} };
  const securitySchemes = { key: { type: "http" } };
  const whole = {
    openapi: "3.1.0",
    paths: { "/flags/": { get: list, post: {} }, "/other/": {} },
    components: { schemas, responses: { Error: { description: "no" } }, securitySchemes },
  };
  expect(extractPart(whole, ["paths", "/flags/", "get"])).toEqual({
    openapi: "3.1.0",
    paths: { "/flags/": { get: list } },
    components: { schemas: { Flag: schemas.Flag, User: {} }, responses: { Error: { description: "no" } } },
  });
  expect(extractPart(whole, ["components", "securitySchemes"])).toEqual({ openapi: "3.1.0", components: { securitySchemes } });
  expect(extractPart(whole, ["paths", "/gone/", "get"])).toEqual({ openapi: "3.1.0", paths: { "/gone/": { get: undefined } } });
});
