// A row of the list of pipeline records: its state, name, health and menu.
import { useMutation } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { buildCurl, call, queryClient } from "../../api/client";
import { formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { IconButton, Switch } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { ACTIONS, type Column } from "../../ui/list";
import { Menu } from "../../ui/menu";
import { Ago, copyText, Value } from "../../ui/show";
import { notify, notifyError } from "../../ui/toasts";
import { type Family, type Health, type PipelineRecord, readComponent, readError } from "./model";

export interface RowProps {
  family: Family;
  record: PipelineRecord;
  health: Health | undefined;
  refusal: string | undefined;
}

export const recordColumns = (family: Family): Column[] => [{ label: t("On"), class: "shrink" }, t("Name"), ...listColumns(family).map((label) => ({ label, class: "num" as const })), ACTIONS];

/** The cells below `recordColumns`. */
export function RecordCells({ family, record, health, refusal }: RowProps) {
  return (
    <>
      <td class="shrink end">
        <RecordSwitch family={family} record={record} refusal={refusal} />
      </td>
      <td class="first">
        <RecordName family={family} record={record} health={health} />
      </td>
      <HealthCells family={family} health={health} />
      <td class="shrink end">
        <RecordMenu family={family} record={record} health={health} refusal={refusal} />
      </td>
    </>
  );
}

function listColumns(family: Family): string[] {
  if (family.name === "destinations") return [t("Delivered, 24 h"), t("Failed, 24 h"), t("Queue"), t("Dead letters")];
  if (family.name === "transformations") return [t("Changed, 24 h"), t("Dropped, 24 h"), t("Failed, 24 h")];
  if (family.name === "import-apps") return [t("Last run"), t("Rows")];
  return [];
}

/** Numbers of a record. On a phone each has its label beside it. */
function HealthCells({ family, health }: { family: Family; health: Health | undefined }) {
  const labels = listColumns(family);
  const day = health?.last_24h;
  const job = health?.last_job;
  const number = (value: number | undefined, isBad = false) => (value === undefined ? "…" : <span class={isBad && value ? "bad-number" : value ? "" : "muted"}>{formatNumber(value)}</span>);
  const cells =
    family.name === "destinations"
      ? [number(day?.delivered), number(day?.dead, true), number(health && health.queue.waiting + health.queue.retrying), number(health?.queue.dead, true)]
      : family.name === "transformations"
        ? [number(day?.changed), number(day?.dropped), number(day?.failed, true)]
        : family.name === "import-apps"
          ? [job ? <JobTag key="job" job={job} /> : health ? <span class="muted">{t("Never")}</span> : "…", job ? number(job.done) : ""]
          : [];
  return (
    <>
      {cells.map((cell, index) => (
        <td key={labels[index]} class="num" data-label={labels[index]}>
          {cell}
        </td>
      ))}
    </>
  );
}

export function JobTag({ job }: { job: { status: string; ended_at: string | null; updated_at: string } }) {
  const tone = { failed: "bad", running: "info", waiting: "info", paused: "warn", done: "on" }[job.status] ?? "";
  return (
    <span class={`tag ${tone}`}>
      {job.status} · <Ago at={job.ended_at ?? job.updated_at} />
    </span>
  );
}

function RecordName({ family, record, health }: Omit<RowProps, "refusal">) {
  const { root } = useProject();
  const component = readComponent(record);
  const error = readError(record, health);
  return (
    <>
      <div class="row">
        <Link href={`${root}/pipeline/${family.name}/${record.id}`} class="name">
          <Value value={record.name || t("Without a name")} maxChars={120} />
        </Link>
        {component && component.name !== record.name && (
          <span class="tag">
            <Value value={component.name} maxChars={40} />
          </span>
        )}
        {health?.paused_until && record.enabled && <span class="tag warn">{t("Paused")}</span>}
        {health?.last_job && ["running", "waiting"].includes(health.last_job.status) && <span class="tag info">{t("Job running")}</span>}
      </div>
      {error ? (
        <div class="error-text">
          <Value value={error} maxChars={180} />
        </div>
      ) : (
        record.description && (
          <div class="muted small">
            <Value value={record.description} maxChars={140} />
          </div>
        )
      )}
    </>
  );
}

export function useRecordChange(family: Family, record: PipelineRecord) {
  const { api } = useProject();
  return useMutation({
    mutationFn: (body: Partial<PipelineRecord>) => call<PipelineRecord>("PATCH", `${api}/${family.records}/${record.id}/`, { body }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["pipelines"] }),
    onError: notifyError,
  });
}

export function RecordSwitch({ family, record, refusal }: Omit<RowProps, "health">) {
  const edit = useRecordChange(family, record);
  const isOn = edit.isPending && edit.variables.enabled !== undefined ? edit.variables.enabled : record.enabled;
  const toggle = (enabled: boolean) =>
    edit.mutate(
      { enabled },
      {
        onSuccess: () =>
          notify(enabled ? t("{name} is on.", { name: record.name }) : t("{name} is off. Its waiting events stay.", { name: record.name }), "good", {
            label: t("Undo"),
            run: () => edit.mutate({ enabled: !enabled }),
          }),
      },
    );
  return (
    <span title={refusal}>
      <Switch isOn={isOn} disabled={edit.isPending || !!refusal} label={t("{name} is on", { name: record.name })} onChange={toggle} />
    </span>
  );
}

export function RecordMenu({ family, record, health, refusal, onDeleted }: RowProps & { onDeleted?: () => void }) {
  const { api } = useProject();
  const [isDeleting, setDeleting] = useState(false);
  const edit = useRecordChange(family, record);
  const path = `${api}/${family.records}/${record.id}/`;
  const waiting = health ? health.queue.waiting + health.queue.retrying : 0;
  const remove = () =>
    edit.mutate(
      { deleted: true },
      {
        onSuccess: () => {
          setDeleting(false);
          notify(t("{name} is deleted.", { name: record.name }), "good", { label: t("Undo"), run: () => edit.mutate({ deleted: false, enabled: record.enabled }) });
          onDeleted?.();
        },
      },
    );
  return (
    <>
      <Menu
        trigger={<IconButton label={t("Actions for {name}", { name: record.name })} icon="more" isSmall />}
        entries={[
          { label: t("Copy the id"), onSelect: () => void copyText(String(record.id)) },
          { label: t("Copy as curl"), onSelect: () => void copyText(buildCurl("PATCH", path, { enabled: !record.enabled })) },
          { label: t("Delete…"), isDangerous: true, isDisabled: !!refusal, onSelect: () => setDeleting(true) },
        ]}
      />
      <Confirm
        title={t("Delete {name}?", { name: record.name })}
        action={t("Delete")}
        isDangerous
        isOpen={isDeleting}
        isBusy={edit.isPending}
        onConfirm={remove}
        onClose={() => setDeleting(false)}
      >
        <p>{t("It stops at once and disappears from the list. You can undo it.")}</p>
        {health && waiting > 0 && <p>{tn(waiting, "{n} event that waits is not sent.", "{n} events that wait are not sent.")}</p>}
        {health && health.last_24h.delivered > 0 && <p class="muted">{tn(health.last_24h.delivered, "It delivered {n} event in the last 24 hours.", "It delivered {n} events in the last 24 hours.")}</p>}
      </Confirm>
    </>
  );
}
