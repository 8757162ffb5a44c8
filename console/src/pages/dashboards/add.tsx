// Dialogs that add tiles to a dashboard: saved insights, and texts.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, call, get } from "../../api/client";
import type { Dashboard, Insight, Page } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, Field, SearchInput } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notifyError } from "../../ui/toasts";
import { describeKind, nameInsight, unwrap } from "../insights/query";

const LIMIT = 30;

export function AddInsight({ board, path, onChanged, onClose }: { board: Dashboard; path: string; onChanged: (board: Dashboard) => void; onClose: () => void }) {
  const { api } = useProject();
  const [text, setText] = useState("");
  const search = useSettled(text.trim());
  const insights = useQuery({
    queryKey: ["insights", api, "add", search],
    queryFn: ({ signal }) => get<Page<Insight>>(`${api}/insights/`, { search, basic: "true", limit: LIMIT }, signal),
    placeholderData: keepPreviousData,
  });
  const shown = new Set(board.tiles.map((each) => each.insight?.id));
  const add = useMutation({
    mutationFn: (id: number) => call<Dashboard>("PATCH", `${path}?refresh=async`, { body: { tiles: [{ insight: { id } }] } }),
    onSuccess: onChanged,
    onError: notifyError,
  });
  return (
    <Dialog title={t("Add an insight")} isOpen onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <div class="body stack">
        <SearchInput label={t("Search insights")} value={text} onInput={setText} />
        <Await query={insights} rows={4}>
          {(page) =>
            page.results.length ? (
              <ul class="stack s" aria-label={t("Insights")}>
                {page.results.map((each) => {
                  const source = unwrap(each.query);
                  const name = nameInsight(each);
                  return (
                    <li key={each.id} class="row spread">
                      <span class="grow">
                        <Value value={name} maxChars={80} /> <span class="muted small">{describeKind(source)}</span>
                      </span>
                      {shown.has(each.id) ? (
                        <span class="muted small">{t("added")}</span>
                      ) : (
                        <Button isSmall disabled={add.isPending} aria-label={t("Add {name}", { name })} onClick={() => add.mutate(each.id)}>
                          {t("Add")}
                        </Button>
                      )}
                    </li>
                  );
                })}
                {page.count > LIMIT && <li class="muted small">{t("{n} more: search for a name.", { n: page.count - LIMIT })}</li>}
              </ul>
            ) : (
              <Empty title={search ? t("Nothing matches") : t("No insights yet")}>{search ? t("No insight has this name.") : t("Save an insight first.")}</Empty>
            )
          }
        </Await>
      </div>
    </Dialog>
  );
}

export function TextDialog({ title, initial, onSave, onClose }: { title: string; initial: string; onSave: (body: string) => Promise<unknown>; onClose: () => void }) {
  const [body, setBody] = useState(initial);
  const save = useMutation({ mutationFn: () => onSave(body.trim()), onSuccess: onClose });
  const error = save.error instanceof ApiError ? save.error.detail : undefined;
  return (
    <Dialog
      title={title}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" disabled={!body.trim() || save.isPending} onClick={() => save.mutate()}>
            {t("Save")}
          </Button>
        </>
      }
    >
      <div class="body">
        <Field label={t("Text")} error={error}>
          {(attributes) => <textarea {...attributes} class="input" rows={8} maxLength={4000} autofocus value={body} onInput={(event) => setBody(event.currentTarget.value)} />}
        </Field>
      </div>
    </Dialog>
  );
}
