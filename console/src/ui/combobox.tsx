// A text field with suggestions, after the ARIA pattern of a combobox with a list box.
import type { RefObject } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
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
  disabled?: boolean;
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
  const isEntered = useRef(false);
  const list = useRef<HTMLDivElement>(null);
  const { options } = props;
  const shown = !!(isOpen && (options.length > 0 || props.isLoading));
  usePlaceBelow(field, list, shown);

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
        aria-expanded={shown}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={shown && active >= 0 ? `${id}-${active}` : undefined}
        aria-invalid={props.hasError || undefined}
        autocomplete="off"
        spellcheck={false}
        disabled={props.disabled}
        placeholder={props.placeholder}
        value={props.value}
        onFocus={() => {
          isEntered.current = true;
          setOpen(true);
        }}
        onClick={(event) => {
          // The first click selects the text, so that what is typed replaces it.
          if (isEntered.current) event.currentTarget.select();
          isEntered.current = false;
          setOpen(true);
        }}
        onBlur={() => {
          setOpen(false);
          setActive(-1);
          props.onLeave?.();
        }}
        onInput={(event) => {
          isEntered.current = false;
          setOpen(true);
          setActive(-1);
          props.onInput(event.currentTarget.value);
        }}
        onKeyDown={press}
      />
      {shown && (
        <div ref={list} popover="manual" class="options" role="listbox" id={`${id}-list`} aria-label={props.label} tabIndex={-1}>
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

const GAP_PX = 3;

/** Show a list below its field, or above it where there is more room. It is above the page, so that nothing around the field cuts it. */
function usePlaceBelow(field: RefObject<HTMLElement>, list: RefObject<HTMLElement>, isShown: boolean): void {
  useLayoutEffect(() => {
    const shown = list.current;
    if (!isShown || !shown || !field.current) return;
    shown.showPopover();
    const place = () => {
      const at = field.current?.getBoundingClientRect();
      if (!at) return;
      const below = innerHeight - at.bottom;
      const isAbove = below < shown.offsetHeight + GAP_PX && at.top > below;
      shown.style.minWidth = `${at.width}px`;
      shown.style.left = `${Math.max(0, Math.min(at.left, innerWidth - shown.offsetWidth))}px`;
      shown.style.top = `${isAbove ? at.top - shown.offsetHeight - GAP_PX : at.bottom + GAP_PX}px`;
    };
    place();
    const observer = new ResizeObserver(place);
    observer.observe(shown);
    window.addEventListener("scroll", place, true);
    window.addEventListener("resize", place);
    return () => {
      observer.disconnect();
      window.removeEventListener("scroll", place, true);
      window.removeEventListener("resize", place);
    };
  }, [isShown]);
}

/** Several values, each with its own button to remove it. */
export function ValuesInput(props: {
  label: string;
  values: string[];
  options: Option[];
  isLoading?: boolean;
  placeholder?: string;
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
        placeholder={props.placeholder ?? (props.values.length ? "" : t("Value"))}
        onInput={change}
        onChoose={add}
        onBackspace={() => props.onChange(props.values.slice(0, -1))}
        onLeave={() => add(text)}
      />
    </div>
  );
}
