// The list of dashboards: pinned ones first, searched and paged by the service.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { ApiError, call, get, queryClient } from "../../api/client";
import type { Dashboard, DashboardBasics, Page as PageOf } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, IconButton, SearchInput } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Page, Pager } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { DetailsDialog } from "../insights/details";
import { useRefusal } from "../insights/rights";
import "../insights/insights.css";

const LIMIT = 50;

export function DashboardsPage() {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const [isNew, setNew] = useState(false);
  const refusal = useRefusal("dashboard:write");
  const search = useSettled(text.trim());
  const offset = Number(url.get("offset")) || 0;
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const boards = useQuery({
    queryKey: ["dashboards", api, search, offset],
    queryFn: ({ signal }) => get<PageOf<DashboardBasics>>(`${api}/dashboards/`, { search, offset: offset || null, limit: LIMIT }, signal),
    placeholderData: keepPreviousData,
  });
  const create = (
    <Button kind="primary" disabled={!!refusal} title={refusal} onClick={() => setNew(true)}>
      {t("New dashboard")}
    </Button>
  );
  return (
    <Page title={t("Dashboards")} sub={boards.data ? tn(boards.data.count, "{n} dashboard", "{n} dashboards") : undefined} actions={create}>
      <div class="row">
        <SearchInput label={t("Search by name or description")} value={text} onInput={setText} />
      </div>
      <div class="panel flush" aria-busy={boards.isFetching}>
        <Await query={boards}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col">{t("Dashboard")}</th>
                      <th scope="col">{t("Changed")}</th>
                      <th scope="col" class="shrink">
                        <span class="hidden-text">{t("Actions")}</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((each) => (
                      <Row key={each.id} board={each} />
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : search ? (
              <NoMatch onClear={() => setText("")} />
            ) : (
              <Empty title={t("No dashboards yet")} action={create}>
                {t("A dashboard shows several insights side by side, for the same period.")}
              </Empty>
            )
          }
        </Await>
      </div>
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
    onError: (error) => notify(error instanceof ApiError ? error.detail : String(error), "bad"),
  });
  const copy = useMutation({
    mutationFn: () => call("POST", `${api}/dashboards/`, { body: { name: t("{name} (copy)", { name }), use_dashboard: board.id } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["dashboards"] }),
    onError: (error) => notify(error instanceof ApiError ? error.detail : String(error), "bad"),
  });
  const remove = () => edit.mutate({ deleted: true }, { onSuccess: () => notify(t("“{name}” is deleted.", { name }), "good", { label: t("Undo"), run: () => edit.mutate({ deleted: false }) }) });
  return (
    <tr>
      <td class="first">
        <div class="row">
          <Link href={`${root}/dashboard/${board.id}`} class="name">
            <Value value={name} maxChars={120} />
          </Link>
          {board.pinned && <span class="tag on">{t("Pinned")}</span>}
          {board.is_shared && <span class="tag info">{t("Shared by a link")}</span>}
          {board.tags.slice(0, 5).map((tag) => (
            <span class="tag" key={tag}>
              <Value value={tag} maxChars={30} />
            </span>
          ))}
        </div>
        {board.description && (
          <div class="muted small">
            <Value value={board.description} maxChars={140} />
          </div>
        )}
      </td>
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
