import * as Radix from "@radix-ui/react-dropdown-menu";
import type { ComponentChildren } from "preact";

export interface MenuEntry {
  label: string;
  onSelect: () => void;
  isDangerous?: boolean;
  isDisabled?: boolean;
  isChosen?: boolean;
}

/** A menu on a button, which is the only child. */
export function Menu({ trigger, entries, align = "end" }: { trigger: ComponentChildren; entries: MenuEntry[]; align?: "start" | "end" }) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger asChild>{trigger as never}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content className="menu" align={align} sideOffset={4}>
          {entries.map((entry) => (
            <Radix.Item
              key={entry.label}
              className={entry.isDangerous ? "danger" : ""}
              disabled={entry.isDisabled ?? false}
              onSelect={entry.onSelect}
            >
              {entry.label}
              {entry.isChosen && " ✓"}
            </Radix.Item>
          ))}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
