// Where the tiles of a dashboard are: an order and sizes, packed into rows of twelve columns. Pure.
import type { Tile } from "../../api/types";

export const COLUMNS = 12;
export const WIDTHS = [3, 4, 6, 8, 12];
export const MIN_HEIGHT = 1;
export const MAX_HEIGHT = 12;

export interface Place {
  id: number;
  w: number;
  h: number;
}
export interface Placed extends Place {
  x: number;
  y: number;
}

const read = (tile: Tile): Partial<Placed> => {
  const found = tile.layouts.sm;
  return (typeof found === "object" && found ? found : {}) as Partial<Placed>;
};
const whole = (value: unknown, min: number, max: number, otherwise: number): number =>
  typeof value === "number" && Number.isFinite(value) ? Math.min(max, Math.max(min, Math.round(value))) : otherwise;

/** Return the tiles in the order in which people read them, with their sizes. Tiles without a place come last. */
export function readPlaces(tiles: Tile[]): Place[] {
  const rank = (tile: Tile) => {
    const { x, y } = read(tile);
    return typeof y === "number" ? y * 1000 + (x ?? 0) : 1e9 + tile.order;
  };
  return [...tiles]
    .sort((a, b) => rank(a) - rank(b))
    .map((tile) => ({ id: tile.id, w: whole(read(tile).w, 2, COLUMNS, 6), h: whole(read(tile).h, MIN_HEIGHT, MAX_HEIGHT, tile.text ? 1 : 5) }));
}

/** Place the tiles in rows. A row is as high as its highest tile. */
export function pack(places: Place[]): Placed[] {
  let [x, y, height] = [0, 0, 0];
  return places.map((place) => {
    if (x + place.w > COLUMNS) [x, y, height] = [0, y + height, 0];
    const placed = { ...place, x, y };
    x += place.w;
    height = Math.max(height, place.h);
    return placed;
  });
}

export function moveTile(places: Place[], from: number, to: number): Place[] {
  if (from === to || from < 0 || to < 0 || from >= places.length || to >= places.length) return places;
  const moved = [...places];
  const [tile] = moved.splice(from, 1);
  moved.splice(to, 0, tile!);
  return moved;
}

/** Return the next size of a tile in one direction. */
export function resize(place: Place, wider: number, higher: number): Place {
  const index = WIDTHS.findIndex((each) => each >= place.w);
  const next = WIDTHS[Math.min(WIDTHS.length - 1, Math.max(0, (index < 0 ? WIDTHS.length - 1 : index) + wider))]!;
  return { ...place, w: wider ? next : place.w, h: whole(place.h + higher, MIN_HEIGHT, MAX_HEIGHT, place.h) };
}
