// The list of cohorts.
import type { Cohort } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { CreateLink, List, NameCell, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago } from "../../ui/show";
import { Empty } from "../../ui/states";
import { COUNTED_ROWS, PersonCount } from "../persons/list";
import { readDefinition } from "./definition";

export function CohortsPage() {
  const { api, root } = useProject();
  const state = useListState();
  const cohorts = useList<Cohort>("cohorts", `${api}/cohorts/`, state);
  const create = (label: string, isQuiet = false) => (
    <CreateLink to={`${root}/cohorts/new`} scope="cohort:write" isQuiet={isQuiet}>
      {label}
    </CreateLink>
  );
  return (
    <Page title={t("Cohorts")} sub={cohorts.data ? tn(cohorts.data.count, "{n} cohort", "{n} cohorts") : undefined} actions={create(t("New cohort"))}>
      <List
        query={cohorts}
        state={state}
        search={t("Search by name or description")}
        empty={
          <Empty title={t("No cohorts yet")} action={create(t("Create the first one"), true)}>
            {t("A cohort is a set of people: by their properties, or by a list that you upload. Flags and other cohorts can use it.")}
          </Empty>
        }
        columns={[t("Cohort"), t("Who is in it"), { label: t("Persons"), class: "num" }, t("Created")]}
      >
        {(items) => items.map((cohort) => <CohortRow key={cohort.id} cohort={cohort} to={`${root}/cohorts/${cohort.id}`} isLazy={items.length > COUNTED_ROWS} />)}
      </List>
    </Page>
  );
}

function CohortRow({ cohort, to, isLazy }: { cohort: Cohort; to: string; isLazy: boolean }) {
  return (
    <tr>
      <NameCell to={to} name={cohort.name} description={cohort.description} />
      <td class="muted">{describe(cohort)}</td>
      <td class="num" data-label={t("Persons")}>
        <CohortCount cohort={cohort} isLazy={isLazy} />
      </td>
      <td class="muted drop">
        <Ago at={cohort.created_at} />
      </td>
    </tr>
  );
}

function describe(cohort: Cohort): string {
  if (cohort.is_static) return t("A list of persons");
  const groups = readDefinition((cohort.filters as { properties?: unknown }).properties);
  if (!groups) return t("Nested filters");
  const filters = groups.reduce((sum, each) => sum + each.filters.length, 0);
  return groups.length > 1 ? t("{filters} filters in {groups} groups", { filters, groups: groups.length }) : tn(filters, "{n} filter", "{n} filters");
}

/** How many persons are in a cohort now. The service counts dynamic ones when they are shown. */
export function CohortCount({ cohort, isLazy = false }: { cohort: Cohort; isLazy?: boolean }) {
  if (cohort.is_static) return <>{formatNumber(cohort.count ?? 0)}</>;
  return <PersonCount parameters={{ cohort: cohort.id }} isLazy={isLazy} label={t("Count the persons of {name}", { name: cohort.name })} />;
}
