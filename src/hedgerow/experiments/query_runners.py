"""The experiment queries of PostHog's web app: one metric, or exposures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from hedgerow.errors import Invalid, NotFound
from hedgerow.experiments import analysis
from hedgerow.experiments.criteria import FREQUENTIST, parse_criteria
from hedgerow.experiments.experiments import Experiments, ExperimentWithFlag
from hedgerow.experiments.inputs import AnalysisInputs
from hedgerow.experiments.metrics import parse_metric
from hedgerow.experiments.model import ExperimentId
from hedgerow.experiments.result_types import Exposures, VariantResult
from hedgerow.experiments.results import ExperimentAnalyzer
from hedgerow.lib.clock import format_iso
from hedgerow.lib.shape import Shape
from hedgerow.projects.model import Project
from hedgerow.projects.validation import check_storable, parse_date_parameter
from hedgerow.queries.fields import UNUSED_FIELDS, QueryFields
from hedgerow.queries.model import ExperimentOutput
from hedgerow.queries.queries import PrepareQuery, RunQuery

METRIC, EXPOSURES = "ExperimentQuery", "ExperimentExposureQuery"
MAX_ID = 2**63 - 1
# ExperimentQuery and ExperimentExposureQuery in PostHog's frontend/src/queries/schema. The flag
# and the holdout are those of the stored experiment.
METRIC_FIELDS = Shape("kind", "experiment_id", "metric", unused=(*UNUSED_FIELDS, "name"))
EXPOSURE_FIELDS = Shape(
    *("kind", "experiment_id", "exposure_criteria", "start_date", "end_date"),
    unused=(*UNUSED_FIELDS, "experiment_name", "feature_flag", "holdout"),
)

NOT_ENOUGH_EXPOSURES, NOT_ENOUGH_METRIC_DATA, BASELINE_MEAN_ZERO = (
    "not-enough-exposures",
    "not-enough-metric-data",
    "baseline-mean-is-zero",
)
# PostHog has three failure codes.
FAILURES = {
    analysis.NO_EXPOSURES: NOT_ENOUGH_EXPOSURES,
    analysis.NO_VARIATION: NOT_ENOUGH_METRIC_DATA,
    analysis.VALUES_TOO_LARGE: NOT_ENOUGH_METRIC_DATA,
    analysis.DENOMINATOR_ZERO: NOT_ENOUGH_METRIC_DATA,
    analysis.TOO_FEW_EXPOSURES: NOT_ENOUGH_EXPOSURES,
    analysis.TOO_FEW_CONVERSIONS: NOT_ENOUGH_METRIC_DATA,
    analysis.BASELINE_NOT_COMPARABLE: NOT_ENOUGH_METRIC_DATA,
    analysis.BASELINE_ZERO: BASELINE_MEAN_ZERO,
    analysis.BASELINE_NEAR_ZERO: BASELINE_MEAN_ZERO,
}


RATIO_FIELDS = (
    "denominator_sum",
    "denominator_sum_squares",
    "numerator_denominator_sum_product",
)
COVARIATE_FIELDS = ("covariate_sum", "covariate_sum_squares", "main_covariate_sum_product")


class ExperimentQueryRunner:
    def __init__(self, experiments: Experiments, results: ExperimentAnalyzer) -> None:
        self._experiments = experiments
        self._results = results

    def handlers(self) -> Mapping[str, PrepareQuery]:
        return {METRIC: self._prepare_metric, EXPOSURES: self._prepare_exposures}

    def _prepare_metric(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        fields.check_known(METRIC_FIELDS)
        id = _read_experiment_id(fields)
        document = fields.mapping("metric")
        attr = fields.attr("metric")
        check_storable(document, attr)
        if not document:
            raise Invalid("This field is required.", attr=attr, code="required")
        metric = parse_metric(document, attr)

        async def run() -> ExperimentOutput:
            found = await self._find_experiment(project, id, fields)
            inputs, results = await self._results.analyze_metric(
                project, found, metric, document, now
            )
            method = inputs.stats.method
            return ExperimentOutput(
                kind=METRIC,
                warnings=_format_warnings(inputs),
                metric=document,
                baseline=_format_base(results[0]) if results else {},
                variant_results=[
                    _format_base(each) | _format_comparison(each, method) for each in results[1:]
                ],
            )

        return run

    def _prepare_exposures(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        fields.check_known(EXPOSURE_FIELDS)
        id = _read_experiment_id(fields)
        overrides = _read_overrides(fields, now)

        async def run() -> ExperimentOutput:
            experiment, flag = await self._find_experiment(project, id, fields)
            experiment = replace(experiment, **overrides)
            with _prefix_attr(fields):
                inputs, exposures = await self._results.count_exposures(
                    project, (experiment, flag), now, is_strict="exposure_criteria" in overrides
                )
            start, end = experiment.start_date, experiment.end_date
            return ExperimentOutput(
                kind=EXPOSURES,
                warnings=_format_warnings(inputs),
                timeseries=exposures.timeseries,
                total_exposures=exposures.total_exposures,
                sample_ratio_mismatch=_format_mismatch(exposures),
                date_range={
                    "date_from": format_iso(start) if start else None,
                    "date_to": format_iso(end) if end else None,
                    "explicitDate": True,
                },
            )

        return run

    async def _find_experiment(
        self, project: Project, id: ExperimentId, fields: QueryFields
    ) -> ExperimentWithFlag:
        try:
            return await self._experiments.find(project, id)
        except NotFound:
            detail = f"Experiment with id {id} not found"
            raise Invalid(detail, attr=fields.attr("experiment_id")) from None


def _read_experiment_id(fields: QueryFields) -> ExperimentId:
    id = fields.integer("experiment_id")
    if id is None:
        detail = "experiment_id is required"
        raise Invalid(detail, attr=fields.attr("experiment_id"), code="required")
    if not 0 < id <= MAX_ID:
        raise Invalid("A valid integer is required.", attr=fields.attr("experiment_id"))
    return ExperimentId(id)


@contextmanager
def _prefix_attr(fields: QueryFields) -> Iterator[None]:
    """Prefix the field of an Invalid with the path of the query."""
    try:
        yield
    except Invalid as error:
        attr = fields.attr(error.attr) if error.attr else None
        raise Invalid(error.detail, attr=attr, code=error.code) from None


def _read_overrides(fields: QueryFields, now: datetime) -> dict[str, Any]:
    """Return the dates and criteria of the query that override those of the experiment."""
    found: dict[str, Any] = {}
    for name in ("start_date", "end_date"):
        if text := fields.text(name):
            found[name] = parse_date_parameter(text, now, UTC, fields.attr(name))
    if criteria := fields.mapping("exposure_criteria"):
        check_storable(criteria, fields.attr("exposure_criteria"))
        with _prefix_attr(fields):
            parse_criteria(criteria, "")
        found["exposure_criteria"] = criteria
    return found


def _format_warnings(inputs: AnalysisInputs) -> Sequence[Mapping[str, Any]] | msgspec.UnsetType:
    """Format warnings about stored settings. PostHog has no such field."""
    return [msgspec.structs.asdict(each) for each in inputs.warnings] or msgspec.UNSET


def _format_mismatch(exposures: Exposures) -> Mapping[str, Any] | msgspec.UnsetType:
    """Format the sample ratio check with PostHog's fields."""
    found = exposures.sample_ratio_mismatch
    return (
        msgspec.UNSET if found is None else {"expected": found.expected, "p_value": found.p_value}
    )


def _format_base(of: VariantResult) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": of.key,
        "number_of_samples": of.number_of_samples,
        "sum": of.sum,
        "sum_squares": of.sum_squares,
        "validation_failures": _translate_failures(of.validation_failures),
    }
    if of.denominator_sum is not None:
        found |= {name: getattr(of, name) for name in RATIO_FIELDS}
    if of.covariate_sum is not None:
        found |= {name: getattr(of, name) for name in COVARIATE_FIELDS}
    return found


def _format_comparison(of: VariantResult, method: str) -> dict[str, Any]:
    found: dict[str, Any] = {"method": method, "significant": of.significant}
    if method == FREQUENTIST:
        return found | {"p_value": of.p_value, "confidence_interval": of.confidence_interval}
    return found | {
        "chance_to_win": of.chance_to_win,
        "credible_interval": of.credible_interval,
    }


def _translate_failures(failures: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(FAILURES[each] for each in failures))
