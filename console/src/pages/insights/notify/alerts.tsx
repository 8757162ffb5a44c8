// Alerts on an insight: when they fire, whom they tell, and their last checks.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, call, get, queryClient } from "../../../api/client";
import type { Alert, Insight, Page } from "../../../api/types";
import { formatNumber, t } from "../../../lib/text";
import { useProject } from "../../../shell/project";
import { Button, Field, IconButton, Select, Switch } from "../../../ui/controls";
import { Confirm, Dialog } from "../../../ui/dialog";
import { Menu } from "../../../ui/menu";
import { Ago, Value } from "../../../ui/show";
import { Await, Empty } from "../../../ui/states";
import { notify, notifyError } from "../../../ui/toasts";
import { DestinationChecks } from "./destinations";
import { unwrap } from "../query";
import { useRefusal } from "../../../shell/rights";

const CONDITIONS: Record<string, string> = {
  absolute_value: t("The value is out of bounds"),
  relative_increase: t("It grows by more than"),
  relative_decrease: t("It falls by more than"),
  anomaly: t("It is unusual"),
};
const STATES: Record<string, [string, string]> = {
  Firing: ["bad", t("Firing")],
  "Not firing": ["on", t("Quiet")],
  Errored: ["warn", t("Cannot be checked")],
  Snoozed: ["", t("Snoozed")],
};
const EVERY_MS = 15_000;
// A new alert is checked within seconds.
const FIRST_CHECK_MS = 2000;

export function Alerts({ insight }: { insight: Insight }) {
  const { api } = useProject();
  const [edited, setEdited] = useState<Alert | "new" | null>(null);
  const refusal = useRefusal("alert:write");
  const alerts = useQuery({ queryKey: ["alerts", api, insight.id], queryFn: () => get<Page<Alert>>(`${api}/alerts/`, { insight_id: insight.id, limit: 100 }), refetchInterval: ({ state }) => (state.data?.results.some((each) => each.enabled && !each.last_checked_at) ? FIRST_CHECK_MS : EVERY_MS) });
  if (unwrap(insight.query).kind !== "TrendsQuery") return <Empty title={t("Alerts are for trends")}>{t("Save this question as a trend to get a message when its value changes.")}</Empty>;
  const add = (
    <Button kind="primary" icon="plus" disabled={!!refusal} title={refusal} onClick={() => setEdited("new")}>
      {t("New alert")}
    </Button>
  );
  return (
    <>
      <div class="panel flush">
        <Await query={alerts} rows={3}>
          {(page) =>
            page.results.length ? (
              <>
                <div class="head">
                  <h2>{t("Alerts")}</h2>
                  {add}
                </div>
                {page.results.map((alert) => (
                  <AlertRow key={alert.id} alert={alert} onEdit={() => setEdited(alert)} />
                ))}
              </>
            ) : (
              <Empty title={t("No alerts yet")} action={add}>
                {t("An alert checks this insight every hour, day, week or month and sends a message when its value is out of bounds.")}
              </Empty>
            )
          }
        </Await>
      </div>
      {edited && <AlertDialog insight={insight} alert={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </>
  );
}

function describe(alert: Alert): string {
  const type = String((alert.condition as { type?: string }).type);
  const bounds = (alert.threshold as { configuration?: { type?: string; bounds?: { lower?: number | null; upper?: number | null } } } | null)?.configuration;
  const unit = bounds?.type === "percentage" ? 100 : 1;
  const show = (value: number) => formatNumber(value * unit) + (unit === 100 ? " %" : "");
  const parts = [];
  if (typeof bounds?.bounds?.lower === "number") parts.push(t("below {n}", { n: show(bounds.bounds.lower) }));
  if (typeof bounds?.bounds?.upper === "number") parts.push(type === "absolute_value" ? t("above {n}", { n: show(bounds.bounds.upper) }) : show(bounds.bounds.upper));
  return `${CONDITIONS[type] ?? type}${parts.length ? `: ${parts.join(` ${t("or")} `)}` : ""}`;
}

function AlertRow({ alert, onEdit }: { alert: Alert; onEdit: () => void }) {
  const { api } = useProject();
  const [isDeleting, setDeleting] = useState(false);
  const refusal = useRefusal("alert:write");
  const path = `${api}/alerts/${alert.id}/`;
  const refresh = () => queryClient.invalidateQueries({ queryKey: ["alerts"] });
  const edit = useMutation({ mutationFn: (body: object) => call("PATCH", path, { body }), onSettled: refresh, onError: notifyError });
  const remove = useMutation({ mutationFn: () => call("DELETE", path), onSettled: refresh, onSuccess: () => notify(t("The alert is deleted.")), onError: notifyError });
  const isNew = alert.enabled && !alert.last_checked_at && alert.state === "Not firing";
  const [tone, state] = isNew ? ["", t("Not checked yet")] : (STATES[alert.state] ?? ["", alert.state]);
  return (
    <section class="body stack line" aria-label={alert.name || t("Alert")}>
      <div class="row spread">
        <div class="row">
          <Switch isOn={alert.enabled} disabled={edit.isPending || !!refusal} label={t("{name} is on", { name: alert.name })} onChange={(enabled) => edit.mutate({ enabled })} />
          <strong>
            <Value value={alert.name || t("Alert")} maxChars={80} />
          </strong>
          <span class={`tag ${tone}`}>{state}</span>
        </div>
        <Menu
          trigger={<IconButton isSmall icon="more" disabled={!!refusal} label={t("Actions for {name}", { name: alert.name || t("the alert") })} />}
          entries={[
            { label: t("Edit…"), onSelect: onEdit },
            alert.snoozed_until ? { label: t("End the snooze"), onSelect: () => edit.mutate({ snoozed_until: null }) } : { label: t("Snooze for a day"), onSelect: () => edit.mutate({ snoozed_until: "1d" }) },
            { label: t("Delete…"), isDangerous: true, onSelect: () => setDeleting(true) },
          ]}
        />
      </div>
      <span class="muted">
        {describe(alert)} · {t(alert.calculation_interval)}
        {alert.last_value !== null && ` · ${t("last value {n}", { n: formatNumber(Math.round(alert.last_value * 100) / 100) })}`}
        {alert.last_checked_at && (
          <>
            {" · "}
            {t("checked")} <Ago at={alert.last_checked_at} />
          </>
        )}
      </span>
      {alert.checks.length > 0 && (
        <details>
          <summary>{t("Last checks")}</summary>
          <table class="table">
            <thead>
              <tr>
                <th scope="col">{t("When")}</th>
                <th scope="col" class="num">
                  {t("Value")}
                </th>
                <th scope="col">{t("Outcome")}</th>
              </tr>
            </thead>
            <tbody>
              {alert.checks.map((check) => (
                <tr key={check.id}>
                  <td>
                    <Ago at={check.created_at} />
                  </td>
                  <td class="num">{check.calculated_value === null ? "" : formatNumber(check.calculated_value)}</td>
                  <td>
                    <Value value={check.error ?? (check.breaches.join("; ") || STATES[check.state]?.[1] || check.state)} />
                    {check.targets_notified && ` · ${t("message sent")}`}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
      <Confirm title={t("Delete {name}?", { name: alert.name || t("the alert") })} action={t("Delete the alert")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
        <p>{t("The alert and its history of checks are deleted for good.")}</p>
      </Confirm>
    </section>
  );
}

function AlertDialog({ insight, alert, onClose }: { insight: Insight; alert: Alert | null; onClose: () => void }) {
  const { api } = useProject();
  const series = unwrap(insight.query).series ?? [];
  const known = (alert?.threshold as { configuration?: { type?: string; bounds?: { lower?: number | null; upper?: number | null } } } | null)?.configuration;
  const isShare = known?.type === "percentage";
  const scale = (value: number | null | undefined) => (typeof value === "number" ? String(isShare ? value * 100 : value) : "");
  const [draft, setDraft] = useState({
    name: alert?.name ?? "",
    type: String((alert?.condition as { type?: string } | undefined)?.type ?? "absolute_value"),
    lower: scale(known?.bounds?.lower),
    upper: scale(known?.bounds?.upper),
    unit: known?.type ?? "absolute",
    interval: alert?.calculation_interval ?? "daily",
    series: Number((alert?.config as { series_index?: number } | undefined)?.series_index ?? 0),
    destinations: [...(alert?.destinations ?? [])],
  });
  const change = (part: Partial<typeof draft>) => setDraft({ ...draft, ...part });
  const isRelative = draft.type.startsWith("relative");
  const unit = isRelative ? draft.unit : "absolute";
  const read = (text: string) => (text.trim() === "" ? null : Number(text) / (unit === "percentage" ? 100 : 1));
  const body = {
    name: draft.name.trim() || t("Alert on {name}", { name: insight.name ?? "" }),
    insight: insight.id,
    condition: { type: draft.type },
    threshold: draft.type === "anomaly" ? null : { configuration: { type: unit, bounds: { lower: isRelative ? null : read(draft.lower), upper: read(draft.upper) } } },
    config: { type: "TrendsAlertConfig", series_index: draft.series },
    calculation_interval: draft.interval,
    destinations: draft.destinations,
  };
  const save = useMutation({
    mutationFn: () => (alert ? call("PATCH", `${api}/alerts/${alert.id}/`, { body }) : call("POST", `${api}/alerts/`, { body })),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["alerts"] });
      notify(t("The alert is saved. It is checked within seconds."));
      onClose();
    },
  });
  const error = save.error instanceof ApiError ? save.error : null;
  const isBound = error?.attr?.startsWith("threshold");
  const number = (label: string, name: "lower" | "upper") => (
    <Field label={label} error={isBound && name === "upper" ? error?.detail : undefined}>
      {(attributes) => <input {...attributes} class="input" type="number" step="any" value={draft[name]} onInput={(event) => change({ [name]: event.currentTarget.value })} />}
    </Field>
  );
  return (
    <Dialog
      title={alert ? t("Edit the alert") : t("New alert")}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" disabled={save.isPending} onClick={() => save.mutate()}>
            {t("Save")}
          </Button>
        </>
      }
    >
      <div class="body stack">
        <Field label={t("Name")} error={error?.attr === "name" ? error.detail : undefined}>
          {(attributes) => <input {...attributes} class="input" autofocus placeholder={t("Alert on {name}", { name: insight.name ?? "" })} value={draft.name} onInput={(event) => change({ name: event.currentTarget.value })} />}
        </Field>
        {series.length > 1 && (
          <Field label={t("Series")}>
            {(attributes) => <Select id={attributes.id} label={t("Series")} value={String(draft.series)} choices={series.map((each, index) => ({ value: String(index), label: `${String.fromCharCode(65 + index)}. ${each.custom_name || each.event || each.name || t("All events")}` }))} onChange={(value) => change({ series: Number(value) })} />}
          </Field>
        )}
        <Field label={t("Fires when")}>
          {(attributes) => <Select id={attributes.id} label={t("Fires when")} value={draft.type} choices={Object.entries(CONDITIONS).map(([value, label]) => ({ value, label }))} onChange={(type) => change({ type })} />}
        </Field>
        {draft.type === "anomaly" ? (
          <p class="muted">{t("It compares the value with those of the 28 intervals before.")}</p>
        ) : isRelative ? (
          <div class="row tight">
            {number(t("More than"), "upper")}
            <Field label={t("Unit")}>
              {(attributes) => <Select id={attributes.id} label={t("Unit")} value={unit} choices={[{ value: "percentage", label: t("percent") }, { value: "absolute", label: t("in value") }]} onChange={(value) => change({ unit: value })} />}
            </Field>
          </div>
        ) : (
          <div class="row tight">
            {number(t("Below"), "lower")}
            {number(t("Above"), "upper")}
          </div>
        )}
        <Field label={t("Checked")}>
          {(attributes) => <Select id={attributes.id} label={t("Checked")} value={draft.interval} choices={["hourly", "daily", "weekly", "monthly"].map((value) => ({ value, label: t(value) }))} onChange={(interval) => change({ interval })} />}
        </Field>
        <DestinationChecks chosen={draft.destinations} onChange={(destinations) => change({ destinations })} />
        {error && !isBound && error.attr !== "name" && (
          <p class="notice bad" role="alert">
            {error.detail}
          </p>
        )}
      </div>
    </Dialog>
  );
}
