import { expect, it } from "vitest";
import { describeScopes, includes, readLevels } from "./scopes";

it("reads the level of each object, write over read", () => {
  expect([...readLevels(["a:read", "b:write", "b:read", "a:write", "c:read"])]).toEqual([
    ["a", "write"],
    ["b", "write"],
    ["c", "read"],
  ]);
});
it("describes scopes in short", () => {
  expect(describeScopes(["*"])).toBe("Everything");
  expect(describeScopes(["feature_flag:write", "query:read"])).toBe("Changes feature flag");
  expect(describeScopes(["query:read"])).toBe("Reads 1 kind of data");
});
it("write includes read", () => {
  expect([includes(["a:write"], "a:read"), includes(["a:read"], "a:write"), includes(["*"], "x:write"), includes([], "a:read")]).toEqual([true, false, true, false]);
});
