"""Experiment analysis with prepared query results."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hedgerow.errors import AppError, Throttled, Unavailable
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.query.context import QueryContext
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.experiments.model import Experiment, ExperimentId, ExperimentType
from hedgerow.experiments.results import MAX_TIMELINE_DAYS, ExperimentAnalyzer, build_timelines
from hedgerow.hogql.ast import Select
from hedgerow.projects.model import Project
from hedgerow.queries.cache import Freshness
from tests.unit.flags.factories import make_flag
from tests.unit.projects.factories import make_project

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
MEAN = {"metric_type": "mean", "source": {"event": "bought"}}
VARIANTS = [
    {"key": "control", "rollout_percentage": 50},
    {"key": "test", "rollout_percentage": 50},
    {"key": "late", "rollout_percentage": 0},
]
FLAG = make_flag({"groups": [{}], "multivariate": {"variants": VARIANTS}}, key="tested")
FRESH = Freshness(max_age=timedelta(seconds=60))
Rows = Sequence[Sequence[Any]]
DAY = date(2026, 3, 1)


class FakeExecutor:
    """Returns these results in order. Every caller waits until `is_free` is set."""

    def __init__(self, *results: Rows | AppError) -> None:
        self._results = list(results)
        self.is_free = asyncio.Event()
        self.inside = self.most_inside = self.state = 0

    async def build_context(
        self, project: Project, now: datetime, documents: Sequence[Any] = ()
    ) -> QueryContext:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        await self.is_free.wait()
        self.inside -= 1
        return QueryContext(project=project, cohorts={}, time=QueryTime(now=now, zone=UTC))

    @asynccontextmanager
    async def pass_barriers(self, _: object) -> AsyncIterator[None]:
        """Nothing is pending."""
        yield

    async def execute(
        self, context: QueryContext, build_query: Callable[[], Select]
    ) -> SimpleNamespace:
        build_query()
        result = self._results.pop(0)
        if isinstance(result, AppError):
            raise result
        return SimpleNamespace(rows=result)


def make_analyzer(executor: FakeExecutor, timeout_s: float = 30) -> ExperimentAnalyzer:
    async def fetch_state(_: object) -> int:
        return executor.state

    return ExperimentAnalyzer(
        cast(QueryExecutor, executor),
        FRESH,
        fetch_state,
        QueryLimiter(per_project=1, timeout_s=timeout_s),
    )


def make_experiment(**fields: Any) -> Experiment:
    draft = Experiment(
        id=ExperimentId(1),
        project_id=make_project().id,
        flag_id=FLAG.id,
        name="Tried",
        description="",
        type=ExperimentType.PRODUCT,
        start_date=None,
        end_date=None,
        archived=False,
        deleted=False,
        parameters={},
        metrics=[],
        metrics_secondary=[],
        exposure_criteria={},
        stats_config={},
        holdout=None,
        rest={},
        conclusion=None,
        conclusion_comment="",
        created_by="",
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(draft, **fields)


async def test_project_runs_one_analysis_at_a_time_and_throttles_long_waits() -> None:
    executor = FakeExecutor()
    patient, impatient = make_analyzer(executor), make_analyzer(executor, timeout_s=0)

    async def analyze(results: ExperimentAnalyzer) -> str:
        return (await results.analyze(make_project(), make_experiment(), FLAG, NOW)).status

    tasks = [asyncio.create_task(analyze(patient)) for _ in range(3)]
    first = asyncio.create_task(analyze(impatient))
    while executor.inside < 2:
        await asyncio.sleep(0)
    with pytest.raises(Throttled):
        await analyze(impatient)
    executor.is_free.set()
    assert await asyncio.gather(first, *tasks) == ["draft"] * 4
    assert executor.most_inside == 2  # one of each


async def test_throttled_metric_does_not_affect_other_metrics() -> None:
    executor = FakeExecutor([], Throttled(5), Unavailable(), [(1, 9, 18.0, 1.0)])
    executor.is_free.set()
    running = make_experiment(start_date=NOW - timedelta(days=1), metrics=[MEAN] * 3)
    found = await make_analyzer(executor).analyze(make_project(), running, FLAG, NOW)
    codes = [each.error and each.error.code for each in found.metrics]
    assert codes == ["throttled", Unavailable.code, None]
    assert found.metrics[2].baseline is not None
    assert found.metrics[2].baseline.value == 2


async def test_variant_with_zero_rollout_is_excluded_from_the_sample_ratio() -> None:
    executor = FakeExecutor(
        [(number, "2026-05-04", people) for number, people in ((1, 98), (2, 102), (3, 9))]
    )
    executor.is_free.set()
    running = make_experiment(start_date=NOW - timedelta(days=1))
    exposures = (
        await make_analyzer(executor).analyze(make_project(), running, FLAG, NOW)
    ).exposures
    assert exposures.total_exposures == {"control": 98, "test": 102, "late": 9}
    ratio = exposures.sample_ratio_mismatch
    assert ratio is not None
    assert ratio.expected == {"control": 100, "test": 100}
    assert not ratio.is_mismatch
    assert ratio.p_value == pytest.approx(0.777, abs=0.001)


async def test_results_are_cached_until_a_change_or_a_refresh() -> None:
    exposed = [[(1, "2026-05-04", people)] for people in range(1, 7)]
    executor = FakeExecutor(*exposed)
    executor.is_free.set()
    results = make_analyzer(executor)
    running = make_experiment(start_date=NOW - timedelta(days=1))

    async def analyze(
        of: Experiment = running, *, later: float = 0, refresh: bool = False
    ) -> tuple[int, bool]:
        at = NOW + timedelta(seconds=later)
        found = await results.analyze(make_project(), of, FLAG, at, refresh=refresh)
        assert found.cache_target_age == found.last_refresh + FRESH.max_age
        return found.exposures.total_exposures["control"], found.is_cached

    both = list(await asyncio.gather(analyze(), analyze()))
    assert both == [(1, False), (1, True)]
    assert await analyze(later=59) == (1, True)
    assert await analyze(refresh=True) == (2, False)
    assert await analyze(later=60) == (3, False)
    executor.state += 1
    assert await analyze(later=60) == (4, False)
    # Fields that do not affect the results do not change the cache key.
    assert await analyze(replace(running, name="Renamed", updated_at=NOW), later=60) == (4, True)
    ended = replace(running, end_date=NOW - timedelta(hours=1))
    assert await analyze(ended, later=60) == (5, False)
    assert await analyze(later=60) == (4, True)
    finer = replace(running, stats_config={"bayesian": {"ci_level": 0.9}})
    assert await analyze(finer, later=60) == (6, False)


async def test_throttled_metric_is_not_cached() -> None:
    executor = FakeExecutor([], Throttled(5), [], [(1, 9, 18.0, 1.0)])
    executor.is_free.set()
    results = make_analyzer(executor)
    running = make_experiment(start_date=NOW - timedelta(days=1), metrics=[MEAN])
    first = await results.analyze(make_project(), running, FLAG, NOW)
    again = await results.analyze(make_project(), running, FLAG, NOW)
    assert (first.metrics[0].error is None, again.metrics[0].error is None) == (False, True)
    assert not again.is_cached


def test_timelines_include_days_without_exposures_and_are_cumulative() -> None:
    later = DAY + timedelta(days=2)
    one, two = build_timelines({"control": {DAY: 3}, "test": {later: 2}})
    assert one.days == two.days == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert (one.exposure_counts, two.exposure_counts) == ([3, 3, 3], [0, 0, 2])


def test_long_timelines_keep_the_last_days_and_count_everyone() -> None:
    (timeline,) = build_timelines({"control": {date(1970, 1, 1): 1, DAY: 2}})
    assert (len(timeline.days), timeline.days[-1]) == (MAX_TIMELINE_DAYS, "2026-03-01")
    assert (timeline.exposure_counts[0], timeline.exposure_counts[-1]) == (1, 3)


def test_timelines_are_empty_without_exposures() -> None:
    assert build_timelines({"control": {}, "test": {}}) == []
