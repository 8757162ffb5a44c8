// Scheduled changes: of one flag as a part of its editor, and of all flags as a page.
import { useMutation } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { call, queryClient } from "../../../api/client";
import type { Flag, ScheduledChange } from "../../../api/types";
import { formatDate, t, tn } from "../../../lib/text";
import { useLocalState } from "../../../lib/url";
import { useProject } from "../../../shell/project";
import { useRefusal } from "../../../shell/rights";
import { Button, Choices } from "../../../ui/controls";
import { Confirm } from "../../../ui/dialog";
import { ACTIONS, List, type ListState, useList, useListState, useListStateIn } from "../../../ui/list";
import { Page } from "../../../ui/page";
import { Ago, Value } from "../../../ui/show";
import { Empty } from "../../../ui/states";
import { notify, notifyError } from "../../../ui/toasts";
import { FlagTabs } from "../../flags/tabs";
import { ScheduleDialog } from "./form";
import { describeOperation, describeRepeat, toSame } from "./plan";

const EVERY_MS = 10_000;

export function ScheduledChangesPage() {
  const { api } = useProject();
  const state = useListState("pending");
  const changes = useChanges(state, {});
  return (
    <Page title={t("Scheduled changes")} sub={changes.data ? tn(changes.data.count, "{n} change", "{n} changes") : undefined}>
      <FlagTabs current="scheduled" />
      <ChangeList
        key={api}
        changes={changes}
        state={state}
        hasFlag
        empty={<Empty title={t("Nothing is scheduled")}>{t("Open a flag and schedule a change there: turn it on at a time, or roll it out in steps.")}</Empty>}
      />
    </Page>
  );
}

interface ScheduleProps {
  flag: Flag;
  unsaved: Record<string, unknown> | null;
  /** The unsaved changes are scheduled and need not be kept. */
  onDraftScheduled: () => void;
}

/** The part of the flag editor. */
export function Schedule({ flag, unsaved, onDraftScheduled }: ScheduleProps) {
  const refusal = useRefusal("feature_flag:write");
  const [isNew, setNew] = useState(false);
  const state = useListStateIn(useLocalState(), "pending");
  const changes = useChanges(state, { record_id: flag.id });
  const create = (
    <Button kind="primary" disabled={!!refusal} title={refusal} onClick={() => setNew(true)}>
      {t("Schedule a change")}
    </Button>
  );
  return (
    <section class="stack" aria-label={t("Schedule")}>
      <ChangeList
        changes={changes}
        state={state}
        controls={
          <>
            <span class="grow" />
            {create}
          </>
        }
        empty={<Empty title={t("Nothing is scheduled")}>{t("Turn the flag on or off at a time, again and again, or roll it out to more people step by step.")}</Empty>}
      />
      {isNew && (
        <ScheduleDialog
          flag={flag}
          unsaved={unsaved}
          onDone={(isDraft) => {
            setNew(false);
            if (isDraft) onDraftScheduled();
          }}
          onClose={() => setNew(false)}
        />
      )}
    </section>
  );
}

function useChanges(state: ListState, parameters: { record_id?: number }) {
  const { api } = useProject();
  return useList<ScheduledChange>("scheduled changes", `${api}/scheduled_changes/`, state, { ...parameters, pending: state.filters.pending ?? "" }, { everyMs: EVERY_MS });
}

interface ChangeListProps {
  changes: ReturnType<typeof useChanges>;
  state: ListState;
  hasFlag?: boolean;
  controls?: ComponentChildren;
  empty: ComponentChildren;
}

function ChangeList({ changes, state, hasFlag = false, controls, empty }: ChangeListProps) {
  return (
    <List
      query={changes}
      state={state}
      {...(hasFlag ? { search: t("Search by the key of the flag") } : {})}
      controls={
        <>
          <Choices
            label={t("Which changes")}
            value={state.filters.pending ?? ""}
            onChange={(value) => state.setFilter("pending", value)}
            choices={[
              { value: "", label: t("All") },
              { value: "true", label: t("To come") },
              { value: "false", label: t("Ended") },
            ]}
          />
          {controls}
        </>
      }
      empty={empty}
      columns={[...(hasFlag ? [t("Flag")] : []), t("Change"), t("When"), t("Repeats"), t("Outcome"), t("By"), ACTIONS]}
    >
      {(items) => items.map((each) => <Row key={each.id} change={each} hasFlag={hasFlag} />)}
    </List>
  );
}

function Row({ change, hasFlag }: { change: ScheduledChange; hasFlag: boolean }) {
  const { root } = useProject();
  const what = describeOperation(change.payload);
  return (
    <tr>
      {hasFlag && (
        <td class="first">
          <Link href={`${root}/feature_flags/${change.record_id}?tab=schedule`} class="name mono">
            <Value value={change.flag_key || change.record_id} maxChars={120} />
          </Link>
        </td>
      )}
      <td class={hasFlag ? "wide" : "first"}>
        <span class={hasFlag ? "" : "name"}>{what}</span>
      </td>
      <td>
        {formatDate(change.scheduled_at)}
        <div class="muted small">
          <Ago at={change.scheduled_at} />
        </div>
      </td>
      <td class="muted">{describeRepeat(change)}</td>
      <td>
        <Outcome change={change} />
      </td>
      <td class="muted drop">
        <Value value={change.created_by?.first_name || change.created_by?.email || ""} maxChars={60} />
      </td>
      <td class="shrink end">
        <Cancel change={change} what={what} />
      </td>
    </tr>
  );
}

function Outcome({ change }: { change: ScheduledChange }) {
  const last = change.last_executed_at ?? change.executed_at;
  return (
    <>
      {change.failure_reason ? (
        <>
          <span class="tag bad">{t("Failed")}</span>
          <div class="error-text">
            <Value value={change.failure_reason} maxChars={300} />
          </div>
        </>
      ) : (
        <span class={`tag ${change.executed_at ? "on" : "info"}`}>{change.executed_at ? t("Done") : t("To come")}</span>
      )}
      {last && (
        <div class="muted small">
          {t("Last executed")} <Ago at={last} />
        </div>
      )}
    </>
  );
}

/** Cancel a change to come, or remove one that has ended from the list. */
function Cancel({ change, what }: { change: ScheduledChange; what: string }) {
  const { api } = useProject();
  const refusal = useRefusal("feature_flag:write");
  const [isAsked, setAsked] = useState(false);
  const refresh = () => queryClient.invalidateQueries({ queryKey: ["scheduled changes"] });
  const restore = () => void call("POST", `${api}/scheduled_changes/`, { body: toSame(change) }).then(refresh, notifyError);
  const cancel = useMutation({
    mutationFn: () => call("DELETE", `${api}/scheduled_changes/${change.id}/`),
    onSuccess: () => {
      setAsked(false);
      if (change.executed_at) notify(t("The entry is removed."));
      else notify(t("The change is cancelled."), "good", { label: t("Undo"), run: restore });
    },
    onError: notifyError,
    onSettled: refresh,
  });
  const isOver = change.executed_at !== null;
  return (
    <>
      <Button isSmall disabled={!!refusal} title={refusal} aria-label={isOver ? t("Remove the entry “{what}”", { what }) : t("Cancel “{what}”", { what })} onClick={() => setAsked(true)}>
        {isOver ? t("Remove…") : t("Cancel…")}
      </Button>
      <Confirm title={isOver ? t("Remove the entry?") : t("Cancel the change?")} action={isOver ? t("Remove the entry") : t("Cancel the change")} dismissal={t("Keep it")} isDangerous isOpen={isAsked} isBusy={cancel.isPending} onConfirm={() => cancel.mutate()} onClose={() => setAsked(false)}>
        <p>
          <strong>{change.flag_key}</strong>: {what}, {formatDate(change.scheduled_at)}
        </p>
        <p>{isOver ? t("Only this entry goes. The flag stays as it is, and its history keeps the change.") : change.is_recurring ? t("It does not happen again. Changes that were made before stay.") : t("The flag stays as it is. You can undo it.")}</p>
      </Confirm>
    </>
  );
}
