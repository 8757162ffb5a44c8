// Colors of series, which differ in lightness too, and dashes beyond them, so that no one depends on hue.
import { useEffect, useState } from "preact/hooks";

export const COLORS = 8;
const DASHES: number[][] = [[], [7, 4], [2, 3], [10, 4, 2, 4]];

export const colorName = (index: number): string => `--chart-${(index % COLORS) + 1}`;
export const colorOf = (index: number): string => `var(${colorName(index)})`;
/** Series beyond the eighth have the colors again, with another dash. */
export const dashOf = (index: number): number[] => DASHES[Math.floor(index / COLORS) % DASHES.length]!;

/** Return the value of a color, for a canvas. */
export const readColor = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Follow the theme, so that a canvas is drawn again. */
export function useThemeName(): string {
  const read = () => document.documentElement.dataset.theme ?? "light";
  const [theme, setTheme] = useState(read);
  useEffect(() => {
    const observer = new MutationObserver(() => setTheme(read()));
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => observer.disconnect();
  }, []);
  return theme;
}
