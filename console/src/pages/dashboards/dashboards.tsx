// The list of dashboards: pinned ones first, searched and paged by the service.
import { useMutation } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { call, queryClient } from "../../api/client";
import type { Dashboard, DashboardBasics } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, IconButton } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { ACTIONS, List, NameCell, useList, useListState } from "../../ui/list";
import { Menu } from "../../ui/menu";
import { Page } from "../../ui/page";
import { Ago } from "../../ui/show";
import { Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { DetailsDialog } from "../insights/details";
import { useRefusal } from "../../shell/rights";
import "../insights/insights.css";

export function DashboardsPage() {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const [isNew, setNew] = useState(false);
  const refusal = useRefusal("dashboard:write");
  const state = useListState();
  const boards = useList<DashboardBasics>("dashboards", `${api}/dashboards/`, state);
  const create = refusal ? (
    <span class="muted small">{refusal}</span>
  ) : (
    <Button kind="primary" onClick={() => setNew(true)}>
      {t("New dashboard")}
    </Button>
  );
  return (
    <Page title={t("Dashboards")} sub={boards.data ? tn(boards.data.count, "{n} dashboard", "{n} dashboards") : undefined} actions={create}>
      <List
        query={boards}
        state={state}
        search={t("Search by name or description")}
        empty={
          <Empty title={t("No dashboards yet")} action={!refusal && create}>
            {t("A dashboard shows several insights side by side, for the same period.")}
          </Empty>
        }
        columns={[t("Dashboard"), t("Changed"), ACTIONS]}
      >
        {(items) => items.map((each) => <Row key={each.id} board={each} />)}
      </List>
      {isNew && (
        <DetailsDialog
          title={t("New dashboard")}
          action={t("Create")}
          initial={{ name: "", description: "", tags: [] }}
          onSave={async (details) => {
            const made = await call<Dashboard>("POST", `${api}/dashboards/`, { body: details });
            void queryClient.invalidateQueries({ queryKey: ["dashboards"] });
            navigate(`${root}/dashboard/${made.id}`);
          }}
          onClose={() => setNew(false)}
        />
      )}
    </Page>
  );
}

function Row({ board }: { board: DashboardBasics }) {
  const { api, root } = useProject();
  const [isDeleting, setDeleting] = useState(false);
  const refusal = useRefusal("dashboard:write");
  const name = board.name || t("Dashboard {id}", { id: String(board.id) });
  const edit = useMutation({
    mutationFn: (body: object) => call("PATCH", `${api}/dashboards/${board.id}/`, { body }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["dashboards"] }),
    onError: notifyError,
  });
  const copy = useMutation({
    mutationFn: () => call("POST", `${api}/dashboards/`, { body: { name: t("{name} (copy)", { name }), use_dashboard: board.id } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["dashboards"] }),
    onError: notifyError,
  });
  const remove = () => edit.mutate({ deleted: true }, { onSuccess: () => notify(t("“{name}” is deleted.", { name }), "good", { label: t("Undo"), run: () => edit.mutate({ deleted: false }) }) });
  return (
    <tr>
      <NameCell to={`${root}/dashboard/${board.id}`} name={name} description={board.description} tags={board.tags}>
        {board.pinned && <span class="tag on">{t("Pinned")}</span>}
        {board.is_shared && <span class="tag info">{t("Shared by a link")}</span>}
      </NameCell>
      <td class="muted drop">
        <Ago at={board.last_modified_at} />
      </td>
      <td class="shrink end">
        <Menu
          trigger={<IconButton isSmall icon="more" label={t("Actions for {name}", { name })} />}
          entries={[
            { label: board.pinned ? t("Unpin") : t("Pin to the top"), isDisabled: !!refusal, onSelect: () => edit.mutate({ pinned: !board.pinned }) },
            { label: t("Make a copy"), isDisabled: !!refusal, onSelect: () => copy.mutate() },
            { label: t("Delete…"), isDangerous: true, isDisabled: !!refusal, onSelect: () => setDeleting(true) },
          ]}
        />
        <Confirm title={t("Delete “{name}”?", { name })} action={t("Delete the dashboard")} isDangerous isOpen={isDeleting} isBusy={edit.isPending} onConfirm={remove} onClose={() => setDeleting(false)}>
          <p>{t("Its insights stay in the list of insights. You can undo it.")}</p>
        </Confirm>
      </td>
    </tr>
  );
}
