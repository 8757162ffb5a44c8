// Buttons, switches and fields.
import type { ComponentChildren, JSX } from "preact";
import { forwardRef } from "preact/compat";
import { useId } from "preact/hooks";
import { t } from "../lib/text";
import { Icon, type IconName } from "./icons";

interface ButtonProps extends Omit<JSX.HTMLAttributes<HTMLButtonElement>, "icon"> {
  kind?: "primary" | "danger" | "quiet";
  isSmall?: boolean;
  icon?: IconName;
  disabled?: boolean;
  type?: "button" | "submit";
}

// Both pass on a ref, because a menu opens beside its button.
export const Button = forwardRef<HTMLButtonElement, ButtonProps>(function Button({ kind, isSmall, icon, children, class: extra, ...rest }, ref) {
  const names = ["button", kind, isSmall && "small", extra].filter(Boolean).join(" ");
  return (
    <button type="button" {...rest} ref={ref} class={names}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
});

/** A button with a picture only; its label is read aloud and shown as a tip. */
export const IconButton = forwardRef<HTMLButtonElement, ButtonProps & { label: string; icon: IconName }>(function IconButton({ label, icon, class: extra, ...rest }, ref) {
  return <Button title={label} {...rest} ref={ref} class={`icon ${extra ?? ""}`} icon={icon} aria-label={label} kind={rest.kind ?? "quiet"} />;
});

export function Switch(props: { isOn: boolean; label: string; onChange: (isOn: boolean) => void; disabled?: boolean }) {
  return (
    <button
      type="button"
      class="switch"
      role="switch"
      aria-checked={props.isOn}
      aria-label={props.label}
      disabled={props.disabled}
      onClick={() => props.onChange(!props.isOn)}
    />
  );
}

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  error?: string | undefined;
  children: (attributes: { id: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => ComponentChildren;
}

/** A labelled control with its hint and its error. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const described = error || hint ? `${id}-note` : undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({
        id,
        ...(described ? { "aria-describedby": described } : {}),
        ...(error ? { "aria-invalid": true } : {}),
      })}
      {(error || hint) && (
        <span id={described} class={error ? "error-text" : "hint"}>
          {error || hint}
        </span>
      )}
    </div>
  );
}

export function SearchInput(props: { label: string; value: string; onInput: (value: string) => void }) {
  return (
    <div class="search">
      <Icon name="search" />
      <input
        class="input"
        type="search"
        data-search
        aria-label={props.label}
        placeholder={`${props.label}  ( / )`}
        value={props.value}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </div>
  );
}

export interface Choice<T extends string> {
  value: T;
  label: string;
}

export function Select<T extends string>(props: {
  label: string;
  value: T;
  choices: Choice<T>[];
  onChange: (value: T) => void;
  isNarrow?: boolean;
  disabled?: boolean;
  id?: string;
}) {
  return (
    <select
      class={`input ${props.isNarrow ? "narrow" : ""}`}
      id={props.id}
      aria-label={props.id ? undefined : props.label}
      disabled={props.disabled}
      value={props.value}
      onChange={(event) => props.onChange(event.currentTarget.value as T)}
    >
      {props.choices.map((choice) => (
        <option key={choice.value} value={choice.value}>
          {choice.label}
        </option>
      ))}
    </select>
  );
}

/** A few choices side by side. */
export function Choices<T extends string>(props: {
  label: string;
  value: T;
  choices: Choice<T>[];
  onChange: (value: T) => void;
}) {
  return (
    <div class="choices" role="group" aria-label={props.label}>
      {props.choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === props.value}
          onClick={() => props.onChange(choice.value)}
        >
          {choice.label}
        </button>
      ))}
    </div>
  );
}

/** A percentage by slider or number. */
export function Percent(props: { label: string; value: number; onChange: (value: number) => void }) {
  const change = (text: string) => {
    const value = Number(text);
    if (Number.isFinite(value)) props.onChange(Math.min(100, Math.max(0, value)));
  };
  return (
    <div class="percent">
      <input
        type="range"
        min={0}
        max={100}
        step={1}
        value={props.value}
        aria-label={t("{label}, slider", { label: props.label })}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <input
        class="input"
        type="number"
        min={0}
        max={100}
        step="any"
        value={props.value}
        aria-label={props.label}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <span aria-hidden="true">%</span>
    </div>
  );
}
