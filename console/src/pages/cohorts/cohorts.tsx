// The list of cohorts.
import { Link } from "wouter-preact";
import type { Cohort } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { SearchInput } from "../../ui/controls";
import { List, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { COUNTED_ROWS, PersonCount } from "../persons/list";
import { readDefinition } from "./definition";

export function CohortsPage() {
  const { api, root } = useProject();
  const state = useListState();
  const cohorts = useList<Cohort>("cohorts", `${api}/cohorts/`, state);
  const mayEdit = useMay("cohort:write");
  const create = (label: string) =>
    mayEdit ? (
      <Link href={`${root}/cohorts/new`} class="button primary">
        {label}
      </Link>
    ) : (
      <span class="muted small">{NOT_ALLOWED}</span>
    );
  return (
    <Page title={t("Cohorts")} sub={cohorts.data ? tn(cohorts.data.count, "{n} cohort", "{n} cohorts") : undefined} actions={create(t("New cohort"))}>
      <div class="row">
        <SearchInput label={t("Search by name or description")} value={state.text} onInput={state.setText} />
      </div>
      <List
        query={cohorts}
        state={state}
        empty={
          <Empty title={t("No cohorts yet")} action={create(t("Create the first one"))}>
            {t("A cohort is a set of people: by their properties, or by a list that you upload. Flags and other cohorts can use it.")}
          </Empty>
        }
      >
        {(items) => (
          <table class="table cards">
            <thead>
              <tr>
                <th scope="col">{t("Cohort")}</th>
                <th scope="col">{t("Who is in it")}</th>
                <th scope="col" class="num">
                  {t("Persons")}
                </th>
                <th scope="col">{t("Created")}</th>
              </tr>
            </thead>
            <tbody>
              {items.map((cohort) => (
                <CohortRow key={cohort.id} cohort={cohort} to={`${root}/cohorts/${cohort.id}`} isLazy={items.length > COUNTED_ROWS} />
              ))}
            </tbody>
          </table>
        )}
      </List>
    </Page>
  );
}

function CohortRow({ cohort, to, isLazy }: { cohort: Cohort; to: string; isLazy: boolean }) {
  return (
    <tr>
      <td class="first">
        <Link href={to} class="name">
          <Value value={cohort.name} maxChars={120} />
        </Link>
        {cohort.description && (
          <div class="muted small">
            <Value value={cohort.description} maxChars={140} />
          </div>
        )}
      </td>
      <td class="muted">{describe(cohort)}</td>
      <td class="num">
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
