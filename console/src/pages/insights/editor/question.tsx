// The question of an insight: its kind, its events, filters and breakdown.
import { ApiError } from "../../../api/client";
import { t } from "../../../lib/text";
import { useProject } from "../../../shell/project";
import { Choices, Field } from "../../../ui/controls";
import { Filters } from "./filters";
import { BreakdownInput, FunnelOptions, PathsOptions, RetentionOptions } from "./options";
import { changeKind, KINDS, type Kind, listFilters, type Source } from "../query";
import { findSeriesErrors } from "../run";
import { SeriesList } from "./series";

interface Props {
  source: Source;
  error: unknown;
  onChange: (part: Partial<Source>) => void;
  onReplace: (source: Source) => void;
}

export function Question({ source, error, onChange, onReplace }: Props) {
  const { project } = useProject();
  const kind = source.kind as Kind;
  const filters = listFilters(source.properties);
  const errors = error instanceof ApiError ? findSeriesErrors(error.attr, error.detail) : {};
  const hasTestAccounts = !!(project as { test_account_filters?: unknown[] } | undefined)?.test_account_filters?.length;
  return (
    <section class="panel question" aria-label={t("Question")}>
      <div class="body stack">
        <Choices label={t("Kind of insight")} value={kind} choices={KINDS} onChange={(next) => onReplace(changeKind(source, next))} />
        {(kind === "TrendsQuery" || kind === "FunnelsQuery") && (
          <div class="stack s">
            <h2>{kind === "TrendsQuery" ? t("Series") : t("Steps")}</h2>
            <SeriesList series={source.series ?? []} areSteps={kind === "FunnelsQuery"} errors={errors} onChange={(series) => onChange({ series })} />
          </div>
        )}
        {kind === "TrendsQuery" && (source.series?.length ?? 0) > 0 && (
          <Field label={t("Formula")} hint={t("Such as A / B * 100. Letters stand for series.")} error={error instanceof ApiError && error.attr?.includes("formula") ? error.detail : undefined}>
            {(attributes) => (
              <input
                {...attributes}
                class="input mono"
                placeholder={t("None")}
                value={source.trendsFilter?.formula ?? ""}
                onInput={(event) => {
                  const { formula: _, ...rest } = source.trendsFilter ?? {};
                  onChange({ trendsFilter: { ...rest, ...(event.currentTarget.value ? { formula: event.currentTarget.value } : {}) } });
                }}
              />
            )}
          </Field>
        )}
        {kind === "FunnelsQuery" && <FunnelOptions source={source} onChange={onChange} />}
        {kind === "RetentionQuery" && <RetentionOptions source={source} onChange={onChange} />}
        {kind === "PathsQuery" && <PathsOptions source={source} onChange={onChange} />}
        <div class="stack s">
          <h2>{t("Filters for everything")}</h2>
          {filters ? <Filters label={t("Filter")} filters={filters} onChange={(properties) => onChange({ properties })} /> : <p class="muted">{t("Nested filters, which the API changes.")}</p>}
          {hasTestAccounts && (
            <label class="check">
              <input type="checkbox" checked={!!source.filterTestAccounts} onChange={(event) => onChange({ filterTestAccounts: event.currentTarget.checked })} />
              {t("Without test accounts")}
            </label>
          )}
        </div>
        {kind !== "PathsQuery" && (
          <div class="stack s">
            <h2>{t("Break down by")}</h2>
            <BreakdownInput source={source} onChange={onChange} />
          </div>
        )}
      </div>
    </section>
  );
}
