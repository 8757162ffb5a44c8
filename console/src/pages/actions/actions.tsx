// The list of actions: names for events that match some conditions.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { get } from "../../api/client";
import type { Action, ActionStep, Page as PageOf } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { SearchInput } from "../../ui/controls";
import { Page, Pager } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { DefinitionTabs } from "../definitions/definitions";

const LIMIT = 50;

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
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim());
  const offset = Number(url.get("offset")) || 0;
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const actions = useQuery({
    queryKey: ["actions", api, search, offset],
    queryFn: ({ signal }) => get<PageOf<Action>>(`${api}/actions/`, { search, offset: offset || null, limit: LIMIT }, signal),
    placeholderData: keepPreviousData,
  });
  const create = (
    <Link href={`${root}/data-management/actions/new`} class="button primary">
      {t("New action")}
    </Link>
  );
  return (
    <Page title={t("Actions")} sub={actions.data ? tn(actions.data.count, "{n} action", "{n} actions") : undefined} actions={create}>
      <DefinitionTabs current="actions" />
      <div class="row">
        <SearchInput label={t("Search by name")} value={text} onInput={setText} />
      </div>
      <div class="panel flush" aria-busy={actions.isFetching}>
        <Await query={actions}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col">{t("Action")}</th>
                      <th scope="col">{t("Matches")}</th>
                      <th scope="col">{t("Created")}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((each) => (
                      <tr key={each.id}>
                        <td class="first">
                          <div class="row">
                            <Link href={`${root}/data-management/actions/${each.id}`} class="name">
                              <Value value={each.name} maxChars={100} />
                            </Link>
                            {each.tags.slice(0, 5).map((tag) => (
                              <span class="tag" key={tag}>
                                <Value value={tag} maxChars={30} />
                              </span>
                            ))}
                          </div>
                          {each.description && (
                            <div class="muted small">
                              <Value value={each.description} maxChars={140} />
                            </div>
                          )}
                        </td>
                        <td class="muted wide">
                          <Value value={each.steps.map(describeStep).join(` ${t("or")} `) || t("Nothing")} maxChars={160} />
                        </td>
                        <td class="muted drop">
                          <Ago at={each.created_at} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : search ? (
              <NoMatch onClear={() => setText("")} />
            ) : (
              <Empty title={t("No actions yet")} action={create}>
                {t("An action gives events a name: for example “Paid” for orders of the pro plan. Insights and HogQL use it like an event.")}
              </Empty>
            )
          }
        </Await>
      </div>
    </Page>
  );
}
