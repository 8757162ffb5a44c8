// Promote flags to another environment: the exact difference first, then all of them or none.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ApiError, buildCurl, call } from "../../api/client";
import { explain } from "../../api/errors";
import type { Product, Promotion } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Check, useSubmit } from "../../ui/forms";
import { copyText, Value } from "../../ui/show";
import { Loading } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { Changes } from "../flag/review";
import { type Route, RouteChoice } from "./compare";
import { PARTS, productPath, refreshEnvironments, toChanges } from "./products";

interface Props {
  product: Product;
  keys: string[];
  onClose: () => void;
  onDone: () => void;
}

/** Start with the project of the page, and the environment after it. */
function findRoute(product: Product, project: string): Route {
  const names = product.environments.map((each) => each.name);
  const own = product.environments.findIndex((each) => String(each.project_id) === project);
  const from = own >= 0 && own < names.length - 1 ? own : Math.max(0, names.length - 2);
  return { from: names[from] ?? "", to: names[from + 1] ?? "" };
}

export function PromoteDialog({ product, keys, onClose, onDone }: Props) {
  const { id } = useProject();
  const [route, setRoute] = useState<Route>(() => findRoute(product, id));
  const [parts, setParts] = useState<string[]>(Object.keys(PARTS));
  const [withCohorts, setWithCohorts] = useState(true);
  const path = `${productPath(product)}promote/`;
  const body = { ...route, flags: keys, with_cohorts: withCohorts, ...(parts.length < Object.keys(PARTS).length ? { parts } : {}) };
  const rehearsal = useQuery({
    queryKey: ["promotion", path, body],
    queryFn: () => call<Promotion>("POST", path, { body: { ...body, dry_run: true } }),
    enabled: parts.length > 0,
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 0,
  });
  const form = useSubmit(async () => {
    const done = await call<Promotion>("POST", path, { body: { ...body, versions: rehearsal.data?.versions } });
    await refreshEnvironments();
    notify(t("{to} has the flags now: {created} new, {updated} changed.", { to: done.to, created: done.created, updated: done.updated }));
    onDone();
  });
  const found = rehearsal.error ? undefined : rehearsal.data;
  const isGated = !!found?.required_approvals?.length;
  const isNothing = !!found && !found.created && !found.updated;
  return (
    <Dialog
      title={keys.length === 1 ? t("Promote {flag}", { flag: keys[0]! }) : tn(keys.length, "Promote {n} flag", "Promote {n} flags")}
      isOpen
      isWide
      onClose={onClose}
      footer={
        <>
          <Button kind="quiet" onClick={() => void copyText(buildCurl("POST", path, body))}>
            {t("Copy as curl")}
          </Button>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" disabled={form.isBusy || rehearsal.isFetching || !parts.length || isNothing || !!form.error || !!rehearsal.error} onClick={() => form.submit()}>
            {isGated ? t("Request the promotion") : t("Promote to {to}", { to: route.to })}
          </Button>
        </>
      }
    >
      <div class="body stack" aria-busy={rehearsal.isFetching}>
        <RouteChoice product={product} route={route} onChange={setRoute} />
        <fieldset class="plain">
          <legend class="label">{t("What to promote")}</legend>
          <div class="row">
            {Object.entries(PARTS).map(([name, label]) => (
              <Check key={name} label={label} isOn={parts.includes(name)} onChange={(isOn) => setParts(Object.keys(PARTS).filter((each) => (each === name ? isOn : parts.includes(each))))} />
            ))}
          </div>
          <Check label={t("Create cohorts that {to} lacks", { to: route.to })} isOn={withCohorts} onChange={setWithCohorts} />
        </fieldset>
        <Outcome error={form.error} product={product} route={route} />
        {!parts.length ? (
          <p class="muted">{t("Choose at least one part.")}</p>
        ) : rehearsal.error ? (
          <p class="notice bad" role="alert">
            {explain(rehearsal.error)}
          </p>
        ) : found ? (
          <>
            {isGated && !form.error && <Approvals plan={found} />}
            <Plan plan={found} />
          </>
        ) : (
          <Loading rows={4} />
        )}
      </div>
    </Dialog>
  );
}

/** What other people have to approve before the flags are promoted. */
function Approvals({ plan }: { plan: Promotion }) {
  return (
    <div class="notice warn">
      <p>{t("A change of {to} waits until another person has approved it.", { to: plan.to })}</p>
      {plan.required_approvals?.map((each) => (
        <p key={each} class="small">
          <Value value={each} />
        </p>
      ))}
    </div>
  );
}

/** Why a promotion was not made, with the request that waits instead. */
function Outcome({ error, product, route }: { error: unknown; product: Product; route: Route }) {
  if (!error) return null;
  const request = error instanceof ApiError ? error.body.change_request_id : undefined;
  const target = product.environments.find((each) => each.name === route.to)?.project_id;
  return (
    <p class={`notice ${request ? "warn" : "bad"}`} role="alert">
      {explain(error)} {request ? <Link href={`/project/${target}/changes/${String(request)}`}>{t("Show the change request")}</Link> : null}
    </p>
  );
}

const MAX_SHOWN = 50;

function Plan({ plan }: { plan: Promotion }) {
  const changed = plan.flags.filter((each) => each.action !== "none");
  const same = plan.flags.length - changed.length;
  return (
    <div class="stack" role="status">
      <p>
        <strong>{t("{created} new, {updated} changed", { created: plan.created, updated: plan.updated })}</strong>
        {same > 0 && ` · ${tn(same, "{n} flag is the same already", "{n} flags are the same already")}`}. {changed.length > 0 && t("All of them, or none if one is refused.")}
      </p>
      {plan.cohorts.length > 0 && (
        <p class="notice">
          {tn(plan.cohorts.length, "{n} cohort is created there:", "{n} cohorts are created there:")} <Value value={plan.cohorts.map((each) => each.name + (each.is_static ? ` (${t("without its members")})` : "")).join(", ")} />
        </p>
      )}
      {changed.slice(0, MAX_SHOWN).map((each) => (
        <section key={each.key} class="panel flush" aria-label={each.key}>
          <div class="head">
            <h3 class="mono">
              <Value value={each.key} maxChars={120} />
            </h3>
            <span class="tag">{each.action === "create" ? t("New") : t("Changed")}</span>
          </div>
          {each.changes.length > 0 && <Changes changes={toChanges(each.changes)} labels={[t("{name} now", { name: plan.to }), t("{name} then", { name: plan.to })]} />}
        </section>
      ))}
      {changed.length > MAX_SHOWN && <p class="muted">{t("and {n} more", { n: changed.length - MAX_SHOWN })}</p>}
    </div>
  );
}
