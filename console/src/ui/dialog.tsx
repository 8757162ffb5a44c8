import * as Radix from "@radix-ui/react-dialog";
import type { ComponentChildren } from "preact";
import { t } from "../lib/text";
import { Button } from "./controls";

interface Props {
  title: string;
  description?: string;
  isOpen: boolean;
  onClose: () => void;
  children: ComponentChildren;
  footer?: ComponentChildren;
  isWide?: boolean;
  className?: string;
  hidesTitle?: boolean;
}

/** A dialog that keeps the focus and gives it back. */
export function Dialog({ title, description, isOpen, onClose, children, footer, isWide, className, hidesTitle }: Props) {
  // A table has one in each row.
  if (!isOpen) return null;
  return (
    <Radix.Root open={isOpen} onOpenChange={(open: boolean) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="scrim" />
        <Radix.Content
          className={`dialog ${isWide ? "wide" : ""} ${className ?? ""}`}
          {...(description ? {} : { "aria-describedby": undefined })}
        >
          <header class={hidesTitle ? "hidden-text" : ""}>
            <Radix.Title asChild>
              <h2>{title}</h2>
            </Radix.Title>
            {description && (
              <Radix.Description asChild>
                <p class="muted">{description}</p>
              </Radix.Description>
            )}
          </header>
          {children}
          {footer && <footer>{footer}</footer>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** Ask before something happens. `children` say what it does, in numbers. */
export function Confirm(props: {
  title: string;
  isOpen: boolean;
  action: string;
  /** The way out, if "Cancel" could mean the action. */
  dismissal?: string;
  isDangerous?: boolean;
  isBusy?: boolean;
  onConfirm: () => void;
  onClose: () => void;
  children: ComponentChildren;
}) {
  return (
    <Dialog
      title={props.title}
      isOpen={props.isOpen}
      onClose={props.onClose}
      footer={
        <>
          <Button onClick={props.onClose}>{props.dismissal ?? t("Cancel")}</Button>
          <Button kind={props.isDangerous ? "danger" : "primary"} disabled={props.isBusy} onClick={props.onConfirm}>
            {props.action}
          </Button>
        </>
      }
    >
      <div class="body stack">{props.children}</div>
    </Dialog>
  );
}
