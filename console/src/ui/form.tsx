// Forms: what was typed stays after an error, and the error of the API is shown beside its field.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { t } from "../lib/text";
import { Field } from "./controls";

export interface Submission {
  submit: (event?: Event) => void;
  isBusy: boolean;
  error: ApiError | null;
  /** Return the error of a field. */
  errorOf: (name: string) => string | undefined;
  reset: () => void;
}

/** Run a form's work when it is submitted, once at a time, and keep its error. */
export function useSubmit(work: () => Promise<unknown>): Submission {
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (failure) {
      setError(failure instanceof ApiError ? failure : new ApiError(-1, String(failure)));
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
    errorOf: (name) => (error && isOf(error, name) ? error.detail : undefined),
    reset: () => setError(null),
  };
}

function isOf(error: ApiError, name: string): boolean {
  return error.attr === name || !!error.attr?.startsWith(`${name}__`);
}

/** The error of a form that belongs to none of its fields. */
export function FormError({ of, fields = [] }: { of: Submission; fields?: string[] }) {
  const { error } = of;
  if (!error || fields.some((each) => isOf(error, each))) return null;
  return (
    <p class="notice bad" role="alert">
      {error.detail}
      {error.requestId && error.status >= 500 && ` ${t("Request id")} ${error.requestId}`}
    </p>
  );
}

interface TextFieldProps extends Omit<JSX.InputHTMLAttributes<HTMLInputElement>, "label" | "value" | "onInput"> {
  label: string;
  value: string;
  onInput: (value: string) => void;
  hint?: string;
  error?: string | undefined;
}

/** A labelled text field. With `autofocus` it has the focus when it appears, in a dialog too. */
export function TextField({ label, value, onInput, hint, error, autofocus, class: extra, ...rest }: TextFieldProps) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (autofocus) field.current?.focus();
  }, []);
  return (
    <Field label={label} error={error} {...(hint ? { hint } : {})}>
      {(attributes) => (
        <input {...rest} {...attributes} ref={field} class={`input ${extra ?? ""}`} value={value} onInput={(event) => onInput(event.currentTarget.value)} />
      )}
    </Field>
  );
}
