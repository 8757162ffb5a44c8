"""The kinds of query by which PostHog's own pages ask about experiments: one metric at a time, or
exposures. They are counted as all results are.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.dates import asked_moment
from hedgerow.experiments import comparing
from hedgerow.experiments.answer import Exposures, VariantResult
from hedgerow.experiments.asked import Asked
from hedgerow.experiments.criteria import FREQUENTIST, read_criteria
from hedgerow.experiments.experiments import Experiments, Found
from hedgerow.experiments.metrics import read_metric
from hedgerow.experiments.model import ExperimentId
from hedgerow.experiments.results import ExperimentResults
from hedgerow.lib.clock import iso
from hedgerow.projects.model import Project
from hedgerow.projects.text import check_storable
from hedgerow.queries.fields import Sent
from hedgerow.queries.model import Compared
from hedgerow.queries.queries import Reader, Runner

METRIC, EXPOSURES = "ExperimentQuery", "ExperimentExposureQuery"
MOST_ID = 2**63 - 1

TOO_FEW, TOO_LITTLE, ZERO = (
    "not-enough-exposures",
    "not-enough-metric-data",
    "baseline-mean-is-zero",
)
# In PostHog's words, of which there are three.
FAILURES = {
    comparing.NO_EXPOSURES: TOO_FEW,
    comparing.NO_VARIATION: TOO_LITTLE,
    comparing.TOO_LARGE: TOO_LITTLE,
    comparing.NO_WHOLE: TOO_LITTLE,
    comparing.TOO_FEW_CONVERSIONS: TOO_LITTLE,
    comparing.BASELINE: TOO_LITTLE,
    comparing.BASELINE_ZERO: ZERO,
    comparing.BASELINE_NEAR_ZERO: ZERO,
}


OF_RATIOS = (
    "denominator_sum",
    "denominator_sum_squares",
    "numerator_denominator_sum_product",
)


class ExperimentQueries:
    def __init__(self, experiments: Experiments, results: ExperimentResults) -> None:
        self._experiments = experiments
        self._results = results

    def readers(self) -> Mapping[str, Reader]:
        return {METRIC: self._metric_runner, EXPOSURES: self._exposures_runner}

    def _metric_runner(self, project: Project, sent: Sent, now: datetime) -> Runner:
        id = _experiment_id(sent)
        document = sent.mapping("metric")
        place = sent.attr("metric")
        check_storable(document, place)
        if not document:
            raise Invalid("This field is required.", attr=place, code="required")
        metric = read_metric(document, place)

        async def run() -> Compared:
            found = await self._found(project, id, sent)
            asked, results = await self._results.of_metric(project, found, metric, document, now)
            method = asked.stats.method
            return Compared(
                kind=METRIC,
                warnings=_warnings(asked),
                metric=document,
                baseline=_base(results[0]) if results else {},
                variant_results=[_base(each) | _comparison(each, method) for each in results[1:]],
            )

        return run

    def _exposures_runner(self, project: Project, sent: Sent, now: datetime) -> Runner:
        id = _experiment_id(sent)
        own = _own_terms(sent, now)

        async def run() -> Compared:
            experiment, flag = await self._found(project, id, sent)
            experiment = replace(experiment, **own)
            with _placed(sent):
                asked, exposures = await self._results.exposures_of(
                    project, (experiment, flag), now, is_strict="exposure_criteria" in own
                )
            start, end = experiment.start_date, experiment.end_date
            return Compared(
                kind=EXPOSURES,
                warnings=_warnings(asked),
                timeseries=exposures.timeseries,
                total_exposures=exposures.total_exposures,
                sample_ratio_mismatch=_mismatch(exposures),
                date_range={
                    "date_from": iso(start) if start else None,
                    "date_to": iso(end) if end else None,
                    "explicitDate": True,
                },
            )

        return run

    async def _found(self, project: Project, id: ExperimentId, sent: Sent) -> Found:
        try:
            return await self._experiments.find(project, id)
        except NotFound:
            detail = f"Experiment with id {id} not found"
            raise Invalid(detail, attr=sent.attr("experiment_id")) from None


def _experiment_id(sent: Sent) -> ExperimentId:
    id = sent.whole("experiment_id")
    if id is None:
        detail = "experiment_id is required"
        raise Invalid(detail, attr=sent.attr("experiment_id"), code="required")
    if not 0 < id <= MOST_ID:
        raise Invalid("A valid integer is required.", attr=sent.attr("experiment_id"))
    return ExperimentId(id)


@contextmanager
def _placed(sent: Sent) -> Iterator[None]:
    """What is wrong with a field is wrong with the query's."""
    try:
        yield
    except Invalid as error:
        place = sent.attr(error.attr) if error.attr else None
        raise Invalid(error.detail, attr=place, code=error.code) from None


def _own_terms(sent: Sent, now: datetime) -> dict[str, Any]:
    """What a query says itself, in place of what the experiment has."""
    found: dict[str, Any] = {}
    for name in ("start_date", "end_date"):
        if text := sent.text(name):
            found[name] = asked_moment(text, now, UTC, sent.attr(name))
    if criteria := sent.mapping("exposure_criteria"):
        check_storable(criteria, sent.attr("exposure_criteria"))
        with _placed(sent):
            read_criteria(criteria, "")
        found["exposure_criteria"] = criteria
    return found


def _warnings(asked: Asked) -> Sequence[Mapping[str, Any]] | msgspec.UnsetType:
    """Of stored settings that cannot be read. PostHog has no such field."""
    return [msgspec.structs.asdict(each) for each in asked.warnings] or msgspec.UNSET


def _mismatch(exposures: Exposures) -> Mapping[str, Any] | msgspec.UnsetType:
    """PostHog's fields of it."""
    found = exposures.sample_ratio_mismatch
    return (
        msgspec.UNSET if found is None else {"expected": found.expected, "p_value": found.p_value}
    )


def _base(of: VariantResult) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": of.key,
        "number_of_samples": of.number_of_samples,
        "sum": of.sum,
        "sum_squares": of.sum_squares,
        "validation_failures": _told(of.validation_failures),
    }
    if of.denominator_sum is not None:
        found |= {name: getattr(of, name) for name in OF_RATIOS}
    return found


def _comparison(of: VariantResult, method: str) -> dict[str, Any]:
    found: dict[str, Any] = {"method": method, "significant": of.significant}
    if method == FREQUENTIST:
        return found | {"p_value": of.p_value, "confidence_interval": of.confidence_interval}
    return found | {
        "chance_to_win": of.chance_to_win,
        "credible_interval": of.credible_interval,
    }


def _told(failures: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(FAILURES[each] for each in failures))
