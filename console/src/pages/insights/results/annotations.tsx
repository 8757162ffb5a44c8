// Notes on charts over time: what happened on a day.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "preact/hooks";
import { ApiError, call, get, queryClient } from "../../../api/client";
import type { Annotation, Page } from "../../../api/types";
import type { Mark } from "../../../charts/time-chart";
import { t } from "../../../lib/text";
import { useProject } from "../../../shell/project";
import { useRefusal } from "../../../shell/rights";
import { Button, Field, Select } from "../../../ui/controls";
import { Dialog } from "../../../ui/dialog";
import { notify } from "../../../ui/toasts";

const LIMIT = 100;

/** Notes of the project and of this insight, as marks in the project's time. */
export function useAnnotations(isNeeded: boolean, from: string | null, insightId: number | null): { marks: Mark[]; annotations: Annotation[] } {
  const { api, project } = useProject();
  const found = useQuery({
    queryKey: ["annotations", api, from],
    queryFn: () => get<Page<Annotation>>(`${api}/annotations/`, { limit: LIMIT, date_from: from === "all" ? null : from }),
    enabled: isNeeded,
    staleTime: 30_000,
  });
  const zone = project?.timezone ?? "UTC";
  return useMemo(() => {
    const annotations = (found.data?.results ?? []).filter((each) => each.date_marker && (each.scope !== "dashboard_item" || each.dashboard_item === insightId) && each.scope !== "dashboard");
    return { annotations, marks: annotations.map((each) => ({ id: each.id, at: toLocal(each.date_marker!, zone), text: each.content })) };
  }, [found.data, zone, insightId]);
}

/** Return a moment as "2026-11-03 14:00:00" in a time zone, like the intervals of results. */
export function toLocal(iso: string, zone: string): string {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  return format.format(new Date(iso));
}

export function AnnotationDialog({ annotation, insightId, onClose }: { annotation: Annotation | null; insightId: number | null; onClose: () => void }) {
  const { api } = useProject();
  const refusal = useRefusal("annotation:write");
  const [content, setContent] = useState(annotation?.content ?? "");
  const [date, setDate] = useState((annotation?.date_marker ?? new Date().toISOString()).slice(0, 10));
  const [scope, setScope] = useState<string>(annotation?.scope ?? "project");
  const finish = (text: string) => {
    void queryClient.invalidateQueries({ queryKey: ["annotations"] });
    notify(text);
    onClose();
  };
  const body = { content: content.trim(), date_marker: `${date}T12:00:00Z`, scope, ...(scope === "dashboard_item" ? { dashboard_item: insightId } : {}) };
  const save = useMutation({
    mutationFn: () => (annotation ? call("PATCH", `${api}/annotations/${annotation.id}/`, { body }) : call("POST", `${api}/annotations/`, { body })),
    onSuccess: () => finish(t("The note is saved.")),
  });
  const remove = useMutation({ mutationFn: () => call("DELETE", `${api}/annotations/${annotation!.id}/`), onSuccess: () => finish(t("The note is deleted.")) });
  const failed = save.error ?? remove.error;
  const error = failed instanceof ApiError ? failed : null;
  return (
    <Dialog
      title={annotation ? t("Note") : t("New note")}
      isOpen
      onClose={onClose}
      footer={
        <>
          {annotation && (
            <Button kind="danger" disabled={remove.isPending || !!refusal} title={refusal} onClick={() => remove.mutate()}>
              {t("Delete the note")}
            </Button>
          )}
          <span class="grow" />
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" disabled={!content.trim() || !date || save.isPending || !!refusal} title={refusal} onClick={() => save.mutate()}>
            {t("Save")}
          </Button>
        </>
      }
    >
      <div class="body stack">
        <Field label={t("What happened")} error={error?.attr === "content" ? error.detail : undefined}>
          {(attributes) => <textarea {...attributes} class="input" autofocus value={content} onInput={(event) => setContent(event.currentTarget.value)} />}
        </Field>
        <Field label={t("Day")} error={error?.attr === "date_marker" ? error.detail : undefined}>
          {(attributes) => <input {...attributes} class="input" type="date" value={date} onInput={(event) => setDate(event.currentTarget.value)} />}
        </Field>
        <Field label={t("Shown on")}>
          {(attributes) => (
            <Select
              id={attributes.id}
              label={t("Shown on")}
              value={scope}
              choices={[{ value: "project", label: t("All charts of the project") }, ...(insightId ? [{ value: "dashboard_item", label: t("This insight only") }] : []), ...(scope === "organization" ? [{ value: "organization", label: t("All projects") }] : [])]}
              onChange={setScope}
            />
          )}
        </Field>
        {error && !["content", "date_marker"].includes(error.attr ?? "") && (
          <p class="notice bad" role="alert">
            {error.detail}
          </p>
        )}
      </div>
    </Dialog>
  );
}
