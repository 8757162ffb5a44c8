// Who changed a record, what, and when; also jobs, retries and pauses.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Activity, ActivityPage } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Pager } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { diff } from "../flag/draft";
import { readChanges } from "../flag/history";
import { Changes } from "../flag/review";
import type { RecordProps } from "./record";

const LIMIT = 20;

const NAMES: Record<string, string> = {
  created: t("created it"),
  updated: t("changed it"),
  enabled: t("turned it on"),
  disabled: t("turned it off"),
  config_updated: t("changed the settings"),
  deleted: t("deleted it"),
  restored: t("restored it"),
  migrated: t("moved it to another version"),
  paused: t("paused it after failures"),
  resumed: t("found that it works again"),
  delivery_retried: t("retried an event"),
  job_triggered: t("started a job"),
  job_done: t("finished a job"),
  job_failed: t("ended a job with an error"),
  job_cancelled: t("cancelled a job"),
  job_paused: t("paused a job"),
  job_resumed: t("resumed a job"),
};

export function RecordHistory({ path, record }: RecordProps) {
  const { api } = useProject();
  const [offset, setOffset] = useState(0);
  const history = useQuery({
    queryKey: ["pipelines", api, path, "history", record.updated_at, offset],
    queryFn: () => get<ActivityPage>(`${path}/activity/`, { format: "json", limit: LIMIT, page: offset / LIMIT + 1 }),
  });
  return (
    <section class="panel" aria-label={t("History")}>
      <Await query={history}>
        {(page) =>
          page.results.length ? (
            <>
              <ol class="jobs">
                {page.results.map((entry) => (
                  <Entry key={entry.id} entry={entry} />
                ))}
              </ol>
              <Pager offset={offset} limit={LIMIT} count={page.total_count} onMove={setOffset} />
            </>
          ) : (
            <Empty title={t("No changes yet")} />
          )
        }
      </Await>
    </section>
  );
}

function Entry({ entry }: { entry: Activity }) {
  const changes = entry.activity === "created" ? [] : readChanges(entry).flatMap((each) => diff(each.before, each.after, each.field));
  const trigger = entry.detail.trigger as { job_type?: string } | null;
  return (
    <li class="stack s">
      <span>
        <strong>
          <Value value={entry.user.first_name} maxChars={60} />
        </strong>{" "}
        {NAMES[entry.activity] ?? entry.activity.replaceAll("_", " ")}
        {trigger?.job_type && <span class="muted"> ({trigger.job_type.replaceAll("_", " ")})</span>} · <Ago at={entry.created_at} />
      </span>
      {typeof entry.detail.reason === "string" && entry.detail.reason && (
        <span class="error-text">
          <Value value={entry.detail.reason} />
        </span>
      )}
      {changes.length > 0 && <Changes changes={changes} />}
    </li>
  );
}
