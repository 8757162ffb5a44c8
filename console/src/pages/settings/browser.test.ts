import { expect, it } from "vitest";
import { describeBrowser } from "./browser";

it("names browsers and systems", () => {
  const cases: [string, string][] = [
    ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36", "Chrome on Linux"],
    ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/130 Safari/537.36 Edg/130.0", "Edge on Windows"],
    ["Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Mobile Safari/604.1", "Safari on iOS"],
    ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox on macOS"],
    ["curl/8.5.0", "curl"],
    ["", "Unknown browser"],
  ];
  for (const [agent, name] of cases) expect(describeBrowser(agent)).toBe(name);
});
