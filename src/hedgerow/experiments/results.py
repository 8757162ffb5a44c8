"""The analysis of an experiment: count exposures, measure metrics, compare variants."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from hedgerow.errors import AppError, Throttled, Unavailable
from hedgerow.events.query.context import QueryContext
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.experiments import statistics
from hedgerow.experiments.analysis import (
    MetricSums,
    ValueHistory,
    VariantMeasurement,
    compare_variants,
)
from hedgerow.experiments.cuped import adjust_by_history
from hedgerow.experiments.experiments import ExperimentWithFlag
from hedgerow.experiments.inputs import AnalysisInputs, build_inputs
from hedgerow.experiments.metrics import FUNNEL, MEAN, RATIO, Metric, parse_metric
from hedgerow.experiments.model import MULTIPLE, Experiment
from hedgerow.experiments.queries_sql import build_exposure_query, build_metric_query
from hedgerow.experiments.result_types import (
    CupedSummary,
    ExperimentResults,
    Exposures,
    MetricResult,
    ResultProblem,
    ResultsDateRange,
    SampleRatioCheck,
    VariantResult,
    build_problem,
)
from hedgerow.experiments.variants import get_counted_flag
from hedgerow.flags.model import Flag
from hedgerow.hogql.ast import Select
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.model import Project
from hedgerow.queries.cache import CachedResult, FetchState, Freshness, ResultCache
from hedgerow.queries.model import ExposureTimeline

MAX_TIMELINE_DAYS = 1000
MAX_CACHE_BYTES = 16 << 20


class ExperimentAnalyzer:
    """Analyzes one experiment of a project at a time, so that many requests block neither the event
    store nor the CPU. Results are cached until the state changes."""

    def __init__(
        self,
        executor: QueryExecutor,
        freshness: Freshness,
        fetch_state: FetchState,
        limiter: QueryLimiter | None = None,
    ) -> None:
        self._executor = executor
        self._freshness = freshness
        self._fetch_state = fetch_state
        self._limiter = limiter or QueryLimiter(per_project=1)
        # Encoded as JSON, so that the size is known.
        self._cache = ResultCache[bytes](MAX_CACHE_BYTES)

    async def analyze(
        self,
        project: Project,
        experiment: Experiment,
        flag: Flag,
        now: datetime,
        *,
        refresh: bool = False,
    ) -> ExperimentResults:
        """Return cached results if they are fresh, unless `refresh`. Raises Throttled after a long
        wait."""
        key = (project.id, _cache_key(project, experiment, flag))
        async with self._limiter.acquire(project.id):
            cached = None if refresh else self._cache.get(key)
            if cached is not None and await self._freshness.is_fresh(
                cached, partial(self._fetch_state, project.id), now
            ):
                # Decoding fails if a number was too large for JSON.
                with suppress(msgspec.ValidationError):
                    found = msgspec.json.decode(cached.result, type=ExperimentResults)
                    return msgspec.structs.replace(found, is_cached=True)
            async with self._executor.pass_barriers(project.id):
                # Events that arrive after this point change the state again.
                state = await self._fetch_state(project.id)
                results = await self._compute(project, experiment, flag, now)
            if all(_is_cacheable(each) for each in (*results.metrics, *results.metrics_secondary)):
                body = msgspec.json.encode(results)
                self._cache.put(key, CachedResult(result=body, size=len(body), state=state, at=now))
            return results

    async def analyze_metric(
        self,
        project: Project,
        found: ExperimentWithFlag,
        metric: Metric,
        documents: Any,
        now: datetime,
    ) -> tuple[AnalysisInputs, list[VariantResult]]:
        """Compare the variants by one metric, control first. `documents` is the metric as it was
        sent. The result is not cached here."""
        experiment, flag = found
        async with self._limiter.acquire(project.id):
            context = await self._executor.build_context(
                project, now, [True, documents, experiment.exposure_criteria]
            )
            inputs = await run_in_thread(partial(build_inputs, experiment, flag, context))
            measured = await self._measure(metric, inputs, context)
            results, _ = await run_in_thread(_prepare_comparison(measured, inputs, metric))
            return inputs, results

    async def count_exposures(
        self, project: Project, found: ExperimentWithFlag, now: datetime, *, is_strict: bool
    ) -> tuple[AnalysisInputs, Exposures]:
        experiment, flag = found
        async with self._limiter.acquire(project.id):
            context = await self._executor.build_context(
                project, now, [True, experiment.exposure_criteria]
            )
            inputs = await run_in_thread(
                partial(build_inputs, experiment, flag, context, is_strict=is_strict)
            )
            return inputs, await self._count_exposures(inputs, context)

    async def _compute(
        self, project: Project, experiment: Experiment, flag: Flag, now: datetime
    ) -> ExperimentResults:
        documents = [experiment.metrics, experiment.metrics_secondary, experiment.exposure_criteria]
        # Always waits for persons, because exposures count current persons.
        context = await self._executor.build_context(project, now, [True, *documents])
        inputs = await run_in_thread(partial(build_inputs, experiment, flag, context))
        exposures = await self._count_exposures(inputs, context)
        primary = await self._analyze_metrics("metrics", experiment.metrics, inputs, context)
        secondary = await self._analyze_metrics(
            "metrics_secondary", experiment.metrics_secondary, inputs, context
        )
        return ExperimentResults(
            experiment_id=experiment.id,
            feature_flag_key=inputs.flag_key,
            status=experiment.status.value,
            method=inputs.stats.method,
            level=inputs.stats.level,
            sequential_testing_enabled=inputs.stats.is_sequential,
            date_range=ResultsDateRange(
                date_from=experiment.start_date,
                date_to=experiment.end_date,
                timezone=project.timezone,
            ),
            last_refresh=now,
            cache_target_age=now + self._freshness.max_age,
            warnings=inputs.warnings,
            exposures=exposures,
            metrics=primary,
            metrics_secondary=secondary,
        )

    async def _count_exposures(self, inputs: AnalysisInputs, context: QueryContext) -> Exposures:
        exposure = inputs.exposure
        rows: Sequence[Sequence[Any]] = ()
        if exposure is not None:
            rows = await self._fetch_rows(context, partial(build_exposure_query, exposure, context))
        names = [MULTIPLE, *inputs.variants]
        by_day: dict[str, dict[date, int]] = {name: defaultdict(int) for name in names}
        for number, day, people in rows:
            by_day[names[number]][date.fromisoformat(day)] += people
        several = by_day.pop(MULTIPLE)
        if several:
            by_day[MULTIPLE] = several  # listed last
        totals = {name: sum(days.values()) for name, days in by_day.items()}
        return Exposures(
            total_exposures=totals,
            timeseries=build_timelines(by_day),
            sample_ratio_mismatch=await run_in_thread(partial(_check_sample_ratio, totals, inputs)),
        )

    async def _analyze_metrics(
        self, attr: str, documents: Sequence[Any], inputs: AnalysisInputs, context: QueryContext
    ) -> list[MetricResult]:
        """Analyze metrics one after another, because query slots are few."""
        return [
            await self._analyze_metric(document, f"{attr}[{number}]", inputs, context)
            for number, document in enumerate(documents)
        ]

    async def _analyze_metric(
        self, document: Any, attr: str, inputs: AnalysisInputs, context: QueryContext
    ) -> MetricResult:
        """Analyze one metric. A failure does not affect the other metrics."""
        metric = None
        try:
            metric = parse_metric(document, attr)
            found = await self._measure(metric, inputs, context)
        except AppError as error:
            problem = build_problem(error, error.detail)
            return (
                _build_failed_result(document, problem)
                if metric is None
                else _build_metric_result(metric, [], problem)
            )
        variants, cuped = await run_in_thread(_prepare_comparison(found, inputs, metric))
        return msgspec.structs.replace(_build_metric_result(metric, variants, None), cuped=cuped)

    async def _measure(
        self, metric: Metric, inputs: AnalysisInputs, context: QueryContext
    ) -> list[VariantMeasurement]:
        exposure = inputs.exposure
        rows: Sequence[Sequence[Any]] = ()
        if exposure is not None:
            rows = await self._fetch_rows(
                context,
                partial(
                    build_metric_query, metric, exposure, context, _get_lookback(metric, inputs)
                ),
            )
        by_number = {row[0]: row[1:] for row in rows}
        return [
            build_measurement(metric, name, by_number.get(number))
            for number, name in enumerate(inputs.variants, 1)
        ]

    async def _fetch_rows(
        self, context: QueryContext, ask: Callable[[], Select]
    ) -> Sequence[Sequence[Any]]:
        return (await self._executor.execute(context, ask)).rows


def build_measurement(metric: Metric, key: str, row: Sequence[Any] | None) -> VariantMeasurement:
    if metric.type == RATIO:
        people, total, spread, whole, whole_spread, both = row or (0, 0, 0, 0, 0, 0)
        above = MetricSums(total=float(total), variance=float(spread))
        below = MetricSums(total=float(whole), variance=float(whole_spread))
        return VariantMeasurement.from_ratio(key, int(people), above, below, float(both))
    people, total, spread, *history = row or (0, 0, 0)
    if metric.type == FUNNEL:
        return VariantMeasurement.from_funnel(key, int(people), int(total))
    found = VariantMeasurement.from_mean(key, int(people), float(total), float(spread))
    if not history:
        return found
    earlier, earlier_spread, both = (float(each) for each in history)
    sums = MetricSums(total=earlier, variance=earlier_spread)
    return replace(found, history=ValueHistory(sums=sums, covariance=both))


def _get_lookback(metric: Metric, inputs: AnalysisInputs) -> timedelta | None:
    """Only means are adjusted by history."""
    return inputs.stats.lookback if metric.type == MEAN else None


def _prepare_comparison(
    found: Sequence[VariantMeasurement], inputs: AnalysisInputs, metric: Metric
) -> Callable[[], tuple[list[VariantResult], CupedSummary | None]]:
    return partial(_compare, found, inputs, metric)


def _compare(
    found: Sequence[VariantMeasurement], inputs: AnalysisInputs, metric: Metric
) -> tuple[list[VariantResult], CupedSummary | None]:
    lookback, summary = _get_lookback(metric, inputs), None
    adjusted = None if lookback is None else adjust_by_history(found)
    if adjusted is not None and lookback is not None:
        found, theta, explained = adjusted
        summary = CupedSummary(
            lookback_days=lookback.days, theta=theta, variance_reduction=explained
        )
    results = compare_variants(found, inputs.stats, is_lower_better=metric.is_lower_better)
    return results, summary


def _build_metric_result(
    metric: Metric, variants: Sequence[VariantResult], error: ResultProblem | None
) -> MetricResult:
    return MetricResult(
        uuid=metric.uuid,
        name=metric.name,
        metric_type=metric.type,
        goal="decrease" if metric.is_lower_better else "increase",
        baseline=variants[0] if variants else None,
        variant_results=variants[1:],
        error=error,
    )


def _cache_key(project: Project, experiment: Experiment, flag: Flag) -> str:
    """Return a key of everything that the results depend on except events."""
    seen = get_counted_flag(experiment, flag)
    documents = [
        project.timezone,
        experiment.start_date and format_iso(experiment.start_date),
        experiment.end_date and format_iso(experiment.end_date),
        [seen.key, seen.group_type, list(seen.variants)],
        experiment.metrics,
        experiment.metrics_secondary,
        experiment.exposure_criteria,
        experiment.stats_config,
    ]
    encoded = jsonio.encode_canonical(jsonio.replace_unstorable(documents))
    return f"{experiment.id}_{hashlib.sha256(encoded).hexdigest()}"


def _is_cacheable(metric: MetricResult) -> bool:
    """Return whether the result would be the same again. A metric that failed for lack of capacity
    may succeed next time."""
    return metric.error is None or metric.error.code not in (Throttled.code, Unavailable.code)


def _build_failed_result(document: Any, error: ResultProblem) -> MetricResult:
    """Describe a metric that cannot be parsed by its own fields."""
    documents = document if isinstance(document, dict) else {}
    uuid = documents.get("uuid")
    return MetricResult(
        uuid=uuid if isinstance(uuid, str) else None,
        name=str(documents.get("name") or ""),
        metric_type=str(documents.get("metric_type") or ""),
        goal="decrease" if documents.get("goal") == "decrease" else "increase",
        baseline=None,
        variant_results=[],
        error=error,
    )


def build_timelines(by_day: Mapping[str, Mapping[date, int]]) -> list[ExposureTimeline]:
    """Return cumulative counts for each day from the first to the last; at most the last
    MAX_TIMELINE_DAYS."""
    all_days = [day for counts in by_day.values() for day in counts]
    if not all_days:
        return []
    last = max(all_days)
    number = min((last - min(all_days)).days + 1, MAX_TIMELINE_DAYS)
    days = [last - timedelta(days=offset) for offset in reversed(range(number))]
    found = []
    for name, counts in by_day.items():
        total = sum(people for day, people in counts.items() if day < days[0])
        sums = []
        for day in days:
            total += counts.get(day, 0)
            sums.append(total)
        found.append(
            ExposureTimeline(
                variant=name, days=[day.isoformat() for day in days], exposure_counts=sums
            )
        )
    return found


def _check_sample_ratio(
    totals: Mapping[str, int], inputs: AnalysisInputs
) -> SampleRatioCheck | None:
    # Variants with a rollout of 0 % are not part of the test.
    shares = {
        name: share
        for name, share in zip(inputs.variants, inputs.rollout_percentages, strict=True)
        if share > 0
    }
    observed = [totals[name] for name in shares]
    chance = statistics.sample_ratio_p_value(observed, list(shares.values()))
    if chance is None:
        return None
    total, share_sum = sum(observed), sum(shares.values())
    is_mismatch = chance < statistics.MISMATCH_P_VALUE
    return SampleRatioCheck(
        expected={name: round(total * share / share_sum, 2) for name, share in shares.items()},
        p_value=chance,
        is_mismatch=is_mismatch,
        warning=MISMATCH_WARNING if is_mismatch else None,
    )


MISMATCH_WARNING = (
    "The exposures do not match the rollout percentages of the flag, and chance does not explain "
    "it. Do not trust the results until you have found the cause."
)
