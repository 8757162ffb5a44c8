// What must not get worse while a flag is rolled out.
import { t } from "../../lib/text";
import { Button, Field, IconButton, Select } from "../../ui/controls";
import { findError, TextField } from "../../ui/forms";
import { Panel } from "../../ui/page";
import { EventInput } from "../experiments/metrics";
import { type DraftGuardrail, fieldsOf, newGuardrail, TYPES } from "./plan";

const MAX_METRICS = 5;

export function Guardrails({ metrics, error, onChange }: { metrics: DraftGuardrail[]; error: unknown; onChange: (metrics: DraftGuardrail[]) => void }) {
  const replace = (changed: DraftGuardrail) => onChange(metrics.map((each) => (each.uid === changed.uid ? changed : each)));
  const isOfOne = metrics.some((_, index) => findError(error, `metrics__${index}`));
  return (
    <Panel
      title={t("What must not get worse")}
      actions={
        <Button isSmall icon="plus" disabled={metrics.length >= MAX_METRICS} onClick={() => onChange([...metrics, newGuardrail()])}>
          {t("Add a metric")}
        </Button>
      }
    >
      <div class="body stack l">
        {metrics.map((metric, index) => (
          <Guardrail key={metric.uid} metric={metric} number={index + 1} error={findError(error, `metrics__${index}`)} onChange={replace} onRemove={() => onChange(metrics.filter((each) => each.uid !== metric.uid))} />
        ))}
        {!isOfOne && findError(error, "metrics") && <p class="error-text">{findError(error, "metrics")}</p>}
        <p class="hint">{t("People with the feature are compared with people of the same condition who do not have it yet, every few seconds.")}</p>
      </div>
    </Panel>
  );
}

interface Props {
  metric: DraftGuardrail;
  number: number;
  error: string | undefined;
  onChange: (metric: DraftGuardrail) => void;
  onRemove: () => void;
}

function Guardrail({ metric, number, error, onChange, onRemove }: Props) {
  const fields = fieldsOf(metric.type);
  const set = (part: Partial<DraftGuardrail>) => onChange({ ...metric, ...part });
  const event = (label: string, value: string, change: (value: string) => void) => (
    <Field label={label}>{() => <EventInput label={t("{label} of metric {number}", { label, number })} value={value} onChange={change} />}</Field>
  );
  return (
    <div class="metric stack" role="group" aria-label={t("Metric {number}", { number })}>
      <div class="row top">
        <div class="grow columns narrow">
          <Field label={t("Measures")}>{({ id }) => <Select id={id} label={t("Measures")} value={metric.type} choices={TYPES} onChange={(type) => set({ type })} />}</Field>
          <Field label={t("It is worse if it")}>
            {({ id }) => (
              <Select
                id={id}
                label={t("It is worse if it")}
                value={metric.harm}
                choices={[
                  { value: "decrease", label: t("falls") },
                  { value: "increase", label: t("rises") },
                ]}
                onChange={(harm) => set({ harm })}
              />
            )}
          </Field>
        </div>
        <IconButton icon="trash" label={t("Remove metric {number}", { number })} onClick={onRemove} />
      </div>
      <div class="columns narrow">
        {fields.includes("expression") && <TextField label={t("Expression")} isCode placeholder="toFloat(properties.ms)" value={metric.expression} onInput={(expression) => set({ expression })} />}
        {fields.includes("event") && event(metric.type === "hogql" ? t("Event (optional)") : t("Event"), metric.event, (value) => set({ event: value }))}
        {fields.includes("denominator") && event(t("per event"), metric.denominator, (value) => set({ denominator: value }))}
        {fields.includes("property") && <TextField label={t("Property")} isCode value={metric.property} onInput={(property) => set({ property })} />}
        <TextField label={t("Name (optional)")} value={metric.name} onInput={(name) => set({ name })} />
        <TextField label={t("People in each group before it is tested")} type="number" min={50} value={metric.minPersons} onInput={(minPersons) => set({ minPersons })} />
      </div>
      {(metric.rest.properties?.length ?? 0) > 0 && <span class="tag">{t("with filters, which are kept")}</span>}
      {error && (
        <p class="error-text" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}
