import { expect, it } from "vitest";
import { buildEventSnippets } from "./snippets";

it("contain the real key and host, quoted", () => {
  const snippets = buildEventSnippets("https://a.example", `phc_"it's`);
  expect(snippets.map((each) => each.name)).toEqual(["JavaScript", "Node", "Python", "curl"]);
  for (const each of snippets) expect(each.code).toContain("https://a.example");
  expect(snippets[0]!.code).toContain(`posthog.init("phc_\\"it's"`);
  expect(snippets[3]!.code).toContain(`"api_key":"phc_\\"it'\\''s"`);
});
