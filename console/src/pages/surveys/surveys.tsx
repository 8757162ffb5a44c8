// The list of surveys.
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter-preact";
import { get } from "../../api/client";
import type { Survey } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { SearchInput } from "../../ui/controls";
import { List, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { getState, type SurveyState } from "./draft";

export function SurveysPage() {
  const { api, root } = useProject();
  const state = useListState();
  const surveys = useList<Survey>("surveys", `${api}/surveys/`, state);
  const counts = useQuery({ queryKey: ["survey counts", api], queryFn: ({ signal }) => get<Record<string, number>>(`${api}/surveys/responses_count/`, {}, signal) });
  const mayEdit = useMay("survey:write");
  const create = (label: string) =>
    mayEdit ? (
      <Link href={`${root}/surveys/new`} class="button primary">
        {label}
      </Link>
    ) : (
      <span class="muted small">{NOT_ALLOWED}</span>
    );
  return (
    <Page title={t("Surveys")} sub={surveys.data ? tn(surveys.data.count, "{n} survey", "{n} surveys") : undefined} actions={create(t("New survey"))}>
      <div class="row">
        <SearchInput label={t("Search by name or description")} value={state.text} onInput={state.setText} />
      </div>
      <List
        query={surveys}
        state={state}
        empty={
          <Empty title={t("No surveys yet")} action={create(t("Create the first one"))}>
            {t("A survey asks people on your web pages. posthog-js shows it and sends the answers as events.")}
          </Empty>
        }
      >
        {(items) => (
          <table class="table cards">
            <thead>
              <tr>
                <th scope="col">{t("Survey")}</th>
                <th scope="col">{t("State")}</th>
                <th scope="col">{t("Questions")}</th>
                <th scope="col" class="num">
                  {t("Answers")}
                </th>
                <th scope="col">{t("Since")}</th>
              </tr>
            </thead>
            <tbody>
              {items.map((survey) => (
                <tr key={survey.id}>
                  <td class="first">
                    <Link href={`${root}/surveys/${survey.id}`} class="name">
                      <Value value={survey.name} maxChars={120} />
                    </Link>
                    {survey.description && (
                      <div class="muted small">
                        <Value value={survey.description} maxChars={140} />
                      </div>
                    )}
                  </td>
                  <td class="end">
                    <StateTag survey={survey} />
                  </td>
                  <td class="muted drop">{tn((survey.questions ?? []).length, "{n} question", "{n} questions")}</td>
                  <td class="num">{counts.data ? formatNumber(counts.data[survey.id] ?? 0) : counts.error ? t("unknown") : "…"}</td>
                  <td class="muted drop">
                    <Ago at={survey.end_date ?? survey.start_date ?? survey.created_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </List>
    </Page>
  );
}

const STATES: Record<SurveyState, [label: string, tone: string]> = {
  draft: [t("Draft"), ""],
  running: [t("Running"), "on"],
  ended: [t("Ended"), "info"],
  archived: [t("Archived"), ""],
};

export function StateTag({ survey }: { survey: Survey }) {
  const [label, tone] = STATES[getState(survey)];
  return <span class={`tag ${tone}`}>{label}</span>;
}
