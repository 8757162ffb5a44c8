// Where the focus goes when a page changes under it.
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Return a ref for a list whose rows come before its button to add one: the row that the button adds gets the focus. */
export function useFocusAdded<T extends HTMLElement>(count: number): RefObject<T> {
  const list = useRef<T>(null);
  const before = useRef(count);
  useEffect(() => {
    const isAdded = count > before.current;
    before.current = count;
    const holder = [...(list.current?.children ?? [])].find((each) => each.contains(document.activeElement));
    const row = holder?.previousElementSibling;
    if (isAdded) (row?.querySelector<HTMLElement>("input[role=combobox]") ?? row?.querySelector<HTMLElement>("input, select"))?.focus();
  }, [count]);
  return list;
}
