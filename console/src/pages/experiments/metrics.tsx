// The editor of metrics: what is measured after people saw a variant.
import { useState } from "preact/hooks";
import { t } from "../../lib/text";
import { Button, Field, IconButton, Select } from "../../ui/controls";
import { Combobox } from "../../ui/combobox";
import { Check, TextField } from "../../ui/forms";
import { useEventNames } from "../events/explore";
import { type DraftMetric, type MetricKind, type MetricStep, newMetric, newStep, setKind } from "./metric-draft";

const KINDS: { value: MetricKind; label: string }[] = [
  { value: "funnel", label: t("Who did it (conversion)") },
  { value: "count", label: t("How often (mean)") },
  { value: "sum", label: t("Sum of a property (mean)") },
  { value: "ratio", label: t("Events per event (ratio)") },
];

interface Props {
  label: string;
  hint: string;
  metrics: DraftMetric[];
  error: string | undefined;
  onChange: (metrics: DraftMetric[]) => void;
}

export function Metrics({ label, hint, metrics, error, onChange }: Props) {
  const replace = (changed: DraftMetric) => onChange(metrics.map((each) => (each.uid === changed.uid ? changed : each)));
  return (
    <section class="panel" aria-label={label}>
      <div class="head">
        <h2>{label}</h2>
        <Button isSmall icon="plus" onClick={() => onChange([...metrics, newMetric()])}>
          {t("Add a metric")}
        </Button>
      </div>
      <div class="body stack l">
        {!metrics.length && <p class="muted">{hint}</p>}
        {metrics.map((metric, index) => (
          <MetricForm key={metric.uid} metric={metric} name={t("{label}, metric {number}", { label, number: index + 1 })} onChange={replace} onRemove={() => onChange(metrics.filter((each) => each.uid !== metric.uid))} />
        ))}
        {error && (
          <p class="error-text" role="alert">
            {error}
          </p>
        )}
      </div>
    </section>
  );
}

interface MetricProps {
  metric: DraftMetric;
  name: string;
  onChange: (metric: DraftMetric) => void;
  /** Not given for a metric that cannot be left out. */
  onRemove?: () => void;
  kinds?: readonly MetricKind[];
  /** What the window is if none is typed. */
  window?: string;
}

export function MetricForm({ metric, name, onChange, onRemove, kinds, window = t("until the end") }: MetricProps) {
  const remove = onRemove && <IconButton icon="trash" label={t("Remove {name}", { name })} onClick={onRemove} />;
  const choices = KINDS.filter((each) => !kinds || kinds.includes(each.value));
  if (metric.document)
    return (
      <div class="row" role="group" aria-label={name}>
        <code class="grow cut">{JSON.stringify(metric.document)}</code>
        <span class="muted">{t("kept as it is")}</span>
        {remove}
      </div>
    );
  const setStep = (changed: MetricStep) => onChange({ ...metric, steps: metric.steps.map((each) => (each.uid === changed.uid ? changed : each)) });
  const labels = metric.kind === "ratio" ? [t("Count of"), t("divided by count of")] : metric.kind === "funnel" ? metric.steps.map((_, index) => (index ? t("then") : t("Event"))) : [t("Event")];
  return (
    <div class="metric stack" role="group" aria-label={name}>
      <div class="row top">
        <div class="grow columns narrow">
          <Field label={t("Measures")}>{(attributes) => <Select {...attributes} label={t("Measures")} value={metric.kind} choices={choices} onChange={(kind) => onChange(setKind(metric, kind))} />}</Field>
          <TextField label={t("Name")} placeholder={t("The name of the event")} value={metric.name} onInput={(value) => onChange({ ...metric, name: value })} />
        </div>
        {remove}
      </div>
      {metric.steps.map((step, index) => (
        <div class="row" key={step.uid}>
          <span class="label">{labels[index]}</span>
          <div class="grow">
            <EventInput label={t("Event {number} of {name}", { number: index + 1, name })} value={step.event} onChange={(event) => setStep({ ...step, event })} />
          </div>
          {Array.isArray(step.rest.properties) && step.rest.properties.length > 0 && <span class="tag">{t("with filters")}</span>}
          {metric.kind === "funnel" && metric.steps.length > 1 && (
            <IconButton icon="close" label={t("Remove event {number} of {name}", { number: index + 1, name })} onClick={() => onChange({ ...metric, steps: metric.steps.filter((each) => each.uid !== step.uid) })} />
          )}
        </div>
      ))}
      <div class="row">
        {metric.kind === "funnel" && (
          <Button isSmall icon="plus" onClick={() => onChange({ ...metric, steps: [...metric.steps, newStep()] })}>
            {t("Add a step")}
          </Button>
        )}
        {metric.kind === "sum" && <TextField label={t("Property")} isCode value={metric.property} onInput={(property) => onChange({ ...metric, property })} />}
        <TextField label={t("Within days after exposure")} type="number" min={0} step="any" placeholder={window} value={metric.windowDays} onInput={(windowDays) => onChange({ ...metric, windowDays })} />
        <Check label={t("Lower is better")} isOn={metric.isLowerBetter} onChange={(isLowerBetter) => onChange({ ...metric, isLowerBetter })} />
      </div>
    </div>
  );
}

export function EventInput({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  const [text, setText] = useState(value);
  const names = useEventNames(text);
  const change = (next: string) => {
    setText(next);
    onChange(next);
  };
  return <Combobox label={label} placeholder={t("Event")} value={value} options={names} onInput={change} onChoose={change} />;
}
