// The list of actions: names for events that match some conditions.
import type { Action, ActionStep } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { CreateLink, List, NameCell, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { DefinitionTabs } from "../definitions/definitions";

/** Say in short which events a step matches. */
export function describeStep(step: ActionStep): string {
  const parts = [step.event ?? t("any event")];
  if (step.url) parts.push(t("at {url}", { url: step.url }));
  if (step.text) parts.push(t("with the text “{text}”", { text: step.text }));
  if (step.selector) parts.push(step.selector);
  if (step.href) parts.push(t("to {url}", { url: step.href }));
  if (step.properties.length) parts.push(tn(step.properties.length, "{n} filter", "{n} filters"));
  return parts.join(", ");
}

export function ActionsPage() {
  const { api, root } = useProject();
  const state = useListState();
  const actions = useList<Action>("actions", `${api}/actions/`, state);
  const create = (isQuiet = false) => (
    <CreateLink to={`${root}/data-management/actions/new`} scope="action:write" isQuiet={isQuiet}>
      {t("New action")}
    </CreateLink>
  );
  return (
    <Page title={t("Actions")} sub={actions.data ? tn(actions.data.count, "{n} action", "{n} actions") : undefined} actions={create()}>
      <DefinitionTabs current="actions" />
      <List
        query={actions}
        state={state}
        search={t("Search by name")}
        empty={
          <Empty title={t("No actions yet")} action={create(true)}>
            {t("An action gives events a name: for example “Paid” for orders of the pro plan. Insights and HogQL use it like an event.")}
          </Empty>
        }
        columns={[t("Action"), t("Matches"), t("Created")]}
      >
        {(items) =>
          items.map((each) => (
            <tr key={each.id}>
              <NameCell to={`${root}/data-management/actions/${each.id}`} name={each.name ?? ""} description={each.description} tags={each.tags} />
              <td class="muted wide">
                <Value value={each.steps.map(describeStep).join(` ${t("or")} `) || t("Nothing")} maxChars={160} />
              </td>
              <td class="muted drop">
                <Ago at={each.created_at} />
              </td>
            </tr>
          ))
        }
      </List>
    </Page>
  );
}
