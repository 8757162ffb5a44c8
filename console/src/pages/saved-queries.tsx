// Saved queries: insights with HogQL. They can be on dashboards like any other.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { call, get, queryClient } from "../api/client";
import type { Insight } from "../api/types";
import { t } from "../lib/text";
import { useLocalState } from "../lib/url";
import { useProject } from "../shell/project";
import { useRefusal } from "../shell/rights";
import { Button } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { List, useList, useListStateIn } from "../ui/list";
import { Ago, Value } from "../ui/show";
import { Empty } from "../ui/states";
import { notify, notifyError } from "../ui/toasts";
import { DetailsDialog } from "./insights/details";
import { describeSource, unwrap, wrap } from "./insights/query";

const LIMIT = 10;

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
  const refusal = useRefusal("insight:write");
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
    onError: notifyError,
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
        <Button disabled={update.isPending || !!refusal} title={refusal} onClick={() => update.mutate()}>
          {t("Save")}
        </Button>
      )}
      <Button disabled={!!refusal} title={refusal} onClick={() => setOpen("save")}>{t("Save as…")}</Button>
      {open === "list" && (
        <SavedList
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

function SavedList({ onOpen, onClose }: { onOpen: (insight: Insight) => void; onClose: () => void }) {
  const { api } = useProject();
  const state = useListStateIn(useLocalState());
  const found = useList<Insight>("insights", `${api}/insights/`, state, { insight: "SQL", basic: "true" }, { limit: LIMIT });
  return (
    <Dialog title={t("Saved queries")} isOpen onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <div class="body stack">
        <List
          query={found}
          state={state}
          search={t("Search saved queries")}
          limit={LIMIT}
          empty={<Empty title={t("No saved queries yet")}>{t("Save a query to find it again, and to put it on a dashboard.")}</Empty>}
          columns={[t("Query"), t("Changed")]}
        >
          {(items) =>
            items.map((each) => (
              <tr key={each.id}>
                <td class="first">
                  <Button kind="quiet" isSmall onClick={() => onOpen(each)}>
                    <Value value={each.name || describeSource(unwrap(each.query))} maxChars={60} />
                  </Button>
                </td>
                <td class="muted">
                  <Ago at={each.last_modified_at} />
                </td>
              </tr>
            ))
          }
        </List>
      </div>
    </Dialog>
  );
}
