// Keyboard shortcuts: single keys and two keys in a row. They are off while someone types.
import { useEffect, useRef } from "preact/hooks";

const SEQUENCE_MS = 900;
/** The keys that open the palette, as this machine names them. */
export const PALETTE_KEY = /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? "") ? "⌘K" : "Ctrl K";

export type Shortcuts = Record<string, () => void>;

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.("input, textarea, select, [contenteditable=true]");
}

/** Call a function when its keys are pressed: "?", "g f" or "mod+k" (Ctrl or Cmd). */
export function useShortcuts(shortcuts: Shortcuts): void {
  const current = useRef(shortcuts);
  current.current = shortcuts;
  useEffect(() => {
    let first = "";
    let at = 0;
    const listen = (event: KeyboardEvent) => {
      const isModified = event.ctrlKey || event.metaKey;
      if (event.altKey || event.isComposing) return;
      if (!isModified && (isTyping(event.target) || document.querySelector("[role=dialog]"))) return;
      const key = isModified ? `mod+${event.key.toLowerCase()}` : event.key;
      const sequence = Date.now() - at < SEQUENCE_MS ? `${first} ${key}` : key;
      const found = current.current[sequence] ?? current.current[key];
      first = found ? "" : key;
      at = Date.now();
      if (!found) return;
      event.preventDefault();
      found();
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}
