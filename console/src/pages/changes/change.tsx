// One change request: the difference, who would get another value, the discussion, and the decision.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useParams } from "wouter-preact";
import { call, get, queryClient } from "../../api/client";
import type { ChangeRequest, WhatIfFigures } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { Button } from "../../ui/controls";
import { Refusal, TextField } from "../../ui/forms";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { type Change, diff } from "../flag/draft";
import { Changes } from "../flag/review";
import { History } from "../history";
import { countApprovals, describeAction, listPromoted, State } from "./changes";

const DONE: Record<string, string> = {
  approved: t("Your approval is recorded."),
  applied: t("The change is applied."),
  rejected: t("The change is rejected."),
  withdrawn: t("The change is withdrawn."),
  failed: t("The change could not be applied."),
};

export function ChangePage() {
  const { api, root } = useProject();
  const { change: id } = useParams<{ change: string }>();
  const path = `${api}/change_requests/${encodeURIComponent(id)}/`;
  const request = useQuery({ queryKey: ["change_request", path], queryFn: () => get<ChangeRequest>(path) });
  const crumbs = [{ label: t("Changes"), to: `${root}/changes` }];
  const found = request.data;
  if (!found)
    return (
      <Page title={t("Change request")} crumbs={crumbs}>
        <div class="panel">
          <Await query={request}>{() => null}</Await>
        </div>
      </Page>
    );
  return (
    <Page
      title={found.resource_name}
      crumbs={crumbs}
      sub={
        <span class="row">
          <State value={found.state} />
          {describeAction(found.action_key)}
          {found.resource_type === "feature_flag" && found.resource_id && <Link href={`${root}/feature_flags/${found.resource_id}`}>{t("Show the flag")}</Link>}
          <span>
            {t("requested by")} <Value value={found.created_by.first_name} maxChars={60} /> <Ago at={found.created_at} />
          </span>
        </span>
      }
    >
      {found.apply_error && <p class="notice bad">{found.apply_error}</p>}
      <section class="panel" aria-label={t("What changes")}>
        <div class="head">
          <h2>{t("What changes")}</h2>
        </div>
        <Changes changes={listChanges(found)} />
      </section>
      <Figures request={found} path={path} />
      <Requirements request={found} />
      <Discussion request={found} path={path} />
      {found.state === "pending" && <DecisionPanel request={found} path={path} />}
      <History path={`${path}activity/`} />
    </Page>
  );
}

/** A promotion has the changes of several flags, and shows those of the first ones. */
function listChanges({ resource_type, intent }: ChangeRequest): Change[] {
  const { gated_changes: after, current_state: before } = intent;
  if (resource_type !== "promotion") return Object.keys(after).flatMap((name) => diff(before[name], after[name], name));
  return listPromoted(intent).flatMap(({ key, action, changes }) =>
    changes
      ? changes.map((each) => ({ path: `${key}: ${each.field}`, before: each.from, after: each.to }))
      : [{ path: key, before: undefined, after: action === "create" ? t("new flag") : t("changed") }],
  );
}

async function refresh() {
  for (const key of ["change_request", "change_requests", "flags", "flag", "history"]) await queryClient.invalidateQueries({ queryKey: [key] });
}

function Figures({ request, path }: { request: ChangeRequest; path: string }) {
  const mayMeasure = useMay("feature_flag:write");
  const measure = useMutation({ mutationFn: () => call<ChangeRequest>("POST", `${path}what_if/`), onSuccess: refresh });
  const figures = request.what_if;
  if (request.resource_type !== "feature_flag") return null;
  return (
    <section class="panel" aria-label={t("Who would get another value")}>
      <div class="head">
        <h2>{t("Who would get another value")}</h2>
        {request.state === "pending" && (
          <Button isSmall disabled={!mayMeasure || measure.isPending} onClick={() => measure.mutate()}>
            {t("Count again")}
          </Button>
        )}
      </div>
      <div class="body stack">
        {!figures ? <p class="muted">{t("Not counted yet.")}</p> : figures.error ? <p class="notice warn">{figures.error}</p> : <FigureText figures={figures} />}
        <Refusal error={measure.error} shown={[]} />
      </div>
    </section>
  );
}

function FigureText({ figures }: { figures: WhatIfFigures }) {
  return (
    <>
      <p>
        <strong>{t("{changed} of {evaluated} people", { changed: figures.changed_persons, evaluated: figures.evaluated_persons })}</strong>{" "}
        {t("who were seen in the last {days} days.", { days: figures.days })}{" "}
        {!figures.is_complete && t("That is a random sample of {total} people.", { total: figures.total_persons })}
      </p>
      {figures.changes.length > 0 && (
        <ul>
          {figures.changes.map((each) => (
            <li key={`${each.before} ${each.after}`}>
              <span class="mono">
                <Value value={each.before} maxChars={60} /> → <Value value={each.after} maxChars={60} />
              </span>
              : {each.persons}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Requirements({ request }: { request: ChangeRequest }) {
  return (
    <section class="panel" aria-label={t("Approvals")}>
      <div class="head">
        <h2>{t("Approvals")}</h2>
        <span class="muted">{countApprovals(request)}</span>
      </div>
      <div class="body stack">
        <ul>
          {request.required_approvals.map((each) => (
            <li key={each.policy_id}>
              {t("{n} of {quorum}", { n: each.approvals, quorum: each.quorum })} {each.roles.length > 0 && t("with the role {roles}", { roles: each.roles.join(", ") })} · <Value value={each.reason} maxChars={300} />
            </li>
          ))}
          {request.approvals.map((each) => (
            <li key={each.id}>
              <strong>
                <Value value={each.created_by.first_name} maxChars={60} />
              </strong>{" "}
              {each.decision === "approved" ? t("approved") : t("rejected")} <Ago at={each.created_at} />
              {each.reason && (
                <>
                  : <Value value={each.reason} maxChars={300} />
                </>
              )}
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

function Discussion({ request, path }: { request: ChangeRequest; path: string }) {
  const mayWrite = useMay("feature_flag:write");
  const [text, setText] = useState("");
  const add = useMutation({
    mutationFn: () => call<ChangeRequest>("POST", `${path}comments/`, { body: { content: text } }),
    onSuccess: async () => {
      setText("");
      await refresh();
    },
  });
  return (
    <section class="panel" aria-label={t("Discussion")}>
      <div class="head">
        <h2>{t("Discussion")}</h2>
      </div>
      <div class="body stack">
        {request.comments.map((each) => (
          <p key={each.id}>
            <strong>
              <Value value={each.created_by.first_name} maxChars={60} />
            </strong>{" "}
            <Ago at={each.created_at} />: <Value value={each.content} maxChars={2000} />
          </p>
        ))}
        <TextField label={t("Comment")} isLong value={text} onInput={setText} />
        <Refusal error={add.error} shown={[]} />
        <div class="row">
          <Button disabled={!mayWrite || !text.trim() || add.isPending} title={mayWrite ? undefined : NOT_ALLOWED} onClick={() => add.mutate()}>
            {t("Add the comment")}
          </Button>
        </div>
      </div>
    </section>
  );
}

function DecisionPanel({ request, path }: { request: ChangeRequest; path: string }) {
  const [reason, setReason] = useState("");
  const decide = useMutation({
    mutationFn: (action: string) => call<{ status: string }>("POST", `${path}${action}/`, action === "cancel" ? {} : { body: { reason } }),
    onSuccess: async (result) => {
      notify(DONE[result.status] ?? result.status);
      await refresh();
    },
  });
  const hasReason = !!reason.trim();
  const needsReason = hasReason ? undefined : t("Give a reason first.");
  return (
    <section class="panel" aria-label={t("Decision")}>
      <div class="head">
        <h2>{t("Decision")}</h2>
        <span class="muted">
          {t("expires")} <Ago at={request.expires_at} />
        </span>
      </div>
      <div class="body stack">
        {request.is_requester && <p class="muted">{t("This is your own change. Another person must approve it.")}</p>}
        {!request.is_requester && !request.can_approve && <p class="muted">{request.user_decision ? t("You have decided on this change.") : t("You are not one of the people who may approve this change.")}</p>}
        <TextField label={t("Reason")} value={reason} onInput={setReason} hint={t("Needed to reject a change, and to apply one without approval.")} />
        <Refusal error={decide.error} shown={[]} />
        <div class="row">
          {request.can_approve && (
            <Button kind="primary" disabled={decide.isPending} onClick={() => decide.mutate("approve")}>
              {t("Approve")}
            </Button>
          )}
          {request.can_approve && (
            <Button disabled={decide.isPending || !hasReason} title={needsReason} onClick={() => decide.mutate("reject")}>
              {t("Reject")}
            </Button>
          )}
          {request.can_cancel && (
            <Button disabled={decide.isPending} onClick={() => decide.mutate("cancel")}>
              {t("Withdraw")}
            </Button>
          )}
          {request.can_break_glass && (
            <Button kind="danger" disabled={decide.isPending || !hasReason} title={needsReason} onClick={() => decide.mutate("break_glass")}>
              {t("Apply without approval")}
            </Button>
          )}
        </div>
      </div>
    </section>
  );
}
