// What a newcomer does first. Each step is marked as done by itself.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { get } from "../../api/client";
import type { Flag, MemberItem, Page as PageOf } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Choices } from "../../ui/controls";
import { Icon } from "../../ui/icons";
import { Panel } from "../../ui/page";
import { Code } from "../../ui/show";
import { Loading } from "../../ui/states";
import { buildEventSnippets } from "./snippets";

/** The code that sends the first event. The page around it notices when it arrives. */
export function SendFirstEvent() {
  const { project } = useProject();
  const [name, setName] = useState("JavaScript");
  if (!project) return <Loading />;
  const snippets = buildEventSnippets(location.origin, project.api_token);
  const shown = snippets.find((each) => each.name === name) ?? snippets[0]!;
  return (
    <Panel
      title={t("Send the first event")}
      actions={
        <span class="tag info" role="status">
          {t("Waiting for the first event…")}
        </span>
      }
    >
      <div class="body stack">
        <div>
          <Choices label={t("Language")} value={shown.name} choices={snippets.map((each) => ({ value: each.name, label: each.name }))} onChange={setName} />
        </div>
        {shown.install && <Code label={t("command that installs the SDK")} text={shown.install} />}
        <Code label={t("code that sends an event")} text={shown.code} />
        <p class="muted">{t("The code has the key of this project and the address of this service. This page changes by itself when the event arrives.")}</p>
      </div>
    </Panel>
  );
}

interface Step {
  label: string;
  to: string;
  isDone: boolean;
}

/** Return the steps with whether they are done, none if it cannot be known; undefined while loading. */
export function useSteps(hasEvents: boolean): Step[] | undefined {
  const { api, root } = useProject();
  const flags = useQuery({ queryKey: ["flags", api, "any"], queryFn: () => get<PageOf<Flag>>(`${api}/feature_flags/`, { limit: 1 }) });
  const members = useQuery({ queryKey: ["members", "count"], queryFn: () => get<PageOf<MemberItem>>("/api/organizations/@current/members/", { limit: 1 }), retry: false });
  if (flags.isPending || members.isPending) return undefined;
  if (!flags.data) return [];
  return [
    { label: t("Send an event"), to: `${root}/activity/live`, isDone: hasEvents },
    { label: t("Create a feature flag and see who gets it"), to: `${root}/feature_flags/new`, isDone: flags.data.count > 0 },
    { label: t("Invite a colleague"), to: `${root}/settings/organization-members`, isDone: (members.data?.count ?? 2) > 1 },
  ];
}

/** The steps of a newcomer, until all are done. */
export function FirstSteps({ steps }: { steps: Step[] }) {
  if (steps.every((each) => each.isDone)) return null;
  return (
    <Panel title={t("First steps")}>
      <ol class="body stack steps">
        {steps.map((each) => (
          <li key={each.label} class="row">
            <span class={`step ${each.isDone ? "done" : ""}`}>{each.isDone && <Icon name="check" />}</span>
            {each.isDone ? <span class="muted">{each.label}</span> : <Link href={each.to}>{each.label}</Link>}
            {each.isDone && <span class="hidden-text">{t("done")}</span>}
          </li>
        ))}
      </ol>
    </Panel>
  );
}
