import * as Radix from "@radix-ui/react-dropdown-menu";
import type { JSX, VNode } from "preact";
import { cloneElement } from "preact/compat";
import { useEffect, useState } from "preact/hooks";

export interface MenuEntry {
  label: string;
  onSelect: () => void;
  isDangerous?: boolean;
  isDisabled?: boolean;
  isChosen?: boolean;
}

interface Props {
  trigger: VNode;
  entries: MenuEntry[];
  align?: "start" | "end";
}

/** A menu on a button, which is the only child. A table has one in each row, so that a menu is built when it is first used. */
export function Menu(props: Props) {
  const [isUsed, setUsed] = useState(false);
  if (isUsed) return <UsedMenu {...props} />;
  const opening: JSX.HTMLAttributes<HTMLButtonElement> = {
    "aria-haspopup": "menu",
    "aria-expanded": false,
    onClick: () => setUsed(true),
    onKeyDown: (event) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      setUsed(true);
    },
  };
  return cloneElement(props.trigger, opening);
}

function UsedMenu({ trigger, entries, align = "end" }: Props) {
  const [isOpen, setOpen] = useState(false);
  // The place of the menu is that of its button, which must be in the page first.
  useEffect(() => setOpen(true), []);
  return (
    <Radix.Root modal={false} open={isOpen} onOpenChange={setOpen}>
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
