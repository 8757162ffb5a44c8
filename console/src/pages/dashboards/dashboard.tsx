// One dashboard: its tiles, one period for all, results with their age, and a layout that is changed by drag and by keyboard.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "preact/hooks";
import { Link, useLocation, useParams } from "wouter-preact";
import { call, get, queryClient } from "../../api/client";
import type { Dashboard } from "../../api/types";
import { t } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, IconButton } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Page, Tabs } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { DetailsDialog, SharingDialog } from "../insights/details";
import { DateRange } from "../insights/editor/options";
import { useRefusal } from "../../shell/rights";
import { Subscriptions } from "../insights/notify/subscriptions";
import { AddInsight, TextDialog } from "./add";
import { type Place, pack, readPlaces } from "./layout";
import { Tiles } from "./tiles";
import "../insights/insights.css";
import "./dashboards.css";

const POLL_MS = 1000;
/** Load a dashboard. The first request lets old results be computed again, the others follow until all are there. */
function useDashboard(id: string, override: string) {
  const { api } = useProject();
  const path = `${api}/dashboards/${encodeURIComponent(id)}/`;
  const wanted = useRef("async");
  const key = ["dashboard", api, id, override];
  useEffect(() => {
    wanted.current = "async";
  }, [override]);
  const board = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => {
      const refresh = wanted.current;
      wanted.current = "force_cache";
      return get<Dashboard>(path, { refresh, filters_override: override }, signal);
    },
    refetchInterval: (query) => (query.state.data?.tiles.some((each) => each.insight?.query_status) ? POLL_MS : false),
    refetchOnWindowFocus: false,
    staleTime: 0,
  });
  const refresh = () => {
    wanted.current = "force_async";
    void board.refetch();
  };
  return { board, refresh, path, key };
}

type Open = "" | "details" | "sharing" | "insight" | "text" | "delete";

export function DashboardPage() {
  const { root } = useProject();
  const { dashboard: id } = useParams<{ dashboard: string }>();
  const [url, change] = useUrlState();
  const from = url.get("date_from");
  const to = url.get("date_to");
  const override = from ? JSON.stringify({ date_from: from, ...(to ? { date_to: to } : {}) }) : "";
  const { board, refresh, path, key } = useDashboard(id, override);
  const crumbs = [{ label: t("Dashboards"), to: `${root}/dashboard` }];
  if (!board.data)
    return (
      <Page title={t("Dashboard")} crumbs={crumbs}>
        <div class="panel">
          <Await query={board}>{() => null}</Await>
        </div>
      </Page>
    );
  return (
    <Loaded
      board={board.data}
      path={path}
      isFetching={board.isFetching}
      range={from ? { date_from: from, ...(to ? { date_to: to } : {}) } : null}
      onRange={(range) => change({ date_from: range?.date_from ?? null, date_to: range?.date_to ?? null })}
      onRefresh={refresh}
      onChanged={(changed) => {
        if (override) void board.refetch();
        else queryClient.setQueryData(key, changed);
      }}
    />
  );
}

interface Props {
  board: Dashboard;
  path: string;
  isFetching: boolean;
  range: { date_from: string; date_to?: string } | null;
  onRange: (range: { date_from: string; date_to?: string } | null) => void;
  onRefresh: () => void;
  onChanged: (board: Dashboard) => void;
}

function Loaded({ board, path, isFetching, range, onRange, onRefresh, onChanged }: Props) {
  const { root } = useProject();
  const [url] = useUrlState();
  const [here, navigate] = useLocation();
  const [open, setOpen] = useState<Open>("");
  const [places, setPlaces] = useState<Place[] | null>(null);
  const name = board.name || t("Dashboard {id}", { id: String(board.id) });
  const tab = url.get("tab") ?? "tiles";
  const refusal = useRefusal("dashboard:write");
  const edit = useMutation({ mutationFn: (body: object) => call<Dashboard>("PATCH", path, { body }), onSuccess: onChanged, onError: notifyError });
  const saveLayout = () => {
    if (!places) return;
    const tiles = pack(places).map(({ id, x, y, w, h }) => {
      const tile = board.tiles.find((each) => each.id === id);
      const { sm: _, ...others } = tile?.layouts ?? {};
      return { id, layouts: { ...others, sm: { x, y, w, h } } };
    });
    edit.mutate({ tiles }, { onSuccess: () => { setPlaces(null); notify(t("The layout is saved.")); } });
  };
  const removeTile = (id: number) => edit.mutate({ tiles: [{ id, deleted: true }] }, { onSuccess: () => notify(t("The tile is removed. Its insight stays in the list.")) });
  const remove = () =>
    edit.mutate({ deleted: true }, { onSuccess: () => { void queryClient.invalidateQueries({ queryKey: ["dashboards"] }); notify(t("“{name}” is deleted.", { name }), "good", { label: t("Undo"), run: () => void call("PATCH", path, { body: { deleted: false } }).then(() => queryClient.invalidateQueries({ queryKey: ["dashboards"] })) }); navigate(`${root}/dashboard`); } });
  const stored = board.persisted_filters as { date_from?: string; date_to?: string } | null;
  return (
    <Page
      title={name}
      crumbs={[{ label: t("Dashboards"), to: `${root}/dashboard` }]}
      sub={board.description && <Value value={board.description} maxChars={300} />}
      actions={
        places ? (
          <>
            <Button onClick={() => setPlaces(null)}>{t("Cancel")}</Button>
            <Button kind="primary" disabled={edit.isPending} onClick={saveLayout}>
              {t("Save the layout")}
            </Button>
          </>
        ) : (
          <>
            <Menu
              trigger={<IconButton icon="more" label={t("More actions")} />}
              entries={[
                { label: t("Name, description, tags…"), isDisabled: !!refusal, onSelect: () => setOpen("details") },
                { label: t("Share by a link…"), onSelect: () => setOpen("sharing") },
                { label: board.pinned ? t("Unpin") : t("Pin to the top"), isDisabled: !!refusal, onSelect: () => edit.mutate({ pinned: !board.pinned }) },
                { label: t("Add a text"), isDisabled: !!refusal, onSelect: () => setOpen("text") },
                { label: t("Delete…"), isDangerous: true, isDisabled: !!refusal, onSelect: () => setOpen("delete") },
              ]}
            />
            {board.tiles.length > 1 && <Button disabled={!!refusal} title={refusal} onClick={() => setPlaces(readPlaces(board.tiles))}>{t("Edit the layout")}</Button>}
            <Button kind="primary" icon="plus" disabled={!!refusal} title={refusal} onClick={() => setOpen("insight")}>
              {t("Add an insight")}
            </Button>
          </>
        )
      }
    >
      <Tabs
        label={t("Parts of the dashboard")}
        current={tab}
        tabs={[
          { name: "tiles", label: t("Tiles"), to: here },
          { name: "subscriptions", label: t("Subscriptions"), to: buildUrl(here, { tab: "subscriptions" }) },
        ]}
      />
      {tab === "subscriptions" ? (
        <Subscriptions target={{ dashboard: board.id }} />
      ) : (
        <>
          <div class="row spread">
            <div class="row">
              <PeriodChoice range={range} stored={stored} onRange={onRange} />
              {range && (
                <Button isSmall disabled={edit.isPending || !!refusal} title={refusal} onClick={() => edit.mutate({ filters: { ...(board.persisted_filters ?? {}), date_from: range.date_from, date_to: range.date_to } }, { onSuccess: () => { onRange(null); notify(t("The period is saved for everyone.")); } })}>
                  {t("Save this period")}
                </Button>
              )}
            </div>
            <Freshness board={board} isFetching={isFetching} onRefresh={onRefresh} />
          </div>
          {board.tiles.length ? (
            <Tiles board={board} places={places} onPlaces={setPlaces} onRemove={removeTile} onText={(id, body) => edit.mutateAsync({ tiles: [{ id, text: { body } }] })} />
          ) : (
            <div class="panel">
              <Empty title={t("No tiles yet")} action={<><Button kind="primary" disabled={!!refusal} title={refusal} onClick={() => setOpen("insight")}>{t("Add an insight")}</Button><Link class="button" href={`${root}/insights/new`}>{t("New insight")}</Link></>}>
                {t("Add insights that you have saved, or texts that explain them.")}
              </Empty>
            </div>
          )}
        </>
      )}
      {open === "details" && <DetailsDialog title={t("Describe the dashboard")} action={t("Save")} initial={{ name, description: board.description, tags: [...board.tags] }} onSave={async (details) => onChanged(await call<Dashboard>("PATCH", path, { body: details }))} onClose={() => setOpen("")} />}
      {open === "sharing" && <SharingDialog title={t("Share this dashboard")} path={`${path}sharing/`} onClose={() => setOpen("")} />}
      {open === "insight" && <AddInsight board={board} path={path} onChanged={onChanged} onClose={() => setOpen("")} />}
      {open === "text" && <TextDialog title={t("Add a text")} initial="" onSave={async (body) => onChanged(await call<Dashboard>("PATCH", path, { body: { tiles: [{ text: { body } }] } }))} onClose={() => setOpen("")} />}
      <Confirm title={t("Delete “{name}”?", { name })} action={t("Delete the dashboard")} isDangerous isOpen={open === "delete"} isBusy={edit.isPending} onConfirm={remove} onClose={() => setOpen("")}>
        <p>{t("{n} tiles are removed. The insights stay in the list of insights. You can undo it.", { n: board.tiles.length })}</p>
      </Confirm>
    </Page>
  );
}

/** One period for all tiles, or the one of each insight. */
function PeriodChoice({ range, stored, onRange }: { range: Props["range"]; stored: { date_from?: string; date_to?: string } | null; onRange: Props["onRange"] }) {
  const isAll = !!range || !!stored?.date_from;
  return (
    <>
      <label class="check">
        <input type="checkbox" checked={isAll} disabled={!!stored?.date_from && !range} onChange={(event) => onRange(event.currentTarget.checked ? { date_from: "-30d" } : null)} />
        {t("One period for all tiles")}
      </label>
      {isAll && <DateRange label={t("Period of all tiles")} value={range ?? stored ?? {}} onChange={onRange} />}
    </>
  );
}

/** How old the results are, and how many of them are still computed. */
function Freshness({ board, isFetching, onRefresh }: { board: Dashboard; isFetching: boolean; onRefresh: () => void }) {
  const insights = board.tiles.filter((each) => each.insight);
  const running = insights.filter((each) => each.insight?.query_status).length;
  const started = useRef(0);
  if (running > started.current) started.current = running;
  if (!running) started.current = 0;
  const done = started.current - running;
  return (
    <div class="row tight">
      <span class="small muted" role="status">
        {running ? (
          <>
            {t("Refreshing {done} of {all}", { done, all: started.current })} <progress max={started.current} value={done} aria-label={t("Refreshed tiles")} />
          </>
        ) : board.last_refresh ? (
          <>
            {t("Oldest result")} <Ago at={board.last_refresh} />
          </>
        ) : null}
      </span>
      <Button isSmall icon="refresh" disabled={!!running || isFetching || !insights.length} onClick={onRefresh}>
        {t("Refresh")}
      </Button>
    </div>
  );
}
