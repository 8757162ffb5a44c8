// Short messages in a corner.
import { explain } from "../api/errors";
import { signal, useSignal } from "../api/signal";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad";
  action?: { label: string; run: () => void };
}

const SHOWN_MS = 6000;
const toasts = signal<Toast[]>([]);
let last = 0;

/** Tell the outcome of an action, in a corner and to screen readers. */
export function notify(text: string, tone: Toast["tone"] = "good", action?: Toast["action"]): void {
  const id = ++last;
  toasts.set([...toasts.get(), { id, text, tone, ...(action ? { action } : {}) }].slice(-4));
  setTimeout(() => close(id), action ? SHOWN_MS * 2 : SHOWN_MS);
}

/** Say why an action failed. */
export const notifyError = (error: unknown): void => notify(explain(error), "bad");

const close = (id: number) => toasts.set(toasts.get().filter((each) => each.id !== id));

export function Toasts() {
  const shown = useSignal(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((each) => (
        <div key={each.id} class={`toast ${each.tone === "bad" ? "bad" : ""}`}>
          <span class="grow">{each.text}</span>
          {each.action && (
            <button
              class="button small"
              type="button"
              onClick={() => {
                each.action?.run();
                close(each.id);
              }}
            >
              {each.action.label}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
