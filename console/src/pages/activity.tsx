// Who changed what in the project, with the values before and after.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { get } from "../api/client";
import type { Activity, ActivityPage as PageOf } from "../api/types";
import { t, tn } from "../lib/text";
import { useUrlState } from "../lib/url";
import { useProject } from "../shell/project";
import { IconButton, Select } from "../ui/controls";
import { Page, Pager } from "../ui/page";
import { Ago, Value } from "../ui/show";
import { Await, Empty, NoMatch } from "../ui/states";
import { diff } from "./flag/draft";
import { readChanges } from "./flag/history";
import { Changes } from "./flag/review";

const LIMIT = 30;
const SCOPES = ["FeatureFlag", "Cohort", "Person", "Experiment", "Survey", "EarlyAccessFeature", "PluginConfig", "Project", "PersonalAPIKey"];

// The pages of objects, by their scope in the log.
const ADDRESSES: Record<string, string> = { FeatureFlag: "feature_flags", Cohort: "cohorts", Experiment: "experiments", Survey: "surveys", EarlyAccessFeature: "early_access_features" };

export function ActivityPage() {
  const { api } = useProject();
  const [url, change] = useUrlState();
  const scope = url.get("scope") ?? "";
  const offset = Number(url.get("offset")) || 0;
  const log = useQuery({
    queryKey: ["activity", api, scope, offset],
    queryFn: () => get<PageOf>(`${api}/activity_log/`, { scope, limit: LIMIT, page: Math.floor(offset / LIMIT) + 1 }),
    placeholderData: keepPreviousData,
  });
  return (
    <Page title={t("Activity")} sub={log.data ? tn(log.data.total_count, "{n} change", "{n} changes") : undefined}>
      <div class="row">
        <Select
          label={t("Kind")}
          isNarrow
          value={scope}
          choices={[{ value: "", label: t("Everything") }, ...SCOPES.map((value) => ({ value, label: value.replace(/(?<=[a-z])(?=[A-Z])/g, " ") }))]}
          onChange={(value) => change({ scope: value, offset: null })}
        />
      </div>
      <div class="panel flush" aria-busy={log.isFetching}>
        <Await query={log}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col" class="shrink">
                        <span class="hidden-text">{t("Details")}</span>
                      </th>
                      <th scope="col">{t("Who")}</th>
                      <th scope="col">{t("What")}</th>
                      <th scope="col">{t("When")}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((entry) => (
                      <Row key={entry.id} entry={entry} />
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.total_count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : scope ? (
              <NoMatch onClear={() => change({ scope: null, offset: null })} />
            ) : (
              <Empty title={t("Nothing has changed yet")} />
            )
          }
        </Await>
      </div>
    </Page>
  );
}

function Row({ entry }: { entry: Activity }) {
  const { root } = useProject();
  const [isOpen, setOpen] = useState(false);
  const changes = readChanges(entry).flatMap((each) => diff(each.before, each.after, each.field));
  const name = (entry.detail.name as string | null) ?? entry.item_id;
  return (
    <>
      <tr>
        <td class="shrink end">
          <IconButton isSmall icon={isOpen ? "down" : "right"} label={t("Changes of {name}", { name })} aria-expanded={isOpen} disabled={!changes.length} onClick={() => setOpen(!isOpen)} />
        </td>
        <td class="drop">
          <Value value={entry.user.first_name} maxChars={60} />
        </td>
        <td class="first">
          <Value value={entry.activity} maxChars={60} /> <span class="muted">{entry.scope.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()}</span>{" "}
          {ADDRESSES[entry.scope] && entry.activity !== "deleted" ? (
            <Link href={`${root}/${ADDRESSES[entry.scope]}/${entry.item_id}`} class="name">
              <Value value={name} maxChars={80} />
            </Link>
          ) : (
            <span class="name">
              <Value value={name} maxChars={80} />
            </span>
          )}
        </td>
        <td class="muted">
          <Ago at={entry.created_at} />
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={4}>
            <Changes changes={changes} />
          </td>
        </tr>
      )}
    </>
  );
}
