// Code that sends a first event, for each SDK. Pure.

export interface EventSnippet {
  name: string;
  /** What to run before, "" for nothing. */
  install: string;
  code: string;
}

const quote = (text: string): string => JSON.stringify(text);
const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function buildEventSnippets(host: string, key: string): EventSnippet[] {
  const body = JSON.stringify({ api_key: key, distinct_id: "ann", event: "hello" });
  return [
    {
      name: "JavaScript",
      install: "npm install posthog-js",
      code: `import posthog from "posthog-js"\n\nposthog.init(${quote(key)}, { api_host: ${quote(host)} })\nposthog.capture("hello")`,
    },
    {
      name: "Node",
      install: "npm install posthog-node",
      code: `import { PostHog } from "posthog-node"\n\nconst client = new PostHog(${quote(key)}, { host: ${quote(host)} })\nclient.capture({ distinctId: "ann", event: "hello" })\nawait client.shutdown()`,
    },
    {
      name: "Python",
      install: "pip install posthog",
      code: `from posthog import Posthog\n\nclient = Posthog(${quote(key)}, host=${quote(host)})\nclient.capture("hello", distinct_id="ann")\nclient.flush()`,
    },
    {
      name: "curl",
      install: "",
      code: `curl -H 'Content-Type: application/json' ${shellQuote(`${host}/i/v0/e/`)} \\\n  -d ${shellQuote(body)}`,
    },
  ];
}
