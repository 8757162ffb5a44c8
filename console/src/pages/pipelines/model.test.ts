import { describe, expect, it } from "vitest";
import { chooseEditor, fillBuckets, findProblems, listChanges, MASK, mergeParts, type PipelineRecord, readAttr, type Setting, toBodies, toDraft, toParts } from "./model";

const setting = (part: Partial<Setting>): Setting => ({ key: "url", name: "URL", type: "string", default: null, hint: "", required: false, secret: false, site: false, choices: [], ...part });
const SETTINGS = [
  setting({ required: true }),
  setting({ key: "secret", name: "Secret", secret: true }),
  setting({ key: "body", name: "Body", type: "json" }),
  setting({ key: "size", name: "Size", type: "integer" }),
  setting({ key: "events", name: "Events", type: "json" }),
];
const record = (config: object): PipelineRecord => ({ name: "CRM", description: "", config: JSON.stringify(config) }) as PipelineRecord;

describe("settings", () => {
  it("have an editor by type and by key", () => {
    expect(SETTINGS.map(chooseEditor)).toEqual(["text", "secret", "json", "number", "names"]);
  });

  it("go through a draft unchanged", () => {
    const stored = { url: "https://a", secret: MASK, body: { a: [1] }, size: 3, events: ["bought"] };
    const parts = toParts(toDraft(record(stored), SETTINGS), SETTINGS);
    expect(parts).toEqual({ name: "CRM", description: "", "config.url": "https://a", "config.secret": MASK, "config.body": { a: [1] }, "config.size": 3, "config.events": ["bought"] });
    expect(listChanges(parts, parts, new Set())).toEqual([]);
  });

  it("are checked before they are sent", () => {
    const draft = toDraft(record({ url: "" }), SETTINGS);
    draft.values.body = "{a: 1}";
    draft.values.size = "many";
    expect(Object.keys(findProblems(draft, SETTINGS))).toEqual(["url", "body", "size"]);
  });

  it("that changed are sent, and secrets are not shown", () => {
    const base = { name: "CRM", "config.secret": MASK, "config.body": { a: 1 } };
    const mine = { name: "CRM 2", "config.secret": "hush", "config.body": null };
    const changes = listChanges(base, mine, new Set(["config.secret"]));
    expect(JSON.stringify(changes)).not.toContain("hush");
    expect(toBodies(changes, mine)).toEqual({ config: { secret: "hush", body: "" }, record: { name: "CRM 2" } });
  });
});

describe("merge", () => {
  it("keeps changes of both and names conflicts", () => {
    const base = { name: "a", "config.url": "u", "config.size": 1 };
    const { merged, conflicts } = mergeParts(base, { ...base, name: "mine", "config.url": "m" }, { ...base, name: "theirs", "config.size": 2 });
    expect(merged).toEqual({ name: "mine", "config.url": "m", "config.size": 2 });
    expect(conflicts.map((each) => each.path)).toEqual(["name"]);
  });
});

it("finds the setting of an error", () => {
  expect([readAttr("config__url"), readAttr("config__properties__0__key"), readAttr("name"), readAttr(null)]).toEqual(["url", "properties", "name", ""]);
});

it("fills hours without deliveries", () => {
  const now = Date.parse("2026-01-02T03:30:00Z");
  const hours = [{ hour: "2026-01-02T02:00:00Z", delivered: 5, dead: 1 }];
  const buckets = fillBuckets(hours, ["delivered", "dead"], { hours: 3, step: 1 }, now);
  expect(buckets.map((each) => each.values)).toEqual([[0, 0], [5, 1], [0, 0]]);
});
