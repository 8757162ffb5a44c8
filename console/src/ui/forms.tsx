// Forms: what was typed stays after an error, the error of the API is shown beside its field, and the bar that saves.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { explain } from "../api/errors";
import { t } from "../lib/text";
import { Button, Field } from "./controls";

/** Return what the service says about a field, such as `name` or `questions__1__choices`. */
export function findError(error: unknown, ...names: string[]): string | undefined {
  if (!(error instanceof ApiError) || error.attr === null) return undefined;
  const { attr } = error;
  const isOf = (name: string) => attr === name || attr.startsWith(`${name}__`);
  return names.some(isOf) ? error.detail : undefined;
}

/** A refusal that does not belong to one of the shown fields. */
export function Refusal({ error, shown = [] }: { error: unknown; shown?: string[] }) {
  if (!error || findError(error, ...shown)) return null;
  const known = error instanceof ApiError ? error : null;
  return (
    <p class="notice bad" role="alert">
      {explain(error)}
      {known?.requestId && known.status >= 500 && ` (${t("request id")} ${known.requestId})`}
    </p>
  );
}

export interface Submission {
  submit: (event?: Event) => void;
  isBusy: boolean;
  error: unknown;
  /** Return the error of a field. */
  errorOf: (name: string) => string | undefined;
  reset: () => void;
}

/** Run a form's work when it is submitted, once at a time, and keep its error. */
export function useSubmit(work: () => Promise<unknown>): Submission {
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return {
    submit: (event) => {
      event?.preventDefault();
      if (!isBusy) void run();
    },
    isBusy,
    error,
    errorOf: (name) => findError(error, name),
    reset: () => setError(null),
  };
}

interface TextFieldProps extends Omit<JSX.InputHTMLAttributes<HTMLInputElement>, "label" | "value" | "onInput"> {
  label: string;
  value: string;
  onInput: (value: string) => void;
  hint?: ComponentChildren;
  error?: string | undefined;
  isCode?: boolean;
  isLong?: boolean;
}

/** A labelled text field. With `autofocus` it has the focus when it appears, in a dialog too. */
export function TextField({ label, value, onInput, hint, error, isCode, isLong, autofocus, class: extra, ...rest }: TextFieldProps) {
  const field = useRef<HTMLInputElement & HTMLTextAreaElement>(null);
  useEffect(() => {
    if (autofocus) field.current?.focus();
  }, []);
  const names = ["input", isCode && (isLong ? "code" : "mono"), extra].filter(Boolean).join(" ");
  const type = (event: { currentTarget: { value: string } }) => onInput(event.currentTarget.value);
  const common = { autocomplete: "off", spellcheck: !isCode, ...rest, ref: field, class: names, value, onInput: type };
  return (
    <Field label={label} hint={hint} error={error}>
      {(attributes) => (isLong ? <textarea {...(common as object)} {...attributes} /> : <input {...common} {...attributes} />)}
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
