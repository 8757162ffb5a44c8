// Saved queries: insights with HogQL. They can be on dashboards like any other.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, call, get, queryClient } from "../api/client";
import type { Insight, Page } from "../api/types";
import { useSettled } from "../lib/debounce";
import { t } from "../lib/text";
import { useProject } from "../shell/project";
import { Button, SearchInput } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Ago, Value } from "../ui/show";
import { Await, Empty } from "../ui/states";
import { notify } from "../ui/toasts";
import { DetailsDialog } from "./insights/details";
import { describeSource, unwrap, wrap } from "./insights/query";

const LIMIT = 50;

interface Props {
  /** The short id of the saved query that is open. */
  current: string | null;
  text: string;
  onOpen: (insight: Insight, text: string) => void;
  onSaved: (insight: Insight) => void;
}

export function SavedQueries({ current, text, onOpen, onSaved }: Props) {
  const { api } = useProject();
  const [open, setOpen] = useState<"" | "list" | "save">("");
  const saved = useQuery({
    queryKey: ["insight", api, current],
    queryFn: () => get<Insight>(`${api}/insights/${encodeURIComponent(current ?? "")}/`),
    enabled: !!current,
    refetchOnWindowFocus: false,
  });
  const query = wrap({ kind: "HogQLQuery", query: text });
  const keep = (insight: Insight) => {
    queryClient.setQueryData(["insight", api, insight.short_id], insight);
    void queryClient.invalidateQueries({ queryKey: ["insights"] });
    onSaved(insight);
  };
  const update = useMutation({
    mutationFn: () => call<Insight>("PATCH", `${api}/insights/${saved.data!.id}/`, { body: { query } }),
    onSuccess: (insight) => {
      keep(insight);
      notify(t("“{name}” is saved.", { name: insight.name ?? "" }));
    },
    onError: (error) => notify(error instanceof ApiError ? error.detail : String(error), "bad"),
  });
  const isChanged = saved.data && unwrap(saved.data.query).query !== text;
  return (
    <>
      {saved.data && (
        <span class="muted cut">
          <Value value={saved.data.name || t("Saved query")} maxChars={40} />
        </span>
      )}
      <Button onClick={() => setOpen("list")}>{t("Saved queries")}</Button>
      {isChanged && (
        <Button disabled={update.isPending} onClick={() => update.mutate()}>
          {t("Save")}
        </Button>
      )}
      <Button onClick={() => setOpen("save")}>{t("Save as…")}</Button>
      {open === "list" && (
        <List
          onOpen={(insight) => {
            setOpen("");
            onOpen(insight, unwrap(insight.query).query ?? "");
          }}
          onClose={() => setOpen("")}
        />
      )}
      {open === "save" && (
        <DetailsDialog
          title={t("Save the query")}
          action={t("Save")}
          initial={{ name: saved.data?.name ?? "", description: saved.data?.description ?? "", tags: [...(saved.data?.tags ?? [])] }}
          onSave={async (details) => {
            keep(await call<Insight>("POST", `${api}/insights/`, { body: { ...details, saved: true, query } }));
            notify(t("“{name}” is saved.", { name: details.name }));
          }}
          onClose={() => setOpen("")}
        />
      )}
    </>
  );
}

function List({ onOpen, onClose }: { onOpen: (insight: Insight) => void; onClose: () => void }) {
  const { api } = useProject();
  const [text, setText] = useState("");
  const search = useSettled(text.trim());
  const found = useQuery({
    queryKey: ["insights", api, "sql", search],
    queryFn: ({ signal }) => get<Page<Insight>>(`${api}/insights/`, { insight: "SQL", search, basic: "true", limit: LIMIT }, signal),
    placeholderData: keepPreviousData,
  });
  return (
    <Dialog title={t("Saved queries")} isOpen onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <div class="body stack">
        <SearchInput label={t("Search saved queries")} value={text} onInput={setText} />
        <Await query={found} rows={4}>
          {(page) =>
            page.results.length ? (
              <ul class="stack s" aria-label={t("Saved queries")}>
                {page.results.map((each) => (
                  <li key={each.id} class="row spread">
                    <Button kind="quiet" onClick={() => onOpen(each)}>
                      <Value value={each.name || describeSource(unwrap(each.query))} maxChars={60} />
                    </Button>
                    <span class="muted small">
                      <Ago at={each.last_modified_at} />
                    </span>
                  </li>
                ))}
                {page.count > LIMIT && <li class="muted small">{t("{n} more: search for a name.", { n: page.count - LIMIT })}</li>}
              </ul>
            ) : (
              <Empty title={search ? t("Nothing matches") : t("No saved queries yet")}>{search ? t("No saved query has this name.") : t("Save a query to find it again, and to put it on a dashboard.")}</Empty>
            )
          }
        </Await>
      </div>
    </Dialog>
  );
}
