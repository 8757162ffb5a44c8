// Data of others, always as text.
import { useState } from "preact/hooks";
import { formatAgo, formatDate, showValue, splitStrange, t } from "../lib/text";
import { Button } from "./controls";
import { notify } from "./toasts";

const MAX_CHARS = 300;

/** Any value as text: never as markup, with invisible characters shown, long ones cut. */
export function Value({ value, maxChars = MAX_CHARS }: { value: unknown; maxChars?: number }) {
  const [isWhole, setWhole] = useState(false);
  const text = showValue(value);
  const shown = isWhole ? text.slice(0, 50_000) : text.slice(0, maxChars);
  return (
    <>
      {splitStrange(shown).map((part, index) =>
        part.isCode ? (
          <span key={index} class="control-character">
            {part.text}
          </span>
        ) : (
          part.text
        ),
      )}
      {shown.length < text.length && !isWhole && (
        <>
          {"… "}
          <Button kind="quiet" isSmall onClick={() => setWhole(true)}>
            {t("Show all {n} characters", { n: text.length })}
          </Button>
        </>
      )}
    </>
  );
}

export type Labels = Record<string, { label: string; tone: string }>;

/** One of the labels as a tag. A value without a label is shown as it is. */
export function Tag({ labels, value }: { labels: Labels; value: string }) {
  const { label, tone } = labels[value] ?? { label: value, tone: "" };
  return <span class={`tag ${tone}`}>{label}</span>;
}

export function Ago({ at }: { at: string }) {
  return (
    <time dateTime={at} title={formatDate(at)}>
      {formatAgo(at)}
    </time>
  );
}

export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify(t("Copied."));
  } catch {
    notify(t("The browser did not allow copying."), "bad");
  }
}

export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="codeblock">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <Button isSmall kind="quiet" icon="copy" class="icon" aria-label={t("Copy {label}", { label })} title={t("Copy")} onClick={() => copyText(text)} />
    </div>
  );
}

/** Properties as a table of names and values. */
export function Properties({ values }: { values: Record<string, unknown> }) {
  const names = Object.keys(values).sort();
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={t("Properties")}>
      <table class="table properties">
        <thead>
          <tr>
            <th scope="col">{t("Property")}</th>
            <th scope="col">{t("Value")}</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name}>
              <td>
                <Value value={name} maxChars={100} />
              </td>
              <td class="mono">
                <Value value={values[name]} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
