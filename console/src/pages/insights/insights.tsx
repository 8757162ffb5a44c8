// The list of insights: searched, filtered and paged by the service.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ApiError, call, get, queryClient } from "../../api/client";
import type { Insight, Page as PageOf } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { IconButton, SearchInput, Select } from "../../ui/controls";
import { Page, Pager } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { describeKind, describeSource, unwrap } from "./query";
import { useRefusal } from "./rights";
import "./insights.css";

const LIMIT = 50;

export function InsightsPage() {
  const { api, root } = useProject();
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim());
  const favorited = url.get("favorited") ?? "";
  const insight = url.get("insight") ?? "";
  const tag = url.get("tag") ?? "";
  const order = url.get("order") ?? "";
  const offset = Number(url.get("offset")) || 0;
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const tags = tag ? JSON.stringify([tag]) : "";
  const insights = useQuery({
    queryKey: ["insights", api, search, favorited, insight, tag, order, offset],
    queryFn: ({ signal }) => get<PageOf<Insight>>(`${api}/insights/`, { search, favorited, insight, tags, order, basic: "true", offset: offset || null, limit: LIMIT }, signal),
    placeholderData: keepPreviousData,
  });
  const create = (
    <Link href={`${root}/insights/new`} class="button primary">
      {t("New insight")}
    </Link>
  );
  return (
    <Page title={t("Insights")} sub={insights.data ? tn(insights.data.count, "{n} insight", "{n} insights") : undefined} actions={create}>
      <div class="row">
        <SearchInput label={t("Search by name or description")} value={text} onInput={setText} />
        <Select
          label={t("Kind")}
          isNarrow
          value={insight}
          onChange={(value) => change({ insight: value, offset: null })}
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
          onChange={(value) => change({ favorited: value, offset: null })}
          choices={[
            { value: "", label: t("All") },
            { value: "true", label: t("Favorites") },
          ]}
        />
        <Select
          label={t("Order")}
          isNarrow
          value={order}
          onChange={(value) => change({ order: value, offset: null })}
          choices={[
            { value: "", label: t("Last changed first") },
            { value: "name", label: t("By name") },
            { value: "-created_at", label: t("Newest first") },
          ]}
        />
        {tag && (
          <span class="tag on">
            <Value value={tag} maxChars={40} />
            <button type="button" aria-label={t("Any tag")} onClick={() => change({ tag: null, offset: null })}>
              ×
            </button>
          </span>
        )}
      </div>
      <div class="panel flush" aria-busy={insights.isFetching}>
        <Await query={insights}>
          {(page) =>
            page.results.length ? (
              <>
                <InsightTable insights={page.results} onTag={(name) => change({ tag: name, offset: null })} />
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : search || favorited || insight || tag ? (
              <NoMatch
                onClear={() => {
                  setText("");
                  change({ search: null, favorited: null, insight: null, tag: null, offset: null });
                }}
              />
            ) : (
              <Empty title={t("No insights yet")} action={create}>
                {t("An insight answers a question about your events: how many, how often, who comes back. Save it, and put it on a dashboard.")}
              </Empty>
            )
          }
        </Await>
      </div>
    </Page>
  );
}

function InsightTable({ insights, onTag }: { insights: Insight[]; onTag: (tag: string) => void }) {
  const { api, root } = useProject();
  const refusal = useRefusal("insight:write");
  const favor = useMutation({
    mutationFn: ({ id, favorited }: { id: number; favorited: boolean }) => call("PATCH", `${api}/insights/${id}/`, { body: { favorited } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["insights"] }),
    onError: (error) => notify(error instanceof ApiError ? error.detail : String(error), "bad"),
  });
  return (
    <table class="table cards">
      <thead>
        <tr>
          <th scope="col" class="shrink">
            <span class="hidden-text">{t("Favorite")}</span>
          </th>
          <th scope="col">{t("Insight")}</th>
          <th scope="col">{t("Kind")}</th>
          <th scope="col">{t("Dashboards")}</th>
          <th scope="col">{t("Changed")}</th>
        </tr>
      </thead>
      <tbody>
        {insights.map((each) => {
          const source = unwrap(each.query);
          const name = each.name || each.derived_name || describeSource(source);
          return (
            <tr key={each.id}>
              <td class="shrink end">
                <IconButton isSmall icon="star" class={each.favorited ? "starred" : ""} aria-pressed={each.favorited} label={t("{name} is a favorite", { name })} disabled={!!refusal} onClick={() => favor.mutate({ id: each.id, favorited: !each.favorited })} />
              </td>
              <td class="first">
                <div class="row">
                  <Link href={`${root}/insights/${each.short_id}`} class="name">
                    <Value value={name} maxChars={120} />
                  </Link>
                  {each.tags.slice(0, 5).map((tag) => (
                    <span class="tag" key={tag}>
                      <button type="button" title={t("Only insights with this tag")} onClick={() => onTag(tag)}>
                        <Value value={tag} maxChars={30} />
                      </button>
                    </span>
                  ))}
                </div>
                {each.description && (
                  <div class="muted small">
                    <Value value={each.description} maxChars={140} />
                  </div>
                )}
              </td>
              <td class="muted">{describeKind(source)}</td>
              <td class="muted drop num">{each.dashboards.length || ""}</td>
              <td class="muted drop">
                <Ago at={each.last_modified_at} />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
