// Who changed a record, what, and when; also jobs, retries and pauses.
import type { Activity } from "../../api/types";
import { t } from "../../lib/text";
import { History } from "../history";
import type { RecordProps } from "./model";

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
  return <History path={`${path}/activity/`} parameters={{ format: "json" }} version={record.updated_at} describe={describe} />;
}

function describe(entry: Activity) {
  const trigger = entry.detail.trigger as { job_type?: string } | null;
  return (
    <>
      {NAMES[entry.activity] ?? entry.activity.replaceAll("_", " ")}
      {trigger?.job_type && <span class="muted"> ({trigger.job_type.replaceAll("_", " ")})</span>}
    </>
  );
}
