// Forms: texts with their errors, what the service refused, and the bar that saves.
import type { ComponentChildren } from "preact";
import { ApiError } from "../api/client";
import { t } from "../lib/text";
import { Button, Field } from "./controls";

/** Return what the service says about a field, such as `name` or `questions[1].choices`. */
export function findError(error: unknown, ...names: string[]): string | undefined {
  if (!(error instanceof ApiError) || error.attr === null) return undefined;
  const { attr } = error;
  return names.some((name) => attr === name || attr.startsWith(`${name}.`) || attr.startsWith(`${name}[`)) ? error.detail : undefined;
}

export function explain(error: unknown): string {
  return error instanceof ApiError ? error.detail : String(error);
}

/** A refusal that does not belong to one of the shown fields. */
export function Refusal({ error, shown = [] }: { error: unknown; shown?: string[] }) {
  if (!error || findError(error, ...shown)) return null;
  const known = error instanceof ApiError ? error : null;
  return (
    <p class="notice bad" role="alert">
      {known?.attr && <code>{known.attr} </code>}
      {explain(error)}
      {known?.requestId && ` (${t("request id")} ${known.requestId})`}
    </p>
  );
}

interface TextProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
  hint?: ComponentChildren;
  error?: string | undefined;
  isCode?: boolean;
  isLong?: boolean;
  isRequired?: boolean;
  disabled?: boolean;
  placeholder?: string;
  type?: "text" | "number" | "url" | "color";
}

export function TextField(props: TextProps) {
  const { value, onInput, isCode, isLong, isRequired, disabled, placeholder } = props;
  const common = { value, disabled, placeholder, required: isRequired, spellcheck: !isCode, autocomplete: "off" };
  return (
    <Field label={props.label} hint={props.hint} error={props.error}>
      {(attributes) =>
        isLong ? (
          <textarea {...attributes} {...common} class={`input ${isCode ? "code" : ""}`} onInput={(event) => onInput(event.currentTarget.value)} />
        ) : (
          <input {...attributes} {...common} type={props.type ?? "text"} class={`input ${isCode ? "mono" : ""}`} onInput={(event) => onInput(event.currentTarget.value)} />
        )
      }
    </Field>
  );
}

export function Check(props: { label: string; isOn: boolean; onChange: (isOn: boolean) => void; disabled?: boolean }) {
  return (
    <label class="check">
      <input type="checkbox" checked={props.isOn} disabled={props.disabled} onChange={(event) => props.onChange(event.currentTarget.checked)} />
      <span>{props.label}</span>
    </label>
  );
}

interface SaveBarProps {
  isShown: boolean;
  isBusy: boolean;
  label: string;
  problem?: string | undefined;
  onSave: () => void;
  onDiscard?: (() => void) | undefined;
  children?: ComponentChildren;
}

/** The bar at the end of the page while something is not saved. */
export function SaveBar({ isShown, isBusy, label, problem, onSave, onDiscard, children }: SaveBarProps) {
  if (!isShown) return null;
  return (
    <div class="sticky-save" role="region" aria-label={t("Unsaved changes")}>
      <span class="muted">{problem ?? t("You have unsaved changes.")}</span>
      <span class="row">
        {children}
        {onDiscard && <Button onClick={onDiscard}>{t("Discard")}</Button>}
        <Button kind="primary" disabled={isBusy || !!problem} onClick={onSave}>
          {label}
        </Button>
      </span>
    </div>
  );
}
