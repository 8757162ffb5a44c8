// What a shared link shows: an insight or a dashboard with its kept results, without a login.
import { useQuery } from "@tanstack/react-query";
import { ApiError, get } from "../../api/client";
import type { Tile } from "../../api/types";
import { t } from "../../lib/text";
import { Logo } from "../../ui/icons";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { nameInsight, unwrap } from "../insights/query";
import { InsightResult, Twin } from "../insights/results/result";
import { toTable } from "../insights/results/results";
import { pack, readPlaces } from "./layout";
import { FRAME_PX, GAP_PX, ROW_PX } from "./tiles";
import "../insights/insights.css";
import "./dashboards.css";

interface SharedInsight {
  name: string;
  derived_name: string | null;
  description: string;
  query: Record<string, unknown>;
  result: unknown;
  last_refresh: string | null;
  is_stale: boolean;
  columns: string[] | null;
}
interface Shared {
  insight: SharedInsight | null;
  dashboard: { name: string; description: string; tiles: { layouts: Record<string, unknown>; insight: SharedInsight | null; text: { body: string } | null }[] } | null;
}

export function SharedPage() {
  const token = location.pathname.split("/")[2] ?? "";
  const shared = useQuery({ queryKey: ["shared", token], queryFn: () => get<Shared>(`/shared/${encodeURIComponent(token)}.json`), refetchOnWindowFocus: false, refetchInterval: 60_000 });
  const item = shared.data?.dashboard ?? shared.data?.insight;
  return (
    <Page
      title={item?.name || t("Shared")}
      sub={item?.description && <Value value={item.description} maxChars={500} />}
      actions={
        <span class="row tight muted small">
          <span class="shared-logo">
            <Logo />
          </span>
          {t("Shared from Hedgerow")}
        </span>
      }
    >
      {!shared.data && shared.error instanceof ApiError && shared.error.status === 404 ? (
        <Empty title={t("This link does not work anymore")}>{t("It was turned off or replaced. Ask for a new one where you got it.")}</Empty>
      ) : (
        <Await query={shared}>{(found) => (found.dashboard ? <Tiles tiles={found.dashboard.tiles} /> : found.insight ? <Single insight={found.insight} /> : <Empty title={t("Nothing is shared here")} />)}</Await>
      )}
    </Page>
  );
}


function Single({ insight }: { insight: SharedInsight }) {
  const source = unwrap(insight.query);
  return (
    <>
      <section class="panel" aria-label={nameInsight(insight)}>
        <div class="body">
          <Result insight={insight} height={360} />
        </div>
      </section>
      {!!insight.result && (
        <section class="panel flush" aria-label={t("The same figures as a table")}>
          <Twin table={toTable(source, insight.result, insight.columns ?? [])} label={nameInsight(insight)} />
        </section>
      )}
    </>
  );
}

function Result({ insight, height }: { insight: SharedInsight; height: number }) {
  if (!insight.result) return <Empty title={t("Not computed yet")}>{t("Open the link again in a minute.")}</Empty>;
  return <InsightResult label={nameInsight(insight)} source={unwrap(insight.query)} results={insight.result} columns={insight.columns} height={height} isAnonymous />;
}

function Tiles({ tiles }: { tiles: NonNullable<Shared["dashboard"]>["tiles"] }) {
  const places = pack(readPlaces(tiles.map((tile, order) => ({ ...tile, id: order, order }) as unknown as Tile)));
  return (
    <div class="tiles">
      {places.map((place) => {
        const tile = tiles[place.id]!;
        const style = { gridColumn: `${place.x + 1} / span ${place.w}`, gridRow: `${place.y + 1} / span ${place.h}` };
        if (!tile.insight)
          return (
            <section key={place.id} class="panel tile text" style={style} aria-label={t("Text")}>
              <div class="tile-body prose">
                <Value value={tile.text?.body ?? ""} maxChars={4000} />
              </div>
            </section>
          );
        const name = nameInsight(tile.insight);
        return (
          <section key={place.id} class="panel tile" style={style} aria-label={name}>
            <header>
              <h2 class="grow cut">
                <Value value={name} maxChars={100} />
              </h2>
            </header>
            <div class="tile-body">
              <Result insight={tile.insight} height={Math.max(120, place.h * ROW_PX + (place.h - 1) * GAP_PX - FRAME_PX)} />
            </div>
            <footer>
              <span class="small muted">{tile.insight.last_refresh && <Ago at={tile.insight.last_refresh} />}</span>
            </footer>
          </section>
        );
      })}
    </div>
  );
}
