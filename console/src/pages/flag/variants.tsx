// Variants with their shares and payloads, or the payload of a flag without variants.
import { t } from "../../lib/text";
import { Button, Field, IconButton } from "../../ui/controls";
import { type Draft, type DraftVariant, distribute, isJson, newUid } from "./draft";

export function Variants({ draft, problem, onChange }: { draft: Draft; problem: string | undefined; onChange: (part: Partial<Draft>) => void }) {
  const { variants } = draft;
  const replace = (uid: string, part: Partial<DraftVariant>) => onChange({ variants: variants.map((each) => (each.uid === uid ? { ...each, ...part } : each)) });
  const add = () => {
    const keys = variants.length ? [`variant-${variants.length + 1}`] : ["control", "test"];
    const added = keys.map((key) => ({ uid: newUid(), key, name: "", rollout: 0, payload: "" }));
    onChange({ variants: distribute([...variants, ...added]) });
  };
  const remove = (uid: string) => {
    const left = variants.filter((each) => each.uid !== uid);
    onChange({ variants: left.length ? distribute(left) : [] });
  };
  return (
    <section class="panel" aria-label={t("Variants")}>
      <div class="head">
        <h2>{t("Variants")}</h2>
        <div class="row">
          {variants.length > 1 && (
            <Button isSmall onClick={() => onChange({ variants: distribute(variants) })}>
              {t("Equal shares")}
            </Button>
          )}
          <Button isSmall icon="plus" onClick={add}>
            {variants.length ? t("Add a variant") : t("Use variants")}
          </Button>
        </div>
      </div>
      <div class="body stack">
        {variants.length === 0 && <p class="muted">{t("The flag is on or off. With variants, people who get it are split into groups.")}</p>}
        {variants.map((variant, index) => (
          <div class="variant" key={variant.uid}>
            <Field label={t("Key {n}", { n: index + 1 })}>
              {(attributes) => <input {...attributes} class="input mono" value={variant.key} onInput={(event) => replace(variant.uid, { key: event.currentTarget.value })} />}
            </Field>
            <Field label={t("Description {n}", { n: index + 1 })}>
              {(attributes) => <input {...attributes} class="input" value={variant.name} onInput={(event) => replace(variant.uid, { name: event.currentTarget.value })} />}
            </Field>
            <Field label={t("Share {n}, %", { n: index + 1 })}>
              {(attributes) => (
                <input
                  {...attributes}
                  class="input num"
                  type="number"
                  min={0}
                  max={100}
                  step="any"
                  value={variant.rollout}
                  onInput={(event) => replace(variant.uid, { rollout: Number(event.currentTarget.value) || 0 })}
                />
              )}
            </Field>
            <IconButton icon="trash" label={t("Remove variant {key}", { key: variant.key })} onClick={() => remove(variant.uid)} />
          </div>
        ))}
        {problem && (
          <p class="error-text" role="alert">
            {problem}
          </p>
        )}
      </div>
    </section>
  );
}

export function Payloads({ draft, onChange }: { draft: Draft; onChange: (part: Partial<Draft>) => void }) {
  const entries = draft.variants.length
    ? draft.variants.map((each) => ({
        label: each.key,
        value: each.payload,
        change: (payload: string) => onChange({ variants: draft.variants.map((other) => (other.uid === each.uid ? { ...other, payload } : other)) }),
      }))
    : [{ label: t("When the flag is on"), value: draft.payload, change: (payload: string) => onChange({ payload }) }];
  return (
    <section class="panel" aria-label={t("Payloads")}>
      <div class="head">
        <h2>{t("Payloads")}</h2>
      </div>
      <div class="body stack">
        {entries.map((entry) => (
          <Field
            key={entry.label}
            label={entry.label}
            hint={t("JSON that SDKs receive with the value.")}
            error={entry.value.trim() && !isJson(entry.value) ? t("This is not valid JSON. Texts need quotes.") : undefined}
          >
            {(attributes) => (
              <textarea {...attributes} class="input code" spellcheck={false} value={entry.value} onInput={(event) => entry.change(event.currentTarget.value)} />
            )}
          </Field>
        ))}
      </div>
    </section>
  );
}
