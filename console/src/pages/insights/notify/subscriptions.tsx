// Subscriptions: an insight or a dashboard as a message with a picture, on a schedule.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, call, get, queryClient } from "../../../api/client";
import type { Page, Subscription } from "../../../api/types";
import { formatDate, t } from "../../../lib/text";
import { useProject } from "../../../shell/project";
import { Button, Field, IconButton, Select, Switch } from "../../../ui/controls";
import { Confirm, Dialog } from "../../../ui/dialog";
import { Ago, Value } from "../../../ui/show";
import { Await, Empty } from "../../../ui/states";
import { notify, notifyError } from "../../../ui/toasts";
import { useDestinations } from "./destinations";
import { useRefusal } from "../../../shell/rights";

export type Target = { insight: number } | { dashboard: number };
export function Subscriptions({ target }: { target: Target }) {
  const { api } = useProject();
  const [isNew, setNew] = useState(false);
  const refusal = useRefusal("subscription:write");
  const found = useQuery({ queryKey: ["subscriptions", api, JSON.stringify(target)], queryFn: () => get<Page<Subscription>>(`${api}/subscriptions/`, { ...target, limit: 100 }) });
  const add = (
    <Button kind="primary" icon="plus" disabled={!!refusal} title={refusal} onClick={() => setNew(true)}>
      {t("New subscription")}
    </Button>
  );
  return (
    <>
      <div class="panel flush">
        <Await query={found} rows={3}>
          {(page) =>
            page.results.length ? (
              <>
                <div class="head">
                  <h2>{t("Subscriptions")}</h2>
                  {add}
                </div>
                {page.results.map((each) => (
                  <Row key={each.id} subscription={each} />
                ))}
              </>
            ) : (
              <Empty title={t("No subscriptions yet")} action={add}>
                {t("A subscription sends the chart as a picture to Slack or a webhook, every day, week or month.")}
              </Empty>
            )
          }
        </Await>
      </div>
      {isNew && <NewSubscription target={target} onClose={() => setNew(false)} />}
    </>
  );
}

function Row({ subscription }: { subscription: Subscription }) {
  const { api } = useProject();
  const [isDeleting, setDeleting] = useState(false);
  const refusal = useRefusal("subscription:write");
  const edit = useMutation({ mutationFn: (body: object) => call("PATCH", `${api}/subscriptions/${subscription.id}/`, { body }), onSettled: () => queryClient.invalidateQueries({ queryKey: ["subscriptions"] }), onError: notifyError });
  const name = subscription.title || t("Subscription");
  return (
    <section class="body stack s line" aria-label={name}>
      <div class="row spread">
        <div class="row">
          <Switch isOn={subscription.enabled} disabled={edit.isPending || !!refusal} label={t("{name} is on", { name })} onChange={(enabled) => edit.mutate({ enabled })} />
          <strong>
            <Value value={name} maxChars={80} />
          </strong>
          <span class="tag">{subscription.target_type}</span>
        </div>
        <IconButton isSmall icon="trash" disabled={!!refusal} label={t("Delete {name}", { name })} onClick={() => setDeleting(true)} />
      </div>
      <span class="muted">
        {subscription.summary}
        {subscription.next_delivery_date && ` · ${t("next {when}", { when: formatDate(subscription.next_delivery_date) })}`}
        {subscription.last_delivery_date && (
          <>
            {" · "}
            {t("last sent")} <Ago at={subscription.last_delivery_date} />
          </>
        )}
      </span>
      {subscription.last_error && <p class="notice bad">{subscription.last_error}</p>}
      <Confirm title={t("Delete {name}?", { name })} action={t("Delete the subscription")} isDangerous isOpen={isDeleting} isBusy={edit.isPending} onConfirm={() => edit.mutate({ deleted: true })} onClose={() => setDeleting(false)}>
        <p>{t("No further message is sent.")}</p>
      </Confirm>
    </section>
  );
}

function NewSubscription({ target, onClose }: { target: Target; onClose: () => void }) {
  const { api } = useProject();
  const destinations = useDestinations();
  const [draft, setDraft] = useState({ title: "", destination: "", type: "webhook", frequency: "weekly", interval: 1, start: new Date(Date.now() + 3_600_000).toISOString().slice(0, 16) });
  const change = (part: Partial<typeof draft>) => setDraft({ ...draft, ...part });
  const all = destinations.data?.results ?? [];
  const chosen = draft.destination || String(all[0]?.id ?? "");
  const body = { ...target, title: draft.title.trim(), target_type: draft.type, target_value: chosen, frequency: draft.frequency, interval: draft.interval, start_date: `${draft.start}:00Z` };
  const save = useMutation({
    mutationFn: () => call("POST", `${api}/subscriptions/`, { body }),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["subscriptions"] });
      notify(t("The subscription is saved."));
      onClose();
    },
  });
  const error = save.error instanceof ApiError ? save.error : null;
  const of = (name: string) => (error?.attr === name ? error.detail : undefined);
  return (
    <Dialog
      title={t("New subscription")}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" disabled={save.isPending || !chosen} onClick={() => save.mutate()}>
            {t("Save")}
          </Button>
        </>
      }
    >
      <div class="body stack">
        <Field label={t("Title")} error={of("title")}>
          {(attributes) => <input {...attributes} class="input" autofocus value={draft.title} onInput={(event) => change({ title: event.currentTarget.value })} />}
        </Field>
        <Field label={t("Sent to")} error={of("target_value") ?? of("target_type")} hint={all.length ? undefined : t("There is no destination yet. Create a webhook or a Slack message under Pipelines first.")}>
          {(attributes) => <Select id={attributes.id} label={t("Sent to")} value={chosen} choices={all.map((each) => ({ value: String(each.id), label: each.name }))} onChange={(destination) => change({ destination })} />}
        </Field>
        <Field label={t("As")}>
          {(attributes) => <Select id={attributes.id} label={t("As")} value={draft.type} choices={[{ value: "webhook", label: t("Webhook") }, { value: "slack", label: t("Slack message") }]} onChange={(type) => change({ type })} />}
        </Field>
        <div class="row tight">
          <Field label={t("Every")} error={of("interval")}>
            {(attributes) => <input {...attributes} class="input" type="number" min={1} value={draft.interval} onInput={(event) => change({ interval: Math.max(1, Math.floor(Number(event.currentTarget.value)) || 1) })} />}
          </Field>
          <Field label={t("Unit")} error={of("frequency")}>
            {(attributes) => <Select id={attributes.id} label={t("Unit")} value={draft.frequency} choices={[["daily", t("days")], ["weekly", t("weeks")], ["monthly", t("months")], ["yearly", t("years")]].map(([value, label]) => ({ value: value!, label: label! }))} onChange={(frequency) => change({ frequency })} />}
          </Field>
        </div>
        <Field label={t("First at (UTC)")} error={of("start_date")}>
          {(attributes) => <input {...attributes} class="input" type="datetime-local" value={draft.start} onInput={(event) => change({ start: event.currentTarget.value })} />}
        </Field>
        {error && !["title", "target_value", "target_type", "interval", "frequency", "start_date"].includes(error.attr ?? "") && (
          <p class="notice bad" role="alert">
            {error.detail}
          </p>
        )}
      </div>
    </Dialog>
  );
}
