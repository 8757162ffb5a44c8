// The list of surveys.
import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import type { Survey } from "../../api/types";
import { formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { CreateLink, List, NameCell, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago } from "../../ui/show";
import { Empty } from "../../ui/states";
import { getState, type SurveyState } from "./draft";

export function SurveysPage() {
  const { api, root } = useProject();
  const state = useListState();
  const surveys = useList<Survey>("surveys", `${api}/surveys/`, state);
  const counts = useQuery({ queryKey: ["survey counts", api], queryFn: ({ signal }) => get<Record<string, number>>(`${api}/surveys/responses_count/`, {}, signal) });
  const create = (label: string, isQuiet = false) => (
    <CreateLink to={`${root}/surveys/new`} scope="survey:write" isQuiet={isQuiet}>
      {label}
    </CreateLink>
  );
  return (
    <Page title={t("Surveys")} sub={surveys.data ? tn(surveys.data.count, "{n} survey", "{n} surveys") : undefined} actions={create(t("New survey"))}>
      <List
        query={surveys}
        state={state}
        search={t("Search by name or description")}
        empty={
          <Empty title={t("No surveys yet")} action={create(t("Create the first one"), true)}>
            {t("A survey asks people on your web pages. posthog-js shows it and sends the answers as events.")}
          </Empty>
        }
        columns={[t("Survey"), t("State"), t("Questions"), { label: t("Answers"), class: "num" }, t("Since")]}
      >
        {(items) =>
          items.map((survey) => (
            <tr key={survey.id}>
              <NameCell to={`${root}/surveys/${survey.id}`} name={survey.name} description={survey.description} />
              <td class="end">
                <StateTag survey={survey} />
              </td>
              <td class="muted drop">{tn((survey.questions ?? []).length, "{n} question", "{n} questions")}</td>
              <td class="num" data-label={t("Answers")}>{counts.data ? formatNumber(counts.data[survey.id] ?? 0) : counts.error ? t("unknown") : "…"}</td>
              <td class="muted drop">
                <Ago at={survey.end_date ?? survey.start_date ?? survey.created_at} />
              </td>
            </tr>
          ))
        }
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
