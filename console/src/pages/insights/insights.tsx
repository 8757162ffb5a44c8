// The list of insights: searched, filtered and paged by the service.
import { useMutation } from "@tanstack/react-query";
import { Link } from "wouter-preact";
import { call, queryClient } from "../../api/client";
import type { Insight } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { IconButton, Select } from "../../ui/controls";
import { List, NameCell, TagFilter, toTags, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago } from "../../ui/show";
import { Empty } from "../../ui/states";
import { describeKind, nameInsight, unwrap } from "./query";
import { useRefusal } from "../../shell/rights";
import { notifyError } from "../../ui/toasts";
import "./insights.css";

export function InsightsPage() {
  const { api, root } = useProject();
  const state = useListState("favorited", "insight", "tag", "order");
  const { favorited = "", insight = "", order = "" } = state.filters;
  const insights = useList<Insight>("insights", `${api}/insights/`, state, { favorited, insight, order, tags: toTags(state), basic: "true" });
  const create = (
    <Link href={`${root}/insights/new`} class="button primary">
      {t("New insight")}
    </Link>
  );
  return (
    <Page title={t("Insights")} sub={insights.data ? tn(insights.data.count, "{n} insight", "{n} insights") : undefined} actions={create}>
      <List
        query={insights}
        state={state}
        search={t("Search by name or description")}
        controls={
          <>
            <Select
              label={t("Kind")}
              isNarrow
              value={insight}
              onChange={(value) => state.setFilter("insight", value)}
              choices={[
                { value: "", label: t("Any kind") },
                { value: "TRENDS", label: t("Trends") },
                { value: "FUNNELS", label: t("Funnels") },
                { value: "RETENTION", label: t("Retention") },
                { value: "PATHS", label: t("Paths") },
                { value: "SQL", label: t("SQL") },
              ]}
            />
            <Select
              label={t("Favorites")}
              isNarrow
              value={favorited}
              onChange={(value) => state.setFilter("favorited", value)}
              choices={[
                { value: "", label: t("All") },
                { value: "true", label: t("Favorites") },
              ]}
            />
            <Select
              label={t("Order")}
              isNarrow
              value={order}
              onChange={(value) => state.setFilter("order", value)}
              choices={[
                { value: "", label: t("Last changed first") },
                { value: "name", label: t("By name") },
                { value: "-created_at", label: t("Newest first") },
              ]}
            />
            <TagFilter state={state} />
          </>
        }
        empty={
          <Empty title={t("No insights yet")} action={create}>
            {t("An insight answers a question about your events: how many, how often, who comes back. Save it, and put it on a dashboard.")}
          </Empty>
        }
        columns={[{ label: t("Favorite"), isHidden: true, class: "shrink" }, t("Insight"), t("Kind"), t("Dashboards"), t("Changed")]}
      >
        {(items) => <Rows insights={items} onTag={(tag) => state.setFilter("tag", tag)} />}
      </List>
    </Page>
  );
}

function Rows({ insights, onTag }: { insights: Insight[]; onTag: (tag: string) => void }) {
  const { api, root } = useProject();
  const refusal = useRefusal("insight:write");
  const favor = useMutation({
    mutationFn: ({ id, favorited }: { id: number; favorited: boolean }) => call("PATCH", `${api}/insights/${id}/`, { body: { favorited } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["insights"] }),
    onError: notifyError,
  });
  return (
    <>
      {insights.map((each) => {
        const source = unwrap(each.query);
        const name = nameInsight(each);
        return (
          <tr key={each.id}>
            <td class="shrink end">
              <IconButton isSmall icon="star" class={each.favorited ? "starred" : ""} aria-pressed={each.favorited} label={t("{name} is a favorite", { name })} disabled={!!refusal} onClick={() => favor.mutate({ id: each.id, favorited: !each.favorited })} />
            </td>
            <NameCell to={`${root}/insights/${each.short_id}`} name={name} description={each.description} tags={each.tags} onTag={onTag} />
            <td class="muted">{describeKind(source)}</td>
            <td class="muted drop num">{each.dashboards.length || ""}</td>
            <td class="muted drop">
              <Ago at={each.last_modified_at} />
            </td>
          </tr>
        );
      })}
    </>
  );
}
