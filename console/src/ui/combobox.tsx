// A text field with suggestions, after the ARIA pattern of a combobox with a list box.
import { useId, useRef, useState } from "preact/hooks";
import { t } from "../lib/text";
import { Value } from "./show";

export interface Option {
  value: string;
  label?: string;
  note?: string;
}

interface Props {
  label: string;
  value: string;
  options: Option[];
  isLoading?: boolean;
  placeholder?: string;
  className?: string;
  hasError?: boolean;
  onInput: (text: string) => void;
  onChoose: (value: string) => void;
  onBackspace?: () => void;
  onLeave?: () => void;
}

export function Combobox(props: Props) {
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const { options } = props;
  const shown = isOpen && (options.length > 0 || props.isLoading);

  const choose = (option: Option) => {
    props.onChoose(option.value);
    setOpen(false);
    setActive(-1);
  };
  const move = (event: KeyboardEvent, step: number) => {
    event.preventDefault();
    setOpen(true);
    if (options.length) setActive((active + step + options.length + (active < 0 && step < 0 ? 1 : 0)) % options.length);
  };
  const press = (event: KeyboardEvent) => {
    const option = options[active];
    if (event.key === "ArrowDown") move(event, 1);
    else if (event.key === "ArrowUp") move(event, -1);
    else if (event.key === "Enter") {
      if (isOpen && option) choose(option);
      else if (props.value) props.onChoose(props.value);
      event.preventDefault();
    } else if (event.key === "Escape" && isOpen) {
      setOpen(false);
      event.stopPropagation();
    } else if (event.key === "Backspace" && props.value === "") props.onBackspace?.();
  };
  return (
    <div class={`combo ${props.className ?? ""}`}>
      <input
        ref={field}
        class={props.className ? "" : "input"}
        role="combobox"
        aria-label={props.label}
        aria-expanded={!!shown}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={shown && active >= 0 ? `${id}-${active}` : undefined}
        aria-invalid={props.hasError || undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder={props.placeholder}
        value={props.value}
        onFocus={() => setOpen(true)}
        onClick={() => setOpen(true)}
        onBlur={() => {
          setOpen(false);
          setActive(-1);
          props.onLeave?.();
        }}
        onInput={(event) => {
          setOpen(true);
          setActive(-1);
          props.onInput(event.currentTarget.value);
        }}
        onKeyDown={press}
      />
      {shown && (
        <div class="options" role="listbox" id={`${id}-list`} aria-label={props.label} tabIndex={-1}>
          {options.map((option, index) => (
            <div
              key={option.value}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === active}
              onMouseDown={(event) => {
                event.preventDefault();
                choose(option);
              }}
            >
              <span class="cut">
                <Value value={option.label ?? option.value} maxChars={80} />
              </span>
              {option.note && <span class="muted">{option.note}</span>}
            </div>
          ))}
          {props.isLoading && options.length === 0 && (
            <div role="option" aria-selected={false} aria-disabled="true" class="note">
              {t("Loading…")}
            </div>
          )}
        </div>
      )}
    </div>
  );
}

/** Several values, each with its own button to remove it. */
export function ValuesInput(props: {
  label: string;
  values: string[];
  options: Option[];
  isLoading?: boolean;
  onSearch: (text: string) => void;
  onChange: (values: string[]) => void;
}) {
  const [text, setText] = useState("");
  const change = (value: string) => {
    setText(value);
    props.onSearch(value);
  };
  const add = (value: string) => {
    if (value && !props.values.includes(value)) props.onChange([...props.values, value]);
    change("");
  };
  return (
    <div class="values">
      {props.values.map((value) => (
        <span class="tag" key={value}>
          <span class="cut">
            <Value value={value} maxChars={60} />
          </span>
          <button
            type="button"
            aria-label={t("Remove {value}", { value })}
            onClick={() => props.onChange(props.values.filter((each) => each !== value))}
          >
            ×
          </button>
        </span>
      ))}
      <Combobox
        className="grow"
        label={props.label}
        value={text}
        options={props.options.filter((each) => !props.values.includes(each.value))}
        isLoading={props.isLoading ?? false}
        placeholder={props.values.length ? "" : t("Value")}
        onInput={change}
        onChoose={add}
        onBackspace={() => props.onChange(props.values.slice(0, -1))}
        onLeave={() => add(text)}
      />
    </div>
  );
}
