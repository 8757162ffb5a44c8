// One control for each setting of a component, by its type.
import { useState } from "preact/hooks";
import { t } from "../../lib/text";
import { ValuesInput } from "../../ui/combobox";
import { Button, Field, IconButton, Select } from "../../ui/controls";
import { useEventNames } from "../events/explore";
import { EventFilters, Note } from "./filters";
import { chooseEditor, type Family, MASK, type Setting } from "./model";

interface Props {
  setting: Setting;
  value: unknown;
  error: string | undefined;
  isDisabled: boolean;
  onChange: (value: unknown) => void;
}

export function SettingField(props: Props & { family: Family; isStored: boolean }) {
  const { setting, value, error, isDisabled, onChange } = props;
  const label = setting.required ? t("{name} (required)", { name: setting.name }) : setting.name;
  const text = String(value ?? "");
  switch (chooseEditor(setting)) {
    case "secret":
      return <Secret {...props} label={label} />;
    case "names":
      return <Names {...props} />;
    case "filters":
      return <EventFilters {...props} hasPersons={props.family.name === "destinations"} />;
    case "mapping":
      return <Mapping {...props} />;
    case "switch":
      return (
        <div class="field">
          <label class="row check">
            <input type="checkbox" checked={value === true} disabled={isDisabled} onChange={(event) => onChange(event.currentTarget.checked)} />
            <span class="label">{setting.name}</span>
          </label>
          <Note error={error} hint={setting.hint} />
        </div>
      );
    case "choice":
      return (
        <Field label={label} hint={setting.hint} error={error}>
          {(attributes) => (
            <select {...attributes} class="input" disabled={isDisabled} value={text} onChange={(event) => onChange(event.currentTarget.value)}>
              {setting.choices.map((choice) => (
                <option key={choice} value={choice}>
                  {choice}
                </option>
              ))}
            </select>
          )}
        </Field>
      );
    case "lines":
    case "json":
      return (
        <Field label={label} hint={setting.hint} error={error}>
          {(attributes) => (
            <textarea
              {...attributes}
              class="input code"
              rows={Math.min(18, Math.max(3, text.split("\n").length + 1))}
              spellcheck={false}
              disabled={isDisabled}
              value={text}
              onInput={(event) => onChange(event.currentTarget.value)}
            />
          )}
        </Field>
      );
    case "number":
      return (
        <Field label={label} hint={setting.hint} error={error}>
          {(attributes) => (
            <input {...attributes} class="input" inputMode="numeric" style={{ maxWidth: "10rem" }} disabled={isDisabled} value={text} onInput={(event) => onChange(event.currentTarget.value)} />
          )}
        </Field>
      );
    default:
      return (
        <Field label={label} hint={setting.hint} error={error}>
          {(attributes) => <input {...attributes} class="input" spellcheck={false} autocomplete="off" disabled={isDisabled} value={text} onInput={(event) => onChange(event.currentTarget.value)} />}
        </Field>
      );
  }
}

/** A secret is never shown. It stays until someone replaces or removes it. */
function Secret({ setting, value, error, isDisabled, onChange, label, isStored }: Props & { label: string; isStored: boolean }) {
  const isKept = isStored && value === MASK;
  if (isKept)
    return (
      <div class="field">
        <span class="label">{label}</span>
        <div class="row">
          <span class="tag on">{t("Set")}</span>
          <span class="muted small">{t("A secret cannot be read again.")}</span>
          <Button isSmall disabled={isDisabled} aria-label={t("Replace {name}", { name: setting.name })} onClick={() => onChange("")}>
            {t("Replace")}
          </Button>
        </div>
        <Note error={error} hint={setting.hint} />
      </div>
    );
  return (
    <div class="stack s">
      <Field label={label} hint={setting.hint} error={error}>
        {(attributes) =>
          setting.type === "json" || setting.type === "text" ? (
            <textarea {...attributes} class="input code" rows={3} spellcheck={false} disabled={isDisabled} value={String(value ?? "")} onInput={(event) => onChange(event.currentTarget.value)} />
          ) : (
            <input
              {...attributes}
              class="input"
              type="password"
              autocomplete="new-password"
              spellcheck={false}
              disabled={isDisabled}
              value={String(value ?? "")}
              onInput={(event) => onChange(event.currentTarget.value)}
            />
          )
        }
      </Field>
      {isStored && (
        <div class="row">
          <Button isSmall kind="quiet" onClick={() => onChange(MASK)}>
            {t("Keep the stored one")}
          </Button>
          {value === "" && <span class="muted small">{t("Saved like this, the secret is removed.")}</span>}
        </div>
      )}
    </div>
  );
}

function Names({ setting, value, error, onChange }: Props) {
  const [search, setSearch] = useState("");
  const options = useEventNames(search);
  return (
    <div class="field">
      <span class="label">{setting.name}</span>
      <ValuesInput label={t("Events")} values={(value ?? []) as string[]} options={options} onSearch={setSearch} onChange={onChange} />
      <Note error={error} hint={t("Choose from the events that have arrived, or type a name. Empty: all events.")} />
    </div>
  );
}

const FIELDS: [string, string][] = [
  ["event", t("Event name")],
  ["distinct_id", t("Distinct id")],
  ["timestamp", t("Time")],
  ["uuid", t("Uuid")],
];

/** Which column of a row becomes which field of an event. */
function Mapping({ setting, value, error, isDisabled, onChange }: Props) {
  const mapping = (value ?? {}) as Record<string, unknown>;
  const properties = Object.entries((mapping.properties ?? {}) as Record<string, unknown>);
  const change = (part: Record<string, unknown>) => {
    const next = { ...mapping, ...part };
    for (const name of Object.keys(next)) if (next[name] === "" || next[name] === undefined) delete next[name];
    onChange(next);
  };
  const changeProperties = (rows: [string, unknown][]) => change({ properties: rows.length ? Object.fromEntries(rows) : undefined });
  return (
    <fieldset class="field group">
      <legend class="label">{setting.name}</legend>
      <div class="mapping">
        {FIELDS.map(([name, label]) => (
          <Field key={name} label={label}>
            {(attributes) => (
              <input {...attributes} class="input mono" placeholder={name} disabled={isDisabled} value={String(mapping[name] ?? "")} onInput={(event) => change({ [name]: event.currentTarget.value })} />
            )}
          </Field>
        ))}
      </div>
      {properties.map(([name, column], index) => {
        const rename = (row: [string, unknown]) => changeProperties(properties.map((each, at) => (at === index ? row : each)));
        return (
          <div class="row" key={index}>
            <input class="input narrow grow" aria-label={t("Name of property {number}", { number: index + 1 })} value={name} disabled={isDisabled} onInput={(event) => rename([event.currentTarget.value, column])} />
            <span class="muted">{t("from")}</span>
            <input class="input narrow grow mono" aria-label={t("Column of property {number}", { number: index + 1 })} value={String(column ?? "")} disabled={isDisabled} onInput={(event) => rename([name, event.currentTarget.value])} />
            <IconButton isSmall icon="close" label={t("Remove property {number}", { number: index + 1 })} onClick={() => changeProperties(properties.filter((_, at) => at !== index))} />
          </div>
        );
      })}
      <div class="row">
        <Button isSmall icon="plus" disabled={isDisabled} onClick={() => changeProperties([...properties, [`property_${properties.length + 1}`, ""]])}>
          {t("Add a property")}
        </Button>
        <Select
          label={t("Other columns")}
          isNarrow
          value={mapping.rest === false ? "drop" : "keep"}
          choices={[
            { value: "keep", label: t("Other columns become properties") },
            { value: "drop", label: t("Other columns are dropped") },
          ]}
          onChange={(rest) => change({ rest: rest === "drop" ? false : undefined })}
        />
      </div>
      <Note error={error} hint={t("A column name, or = and a constant, such as =bought. Empty: the column with the same name.")} />
    </fieldset>
  );
}
