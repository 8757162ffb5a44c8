// Code that asks for a flag, for each SDK. Pure.

export interface Snippet {
  name: string;
  code: string;
}

interface Values {
  host: string;
  projectKey: string;
  flag: string;
  variants: string[];
  hasPayload: boolean;
}

const quote = (text: string): string => JSON.stringify(text);

export function buildSnippets({ host, projectKey, flag, variants, hasPayload }: Values): Snippet[] {
  const variant = variants.find((each) => each !== "control") ?? variants[0];
  const js = (client: string, wait = "") => {
    const check = variant
      ? `if (${wait}${client}.getFeatureFlag(${quote(flag)}${wait ? ", distinctId" : ""}) === ${quote(variant)}) {`
      : `if (${wait}${client}.isFeatureEnabled(${quote(flag)}${wait ? ", distinctId" : ""})) {`;
    const payload = hasPayload ? `  const payload = ${wait}${client}.getFeatureFlagPayload(${quote(flag)}${wait ? ", distinctId" : ""})\n` : "";
    return `${check}\n${payload}  // the new way\n}`;
  };
  const python = variant
    ? `if client.get_feature_flag(${quote(flag)}, distinct_id) == ${quote(variant)}:\n    ...  # the new way`
    : `if client.feature_enabled(${quote(flag)}, distinct_id):\n    ...  # the new way`;
  return [
    { name: "JavaScript", code: `import posthog from "posthog-js"\n\nposthog.init(${quote(projectKey)}, { api_host: ${quote(host)} })\n\nposthog.onFeatureFlags(() => {\n${js("posthog").replace(/^/gm, "  ")}\n})` },
    {
      name: "React",
      code: `import { useFeatureFlagVariantKey } from "posthog-js/react"\n\nexport function Part() {\n  const value = useFeatureFlagVariantKey(${quote(flag)})\n  return value ${variant ? `=== ${quote(variant)} ` : ""}? <NewWay /> : <OldWay />\n}`,
    },
    { name: "Node", code: `import { PostHog } from "posthog-node"\n\nconst client = new PostHog(${quote(projectKey)}, { host: ${quote(host)} })\n\n${js("client", "await ")}` },
    { name: "Python", code: `from posthog import Posthog\n\nclient = Posthog(${quote(projectKey)}, host=${quote(host)})\n\n${python}` },
    {
      name: "OpenFeature",
      code: `import { OpenFeature } from "@openfeature/web-sdk"\nimport { OFREPWebProvider } from "@openfeature/ofrep-web-provider"\n\nawait OpenFeature.setProviderAndWait(\n  new OFREPWebProvider({ baseUrl: ${quote(host)}, headers: [["Authorization", ${quote(`Bearer ${projectKey}`)}]] }),\n)\n${
        variant ? `OpenFeature.getClient().getStringValue(${quote(flag)}, "control")` : `OpenFeature.getClient().getBooleanValue(${quote(flag)}, false)`
      }`,
    },
    { name: "curl", code: `curl -H 'Content-Type: application/json' '${host}/flags?v=2' \\\n  -d '${JSON.stringify({ api_key: projectKey, distinct_id: "ann" }).replaceAll("'", "'\\''")}'` },
  ];
}
