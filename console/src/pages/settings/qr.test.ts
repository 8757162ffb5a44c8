import { expect, it } from "vitest";
import { encodeQr } from "./qr";

const FINDER = ["#######", "#     #", "# ### #", "# ### #", "# ### #", "#     #", "#######"];

function cut(modules: boolean[][], x: number, y: number): string[] {
  return modules.slice(y, y + 7).map((row) => row.slice(x, x + 7).map((isDark) => (isDark ? "#" : " ")).join(""));
}

it("grows with the text, with a pattern in three corners", () => {
  for (const [length, size] of [[10, 21], [100, 37], [134, 41], [800, 97]] as const) {
    const modules = encodeQr("x".repeat(length))!;
    expect(modules.length).toBe(size);
    for (const [x, y] of [[0, 0], [size - 7, 0], [0, size - 7]] as const) expect(cut(modules, x, y)).toEqual(FINDER);
  }
});
it("is nothing for a text that is too long", () => {
  expect(encodeQr("x".repeat(900))).toBeNull();
});
