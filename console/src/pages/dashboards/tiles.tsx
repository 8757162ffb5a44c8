// The tiles of a dashboard. While the layout is edited, a tile moves by its grip, by its buttons, or with Alt and the arrow keys.
import { useEffect, useRef, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { Dashboard, Tile } from "../../api/types";
import { saveCsv, saveFromApi, toFileName } from "../../lib/download";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { IconButton } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Icon } from "../../ui/icons";
import { Menu } from "../../ui/menu";
import { Ago, Value } from "../../ui/show";
import { Empty, Loading } from "../../ui/states";
import { nameInsight, unwrap } from "../insights/query";
import { InsightResult } from "../insights/results/result";
import { toTable } from "../insights/results/results";
import { useRefusal } from "../../shell/rights";
import { toCsv } from "../query-text";
import { TextDialog } from "./add";
import { moveTile, pack, type Place, readPlaces, resize } from "./layout";

// As in dashboards.css: the rows of the grid, and what a tile needs around its chart.
export const ROW_PX = 76;
export const GAP_PX = 12;
export const FRAME_PX = 122;

interface Props {
  board: Dashboard;
  /** The layout while it is edited, null otherwise. */
  places: Place[] | null;
  onPlaces: (places: Place[]) => void;
  onRemove: (id: number) => void;
  onText: (id: number, body: string) => Promise<unknown>;
}

const nameOf = (tile: Tile): string => (tile.insight ? nameInsight(tile.insight) : t("Text"));

export function Tiles({ board, places, onPlaces, onRemove, onText }: Props) {
  const [dragged, setDragged] = useState<number | null>(null);
  const [over, setOver] = useState<number | null>(null);
  const [said, setSaid] = useState("");
  const focused = useRef<number | null>(null);
  const shown = pack(places ?? readPlaces(board.tiles));
  useEffect(() => {
    if (focused.current !== null) document.getElementById(`tile-${focused.current}`)?.focus();
    focused.current = null;
  });
  const move = (from: number, to: number) => {
    if (!places) return;
    const moved = moveTile(places, from, to);
    if (moved === places) return;
    focused.current = places[from]!.id;
    setSaid(t("Tile {from} is now tile {to} of {all}.", { from: from + 1, to: to + 1, all: places.length }));
    onPlaces(moved);
  };
  const change = (index: number, wider: number, higher: number) => {
    if (!places) return;
    const next = resize(places[index]!, wider, higher);
    setSaid(t("{w} of 12 columns wide, {h} rows high.", { w: next.w, h: next.h }));
    onPlaces(places.map((each, place) => (place === index ? next : each)));
  };
  const press = (event: KeyboardEvent, index: number) => {
    const steps: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = steps[event.key];
    if (!places || !event.altKey || !step) return;
    event.preventDefault();
    if (event.shiftKey) change(index, step[0], step[1]);
    else move(index, index + step[0] + step[1]);
  };
  return (
    <>
      <span class="hidden-text" role="status">
        {said}
      </span>
      {places && <p class="muted small">{t("Drag a tile by its grip. Or focus it: Alt and arrows move it, Alt Shift and arrows change its size.")}</p>}
      <div class="tiles">
        {shown.map((place, index) => {
          const tile = board.tiles.find((each) => each.id === place.id);
          if (!tile) return null;
          const name = nameOf(tile);
          return (
            <section
              key={tile.id}
              id={`tile-${tile.id}`}
              class={`panel tile ${tile.text ? "text" : ""} ${dragged === tile.id ? "dragged" : ""} ${over === tile.id && dragged !== tile.id ? "over" : ""}`}
              style={{ gridColumn: `${place.x + 1} / span ${place.w}`, gridRow: `${place.y + 1} / span ${place.h}` }}
              aria-label={name}
              tabIndex={places ? 0 : undefined}
              onKeyDown={(event) => press(event, index)}
              onDragOver={(event) => {
                if (dragged === null) return;
                event.preventDefault();
                setOver(tile.id);
              }}
              onDrop={(event) => {
                event.preventDefault();
                const from = shown.findIndex((each) => each.id === dragged);
                setDragged(null);
                setOver(null);
                if (from >= 0) move(from, index);
              }}
            >
              <header>
                {places && (
                  <span
                    class="grip"
                    draggable
                    title={t("Drag to move")}
                    onDragStart={(event) => {
                      event.dataTransfer?.setData("text/plain", String(tile.id));
                      setDragged(tile.id);
                    }}
                    onDragEnd={() => {
                      setDragged(null);
                      setOver(null);
                    }}
                  >
                    <Icon name="grip" />
                  </span>
                )}
                {places ? (
                  <>
                    <h2 class="grow cut">{name}</h2>
                    <IconButton isSmall icon="up" label={t("Move {name} earlier", { name })} disabled={index === 0} onClick={() => move(index, index - 1)} />
                    <IconButton isSmall icon="down" label={t("Move {name} later", { name })} disabled={index === shown.length - 1} onClick={() => move(index, index + 1)} />
                    <button type="button" class="button quiet small" aria-label={t("Make {name} narrower", { name })} title={t("Narrower")} onClick={() => change(index, -1, 0)}>
                      ⇤
                    </button>
                    <button type="button" class="button quiet small" aria-label={t("Make {name} wider", { name })} title={t("Wider")} onClick={() => change(index, 1, 0)}>
                      ⇥
                    </button>
                  </>
                ) : (
                  <TileHead tile={tile} name={name} onRemove={onRemove} onText={onText} />
                )}
              </header>
              <TileBody tile={tile} name={name} height={place.h * ROW_PX + (place.h - 1) * GAP_PX - FRAME_PX} />
            </section>
          );
        })}
      </div>
    </>
  );
}

function TileHead({ tile, name, onRemove, onText }: { tile: Tile; name: string; onRemove: Props["onRemove"]; onText: Props["onText"] }) {
  const { api, root } = useProject();
  const [isRemoving, setRemoving] = useState(false);
  const [isEdited, setEdited] = useState(false);
  const refusal = useRefusal("dashboard:write");
  const { insight } = tile;
  const csv = () => {
    if (!insight) return;
    const { columns, rows } = toTable(unwrap(insight.query), insight.result, [...(insight.columns ?? [])]);
    saveCsv(toCsv(columns, rows), name);
  };
  return (
    <>
      {insight ? (
        <h2 class="grow cut">
          <Link href={`${root}/insights/${insight.short_id}`} class="name">
            <Value value={name} maxChars={100} />
          </Link>
        </h2>
      ) : (
        <h2 class="grow hidden-text">{name}</h2>
      )}
      <Menu
        trigger={<IconButton isSmall icon="more" label={t("Actions for {name}", { name })} />}
        entries={[
          ...(insight
            ? [
                { label: t("Download CSV"), isDisabled: !insight.result, onSelect: csv },
                { label: t("Download PNG"), onSelect: () => void saveFromApi(`${api}/insights/${insight.id}/chart.png/`, `${toFileName(name)}.png`) },
              ]
            : [{ label: t("Edit the text…"), isDisabled: !!refusal, onSelect: () => setEdited(true) }]),
          { label: t("Remove from the dashboard…"), isDangerous: true, isDisabled: !!refusal, onSelect: () => setRemoving(true) },
        ]}
      />
      <Confirm title={t("Remove this tile?")} action={t("Remove the tile")} isDangerous isOpen={isRemoving} onConfirm={() => { setRemoving(false); onRemove(tile.id); }} onClose={() => setRemoving(false)}>
        <p>{insight ? t("The insight “{name}” stays in the list of insights.", { name }) : t("The text is deleted.")}</p>
      </Confirm>
      {isEdited && <TextDialog title={t("Edit the text")} initial={tile.text?.body ?? ""} onSave={(body) => onText(tile.id, body)} onClose={() => setEdited(false)} />}
    </>
  );
}

function TileBody({ tile, name, height }: { tile: Tile; name: string; height: number }) {
  const [asTable, setTable] = useState(false);
  const { insight } = tile;
  if (!insight)
    return (
      <div class="tile-body prose">
        <Value value={tile.text?.body ?? ""} maxChars={4000} />
      </div>
    );
  const source = unwrap(insight.query);
  const isTable = source.kind === "HogQLQuery" || source.trendsFilter?.display === "ActionsTable" || source.kind === "RetentionQuery";
  return (
    <>
      <div class="tile-body">
        {insight.error && (
          <p class={`notice ${insight.result ? "warn" : "bad"}`} role="alert">
            {insight.result ? t("This result is old: {detail}", { detail: insight.error.detail }) : insight.error.detail}
          </p>
        )}
        {insight.result ? (
          <InsightResult label={name} source={source} results={insight.result} columns={[...(insight.columns ?? [])]} height={Math.max(120, height)} asTable={asTable} />
        ) : insight.query_status ? (
          <Loading rows={4} />
        ) : insight.error ? null : (
          <Empty title={t("Not computed yet")}>{t("Refresh the dashboard to compute it.")}</Empty>
        )}
      </div>
      <footer>
        <span class="small muted">
          {insight.query_status ? t("Computing…") : insight.last_refresh ? <Ago at={insight.last_refresh} /> : null}
          {insight.is_stale && !insight.query_status && ` · ${t("newer data exists")}`}
        </span>
        {!isTable && (
          <button type="button" class="link small" aria-pressed={asTable} onClick={() => setTable(!asTable)}>
            {asTable ? t("Chart") : t("Table")}
          </button>
        )}
      </footer>
    </>
  );
}
