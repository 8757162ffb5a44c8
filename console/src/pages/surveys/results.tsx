// The answers to a survey: who saw it, and each question.
import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import type { Survey, SurveyStats } from "../../api/types";
import { runQuery } from "../../lib/query";
import { formatNumber, formatPercent, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import type { DraftQuestion } from "./draft";
import { stripTags } from "./draft";
import { summarize } from "./summary";

export function SurveyResults({ survey }: { survey: Survey }) {
  const { api } = useProject();
  const stats = useQuery({ queryKey: ["survey stats", api, survey.id], queryFn: ({ signal }) => get<SurveyStats>(`${api}/surveys/${survey.id}/stats/`, {}, signal) });
  return (
    <div class="stack l">
      <Await query={stats}>{(found) => <Figures stats={found} />}</Await>
      {((survey.questions ?? []) as unknown as DraftQuestion[]).map((question, index) => (
        <Question key={question.id ?? index} survey={survey} question={question} index={index} />
      ))}
    </div>
  );
}

function Figures({ stats }: { stats: SurveyStats }) {
  const of = (name: string) => stats.stats[name];
  const figures: [string, string, string][] = [
    [t("Shown"), formatNumber(of("survey shown")?.total_count ?? 0), tn(of("survey shown")?.unique_persons ?? 0, "to {n} person", "to {n} persons")],
    [t("Answered"), formatNumber(of("survey sent")?.total_count ?? 0), t("{rate} of views", { rate: formatPercent(stats.rates.response_rate) })],
    [t("Dismissed"), formatNumber(of("survey dismissed")?.total_count ?? 0), t("{rate} of views", { rate: formatPercent(stats.rates.dismissal_rate) })],
  ];
  return (
    <section class="panel" aria-label={t("Views and answers")}>
      <div class="body figures">
        {figures.map(([label, value, note]) => (
          <div class="figure stack s" key={label}>
            <span class="muted">{label}</span>
            <span class="value">{value}</span>
            <span class="muted small">{note}</span>
          </div>
        ))}
      </div>
    </section>
  );
}

// One answer for each submission, the last one. Answers have the id of their question; older SDKs sent its place.
const ANSWERS =
  "select answer, count() as n, max(at) as last from (" +
  "select argMax(if(JSONExtractRaw(properties, {key}) != '', JSONExtractRaw(properties, {key}), JSONExtractRaw(properties, {place})), timestamp) as answer, max(timestamp) as at, " +
  "if(JSONExtractString(properties, '$survey_submission_id') != '', JSONExtractString(properties, '$survey_submission_id'), toString(uuid)) as submission " +
  "from events where event = 'survey sent' and JSONExtractString(properties, '$survey_id') = {survey} group by submission" +
  ") where answer != '' and answer != 'null' group by answer order by n desc, last desc limit 1000";

function Question({ survey, question, index }: { survey: Survey; question: DraftQuestion; index: number }) {
  const { api } = useProject();
  const values = { survey: survey.id, key: `$survey_response_${question.id}`, place: index ? `$survey_response_${index}` : "$survey_response" };
  const answers = useQuery({
    queryKey: ["survey answers", api, values],
    queryFn: ({ signal }) => runQuery<[string, number, string]>(api, ANSWERS, values, signal),
  });
  const title = stripTags(question.question);
  return (
    <section class="panel" aria-label={title}>
      <div class="head">
        <h2>
          <Value value={title} maxChars={200} />
        </h2>
      </div>
      <Await query={answers} rows={3}>
        {(rows) => {
          const summary = summarize(question, rows);
          if (!summary.count) return <Empty title={t("No answers yet")} />;
          return (
            <div class="body stack">
              <p class="muted">
                {tn(summary.count, "{n} answer", "{n} answers")}
                {summary.average !== null && ` · ${t("average {value}", { value: formatNumber(Math.round(summary.average * 100) / 100) })}`}
                {summary.nps !== null && ` · ${t("NPS {value}", { value: Math.round(summary.nps) })}`}
              </p>
              {summary.bars && (
                <table class="table answers">
                  <thead class="hidden-text">
                    <tr>
                      <th scope="col">{t("Answer")}</th>
                      <th scope="col">{t("Count")}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {summary.bars.map(([label, count]) => (
                      <tr key={label}>
                        <td>
                          <Value value={label} maxChars={80} />
                        </td>
                        <td>
                          <div class="bar">
                            <span class="track" aria-hidden="true">
                              <span class="fill" style={{ width: `${(count / summary.count) * 100}%`, background: "var(--series-1)" }} />
                            </span>
                            <span class="num">
                              {formatNumber(count)} <span class="muted small">{formatPercent(Math.round((count / summary.count) * 1000) / 10)}</span>
                            </span>
                          </div>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              )}
              {summary.texts && (
                <ul class="texts" aria-label={t("Answers as text")}>
                  {summary.texts.slice(0, 100).map(([text, count]) => (
                    <li key={text}>
                      <Value value={text} />
                      {count > 1 && <span class="tag">× {formatNumber(count)}</span>}
                    </li>
                  ))}
                </ul>
              )}
            </div>
          );
        }}
      </Await>
    </section>
  );
}
