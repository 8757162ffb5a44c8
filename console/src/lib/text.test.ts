import { describe, expect, it } from "vitest";
import { formatAgo, formatBytes, showValue, splitStrange, t, tn } from "./text";

describe("texts", () => {
  it("fill in values", () => {
    expect(t("{a} of {b}", { a: 1, b: "x" })).toBe("1 of x");
    expect(t("{missing}", { a: 1 })).toBe("{missing}");
    expect(tn(1, "{n} flag", "{n} flags")).toBe("1 flag");
    expect(tn(0, "{n} flag", "{n} flags")).toBe("0 flags");
  });
  it("show characters that change how text reads", () => {
    expect(splitStrange("a\u202eb")).toEqual([
      { text: "a", isCode: false },
      { text: "U+202E", isCode: true },
      { text: "b", isCode: false },
    ]);
    expect(splitStrange("tab\tand\nline")).toEqual([{ text: "tab\tand\nline", isCode: false }]);
  });
  it("show any value", () => {
    expect([showValue("x"), showValue(null), showValue({ a: [1] }), showValue(undefined)]).toEqual(["x", "null", '{"a":[1]}', ""]);
  });
  it("show sizes", () => {
    expect([0, 1023, 1536, 2 ** 21, 66.7e9, 3.2e15].map(formatBytes)).toEqual(["0 B", "1,023 B", "1.5 KiB", "2 MiB", "62.1 GiB", "2,910.4 TiB"]);
  });
  it("say how long ago", () => {
    expect(formatAgo("2026-01-01T00:00:00Z", Date.parse("2026-01-01T03:00:00Z"))).toBe("3 hr. ago");
  });
});
