// The results of an experiment: the verdict, who saw what, and each metric as a chart and a table.
import { useQuery } from "@tanstack/react-query";
import { call, get } from "../../api/client";
import type { Experiment, ExperimentResults, MetricResult, VariantResult } from "../../api/types";
import { saveFile } from "../../lib/files";
import { formatNumber, formatPercent, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { Ago, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { buildScale, explainFailure, formatChance, formatLift, formatValue, getInterval, isBetter, judge, judgeMetric, toCsv } from "./verdict";
import { notifyError } from "../../ui/toasts";

export function useResults(experiment: Experiment) {
  const { api } = useProject();
  return useQuery({
    queryKey: ["experiment results", api, experiment.id, experiment.updated_at],
    queryFn: ({ signal }) => get<ExperimentResults>(`${api}/experiments/${experiment.id}/results/`, {}, signal),
    staleTime: 60_000,
    refetchOnWindowFocus: false,
    enabled: experiment.status !== "draft",
  });
}

export function Results({ experiment, query }: { experiment: Experiment; query: ReturnType<typeof useResults> }) {
  const { api } = useProject();
  const refresh = async () => {
    await call("GET", `${api}/experiments/${experiment.id}/results/`, { query: { refresh: "true" } }).catch(notifyError);
    await query.refetch();
  };
  if (experiment.status === "draft")
    return (
      <div class="panel">
        <Empty title={t("Not launched yet")}>{t("Results appear here after the launch, as soon as people see a variant.")}</Empty>
      </div>
    );
  return (
    <Await query={query}>
      {(results) => (
        <div class="stack l" aria-busy={query.isFetching}>
          <VerdictNote results={results} />
          {results.warnings.map((each) => (
            <p key={each.detail} class="notice warn">
              {each.detail}
            </p>
          ))}
          <Exposures results={results} />
          {[...results.metrics, ...results.metrics_secondary].map((metric, index) => (
            <Metric key={`${index}`} metric={metric} results={results} isSecondary={index >= results.metrics.length} />
          ))}
          <p class="row small muted">
            {results.method === "frequentist" ? t("Frequentist, confidence {level}.", { level: formatPercent(results.level * 100) }) : t("Bayesian, credible intervals of {level}.", { level: formatPercent(results.level * 100) })}{" "}
            {t("Computed")} <Ago at={results.last_refresh} />
            <Button isSmall kind="quiet" onClick={() => void refresh()}>
              {t("Compute again")}
            </Button>
            <Button isSmall kind="quiet" icon="download" onClick={() => saveFile(`experiment-${experiment.id}.csv`, "text/csv", toCsv(results))}>
              {t("Download CSV")}
            </Button>
          </p>
        </div>
      )}
    </Await>
  );
}

function VerdictNote({ results }: { results: ExperimentResults }) {
  const { tone, text } = judge(results);
  return (
    <section class={`verdict-note ${tone}`} aria-label={t("Verdict")}>
      <Value value={text} maxChars={600} />
    </section>
  );
}

function Exposures({ results }: { results: ExperimentResults }) {
  const { total_exposures: counts, sample_ratio_mismatch: check } = results.exposures;
  const keys = Object.keys(counts);
  const total = keys.filter((key) => key !== "$multiple").reduce((sum, key) => sum + counts[key]!, 0);
  return (
    <section class="panel" aria-label={t("Who saw which variant")}>
      <div class="head">
        <h2>{t("Who saw which variant")}</h2>
        <span class="muted">{tn(total, "{n} person", "{n} persons")}</span>
      </div>
      <div class="body stack">
        <div class="bars">
          {keys.map((key, index) => (
            <div class="bar" key={key}>
              <span class="cut" title={key}>
                {key === "$multiple" ? t("several") : <Value value={key} maxChars={40} />}
              </span>
              <span class="track" aria-hidden="true">
                <span class="fill" style={{ width: `${(counts[key]! / Math.max(total, 1)) * 100}%`, background: `var(--series-${key === "$multiple" ? 0 : (index % 5) + 1})` }} />
              </span>
              <span class="num">
                {formatNumber(counts[key]!)}{" "}
                <span class="muted small">{key === "$multiple" ? t("left out") : formatPercent(total ? Math.round((counts[key]! / total) * 1000) / 10 : 0)}</span>
              </span>
            </div>
          ))}
        </div>
        {check &&
          (check.is_mismatch ? (
            <p class="notice bad">{check.warning ?? t("People are not split as the flag says.")}</p>
          ) : (
            <p class="small muted">{t("The split fits the percentages of the flag.")}</p>
          ))}
      </div>
    </section>
  );
}

function Metric({ metric, results, isSecondary }: { metric: MetricResult; results: ExperimentResults; isSecondary: boolean }) {
  const verdict = judgeMetric(metric, results.level);
  return (
    <section class="panel" aria-label={metric.name}>
      <div class="head">
        <h2>
          <Value value={metric.name} maxChars={120} />
        </h2>
        <span class="row">
          {isSecondary && <span class="tag">{t("Secondary")}</span>}
          <span class="tag">{{ funnel: t("Conversion"), mean: t("Mean"), ratio: t("Ratio") }[metric.metric_type] ?? metric.metric_type}</span>
          {metric.cuped && <span class="tag info">{t("CUPED")}</span>}
          {metric.goal === "decrease" && <span class="tag">{t("Lower is better")}</span>}
        </span>
      </div>
      <div class="body stack">
        <p>
          <Value value={verdict.text} maxChars={600} />
        </p>
        {metric.cuped && (
          <p class="muted small">
            {t("Adjusted by what people did in the {days} days before: history explains {share} of the variance. The sums are as observed.", {
              days: metric.cuped.lookback_days,
              share: formatPercent(Math.round(metric.cuped.variance_reduction * 1000) / 10),
            })}
          </p>
        )}
        {!metric.error && (
          <>
            <IntervalChart metric={metric} />
            <MetricTable metric={metric} isFrequentist={results.method === "frequentist"} />
          </>
        )}
      </div>
    </section>
  );
}

/** Each variant's possible difference to control. The table below has the same figures. */
function IntervalChart({ metric }: { metric: MetricResult }) {
  const shown = metric.variant_results.filter((each) => getInterval(each));
  if (!shown.length) return null;
  const { low, high, marks } = buildScale(shown.map((each) => getInterval(each)!));
  const place = (value: number) => `${((value - low) / (high - low)) * 100}%`;
  return (
    <div class="intervals" role="img" aria-label={t("Differences to control with their intervals. The table below has the figures.")}>
      {shown.map((each) => {
        const [from, to] = getInterval(each)!;
        const tone = each.significant ? (isBetter(metric, each) ? "good" : "bad") : "open";
        return (
          <div class="interval" key={each.key}>
            <span class="cut">
              <Value value={each.key} maxChars={40} />
            </span>
            <span class="plot">
              <span class="zero" style={{ left: place(0) }} />
              <span class={`range ${tone}`} style={{ left: place(from), right: `calc(100% - ${place(to)})` }} />
              {each.lift !== null && <span class={`point ${tone}`} style={{ left: place(each.lift) }} />}
            </span>
          </div>
        );
      })}
      <div class="interval axis" aria-hidden="true">
        <span />
        <span class="plot">
          {marks.map((mark) => (
            <span key={mark} class="mark" style={{ left: place(mark) }}>
              {formatLift(mark)}
            </span>
          ))}
        </span>
      </div>
    </div>
  );
}

function MetricTable({ metric, isFrequentist }: { metric: MetricResult; isFrequentist: boolean }) {
  const rows = [metric.baseline, ...metric.variant_results].filter((each): each is VariantResult => !!each);
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={t("Figures of {name}", { name: metric.name })}>
      <table class="table plain-numbers">
        <thead>
          <tr>
            <th scope="col">{t("Variant")}</th>
            <th scope="col" class="num">
              {t("People")}
            </th>
            <th scope="col" class="num">
              {metric.metric_type === "funnel" ? t("Converted") : t("Sum")}
            </th>
            <th scope="col" class="num">
              {metric.metric_type === "funnel" ? t("Rate") : t("Value")}
            </th>
            <th scope="col" class="num">
              {t("Difference")}
            </th>
            <th scope="col">{t("Interval")}</th>
            <th scope="col" class="num">
              {isFrequentist ? t("p-value") : t("Chance to win")}
            </th>
            <th scope="col">{t("Certain")}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((each) => {
            const interval = getInterval(each);
            return (
              <tr key={each.key}>
                <td class="name">
                  <Value value={each.key} maxChars={60} />
                </td>
                <td class="num">{formatNumber(each.number_of_samples)}</td>
                <td class="num">{each.sum === null ? "–" : formatNumber(each.sum)}</td>
                <td class="num">{formatValue(each.value, metric.metric_type)}</td>
                <td class="num">{each === metric.baseline ? "" : formatLift(each.lift)}</td>
                <td>{interval ? t("{low} to {high}", { low: formatLift(interval[0]), high: formatLift(interval[1]) }) : ""}</td>
                <td class="num">{each === metric.baseline ? "" : isFrequentist ? (each.p_value === null ? "–" : each.p_value.toPrecision(2)) : formatChance(each.chance_to_win)}</td>
                <td>{each === metric.baseline ? "" : each.significant === null ? <span class="muted">{each.validation_failures.map(explainFailure).join(", ")}</span> : each.significant ? t("yes") : t("no")}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
