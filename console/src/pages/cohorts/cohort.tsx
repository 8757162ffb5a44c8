// One cohort: its filters or its list, its members, and what uses it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useLocation, useParams } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Cohort, CohortDependents } from "../../api/types";
import { t, tn } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { IconButton } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Page, Tabs } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { History } from "../history";
import { PersonList } from "../persons/list";
import { CohortCount } from "./cohorts";
import { CohortForm } from "./form";

export function CohortPage() {
  const { api, root } = useProject();
  const { cohort: id } = useParams<{ cohort: string }>();
  const path = `${api}/cohorts/${encodeURIComponent(id)}/`;
  const cohort = useQuery({ queryKey: ["cohort", path], queryFn: () => get<Cohort>(path), enabled: id !== "new", refetchOnWindowFocus: false });
  const crumbs = [{ label: t("Cohorts"), to: `${root}/cohorts` }];
  if (id === "new")
    return (
      <Page title={t("New cohort")} crumbs={crumbs}>
        <CohortForm key="new" saved={null} />
      </Page>
    );
  if (!cohort.data)
    return (
      <Page title={t("Cohort")} crumbs={crumbs}>
        <div class="panel">
          <Await query={cohort}>{() => null}</Await>
        </div>
      </Page>
    );
  return <SavedCohort key={cohort.data.id} cohort={cohort.data} path={path} crumbs={crumbs} />;
}

function SavedCohort({ cohort, path, crumbs }: { cohort: Cohort; path: string; crumbs: { label: string; to: string }[] }) {
  const [url] = useUrlState();
  const [address] = useLocation();
  const tab = url.get("tab") ?? "definition";
  const dependents = useQuery({ queryKey: ["cohort dependents", path], queryFn: () => get<CohortDependents>(`${path}dependents/`) });
  const uses = dependents.data ? dependents.data.feature_flags.length + dependents.data.cohorts.length : undefined;
  const tabs = [
    ["definition", cohort.is_static ? t("List") : t("Filters")],
    ["members", t("Members")],
    ["used", uses === undefined ? t("Used by") : t("Used by {n}", { n: uses })],
    ["history", t("History")],
  ].map(([name, label]) => ({ name: name!, label: label!, to: buildUrl(address, { tab: name === "definition" ? null : name! }) }));
  return (
    <Page
      title={cohort.name}
      crumbs={crumbs}
      sub={
        <>
          <CohortCount cohort={cohort} /> {t("persons")} · {cohort.is_static ? t("a list") : t("by filters, counted now")} · {t("created")} <Ago at={cohort.created_at} />
        </>
      }
      actions={<Actions cohort={cohort} path={path} dependents={dependents.data} />}
    >
      <Tabs label={t("Parts of the cohort")} tabs={tabs} current={tab} />
      {tab === "members" ? (
        <PersonList parameters={{ cohort: cohort.id }} empty={<Empty title={t("No one is in this cohort")}>{cohort.is_static ? t("Upload a list of distinct ids.") : t("No person matches its filters now.")}</Empty>} />
      ) : tab === "used" ? (
        <div class="panel">
          <Await query={dependents}>{(found) => <Users found={found} />}</Await>
        </div>
      ) : tab === "history" ? (
        <History path={`${path}activity/`} />
      ) : (
        <CohortForm key={JSON.stringify([cohort.name, cohort.description, cohort.filters])} saved={cohort} />
      )}
    </Page>
  );
}

function Users({ found }: { found: CohortDependents }) {
  const { root } = useProject();
  if (!found.feature_flags.length && !found.cohorts.length) return <Empty title={t("Nothing uses this cohort")}>{t("It can be deleted without an effect on others.")}</Empty>;
  return (
    <ul class="links">
      {found.feature_flags.map((flag) => (
        <li key={`f${flag.id}`}>
          <span class="tag">{t("Flag")}</span>
          <Link href={`${root}/feature_flags/${flag.id}`} class="mono">
            <Value value={flag.key} maxChars={120} />
          </Link>
          <span class="muted">
            <Value value={flag.name} maxChars={120} />
          </span>
        </li>
      ))}
      {found.cohorts.map((cohort) => (
        <li key={`c${cohort.id}`}>
          <span class="tag">{t("Cohort")}</span>
          <Link href={`${root}/cohorts/${cohort.id}`}>
            <Value value={cohort.name} maxChars={120} />
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Actions({ cohort, path, dependents }: { cohort: Cohort; path: string; dependents: CohortDependents | undefined }) {
  const { root } = useProject();
  const [, navigate] = useLocation();
  const [isDeleting, setDeleting] = useState(false);
  const mayEdit = useMay("cohort:write");
  const remove = useMutation({
    mutationFn: () => call("DELETE", path),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["cohorts"] });
      notify(t("{name} is deleted.", { name: cohort.name }));
      navigate(`${root}/cohorts`);
    },
    onError: notifyError,
  });
  const ask = () => {
    void queryClient.invalidateQueries({ queryKey: ["cohort dependents"] });
    setDeleting(true);
  };
  const flags = dependents?.feature_flags.length ?? 0;
  const cohorts = dependents?.cohorts.length ?? 0;
  return (
    <>
      {!mayEdit && <span class="muted small">{NOT_ALLOWED}</span>}
      <Menu
        trigger={<IconButton label={t("Actions for this cohort")} icon="more" />}
        entries={[
          { label: t("Copy as curl"), onSelect: () => void copyText(buildCurl("GET", path)) },
          { label: t("Delete…"), isDangerous: true, isDisabled: !mayEdit, onSelect: ask },
        ]}
      />
      <Confirm title={t("Delete {name}?", { name: cohort.name })} action={t("Delete the cohort")} isDangerous isOpen={isDeleting} isBusy={remove.isPending || flags + cohorts > 0} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
        {flags + cohorts > 0 ? (
          <p>
            {t("It cannot be deleted: {flags} and {cohorts} use it. Change them first.", {
              flags: tn(flags, "{n} flag", "{n} flags"),
              cohorts: tn(cohorts, "{n} cohort", "{n} cohorts"),
            })}
          </p>
        ) : (
          <p>
            {t("No flag and no other cohort uses it.")} <CohortCount cohort={cohort} /> {t("persons are in it; they and their events stay. This cannot be undone.")}
          </p>
        )}
      </Confirm>
    </>
  );
}
