import { describe, expect, it } from "vitest";
import { findErrorPlace, toCsv } from "./query-text";

describe("query texts", () => {
  it("find the place of an error", () => {
    expect(findErrorPlace("Unknown field 'evnt' at line 2, column 8.")).toEqual({ line: 2, column: 8 });
    expect(findErrorPlace("Too slow")).toEqual({ line: 1, column: 1 });
  });
  it("write CSV that no spreadsheet runs", () => {
    expect(toCsv(["a", "b"], [['x "y", z', "=1+1"], [null, -5]])).toBe('a,b\r\n"x ""y"", z",\'=1+1\r\n,-5');
  });
});
