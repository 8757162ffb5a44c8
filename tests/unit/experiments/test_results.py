"""Results put together from rows that are given: whose turn it is, what fails alone, who counts."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hedgerow.errors import AppError, Throttled, Unavailable
from hedgerow.events.conditions import Moment
from hedgerow.events.gate import Gate
from hedgerow.events.reading import Reading
from hedgerow.events.surroundings import Surroundings
from hedgerow.experiments.model import Experiment, ExperimentId, Kind
from hedgerow.experiments.results import ExperimentResults
from hedgerow.hogql.ast import Select
from hedgerow.projects.model import Project
from hedgerow.queries.cache import Freshness
from tests.unit.flags.world import a_flag
from tests.unit.projects.world import a_project

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
MEAN = {"metric_type": "mean", "source": {"event": "bought"}}
VARIANTS = [
    {"key": "control", "rollout_percentage": 50},
    {"key": "test", "rollout_percentage": 50},
    {"key": "late", "rollout_percentage": 0},
]
FLAG = a_flag({"groups": [{}], "multivariate": {"variants": VARIANTS}}, key="tried")
FRESH = Freshness(max_age=timedelta(seconds=60))
Rows = Sequence[Sequence[Any]]


class Rowed:
    """Answers what it is asked in this order. All who ask wait until they are let go."""

    def __init__(self, *answers: Rows | AppError) -> None:
        self._answers = list(answers)
        self.is_free = asyncio.Event()
        self.inside = self.most_inside = self.state = 0

    async def surroundings(
        self, project: Project, now: datetime, said: Sequence[Any] = ()
    ) -> Surroundings:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        await self.is_free.wait()
        self.inside -= 1
        return Surroundings(project=project, cohorts={}, at=Moment(now=now, zone=UTC))

    async def arrived(self) -> None:
        """At once."""

    async def read(self, around: Surroundings, ask: Callable[[], Select]) -> SimpleNamespace:
        ask()
        answer = self._answers.pop(0)
        if isinstance(answer, AppError):
            raise answer
        return SimpleNamespace(rows=answer)


def results_of(rowed: Rowed, wait_s: float = 30) -> ExperimentResults:
    return ExperimentResults(
        cast(Reading, rowed), FRESH, lambda: rowed.state, Gate(of_one_project=1, wait_s=wait_s)
    )


def an_experiment(**fields: Any) -> Experiment:
    draft = Experiment(
        id=ExperimentId(1),
        project_id=a_project().id,
        flag_id=FLAG.id,
        name="Tried",
        description="",
        type=Kind.PRODUCT,
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


async def test_a_project_has_one_turn_at_a_time_and_who_waits_too_long_is_sent_away() -> None:
    rowed = Rowed()
    patient, hasty = results_of(rowed), results_of(rowed, wait_s=0)

    async def asked(results: ExperimentResults) -> str:
        return (await results.of(a_project(), an_experiment(), FLAG, NOW)).status

    tasks = [asyncio.create_task(asked(patient)) for _ in range(3)]
    first = asyncio.create_task(asked(hasty))
    while rowed.inside < 2:
        await asyncio.sleep(0)
    with pytest.raises(Throttled):
        await asked(hasty)
    rowed.is_free.set()
    assert await asyncio.gather(first, *tasks) == ["draft"] * 4
    assert rowed.most_inside == 2  # one of each


async def test_a_metric_that_nobody_has_time_for_does_not_take_the_others_with_it() -> None:
    rowed = Rowed([], Throttled(5), Unavailable(), [(1, 9, 18.0, 1.0)])
    rowed.is_free.set()
    running = an_experiment(start_date=NOW - timedelta(days=1), metrics=[MEAN] * 3)
    found = await results_of(rowed).of(a_project(), running, FLAG, NOW)
    codes = [each.error and each.error.code for each in found.metrics]
    assert codes == ["throttled", Unavailable.code, None]
    assert found.metrics[2].baseline is not None
    assert found.metrics[2].baseline.value == 2


async def test_a_variant_that_nobody_should_get_is_left_out_of_the_split() -> None:
    rowed = Rowed(
        [(number, "2026-05-04", people) for number, people in ((1, 98), (2, 102), (3, 9))]
    )
    rowed.is_free.set()
    running = an_experiment(start_date=NOW - timedelta(days=1))
    exposures = (await results_of(rowed).of(a_project(), running, FLAG, NOW)).exposures
    assert exposures.total_exposures == {"control": 98, "test": 102, "late": 9}
    ratio = exposures.sample_ratio_mismatch
    assert ratio is not None
    assert ratio.expected == {"control": 100, "test": 100}
    assert not ratio.is_mismatch
    assert ratio.p_value == pytest.approx(0.777, abs=0.001)


async def test_nothing_is_counted_again_before_something_changes_or_somebody_wants_it() -> None:
    exposed = [[(1, "2026-05-04", people)] for people in range(1, 7)]
    rowed = Rowed(*exposed)
    rowed.is_free.set()
    results = results_of(rowed)
    running = an_experiment(start_date=NOW - timedelta(days=1))

    async def asked(
        of: Experiment = running, *, later: float = 0, anew: bool = False
    ) -> tuple[int, bool]:
        at = NOW + timedelta(seconds=later)
        found = await results.of(a_project(), of, FLAG, at, anew=anew)
        assert found.cache_target_age == found.last_refresh + FRESH.max_age
        return found.exposures.total_exposures["control"], found.is_cached

    both = list(await asyncio.gather(asked(), asked()))
    assert both == [(1, False), (1, True)]
    assert await asked(later=59) == (1, True)
    assert await asked(anew=True) == (2, False)
    assert await asked(later=60) == (3, False)
    rowed.state += 1
    assert await asked(later=60) == (4, False)
    # What people are not counted by makes no difference.
    assert await asked(replace(running, name="Renamed", updated_at=NOW), later=60) == (4, True)
    ended = replace(running, end_date=NOW - timedelta(hours=1))
    assert await asked(ended, later=60) == (5, False)
    assert await asked(later=60) == (4, True)
    finer = replace(running, stats_config={"bayesian": {"ci_level": 0.9}})
    assert await asked(finer, later=60) == (6, False)


async def test_a_metric_that_nobody_had_time_for_is_measured_the_next_time() -> None:
    rowed = Rowed([], Throttled(5), [], [(1, 9, 18.0, 1.0)])
    rowed.is_free.set()
    results = results_of(rowed)
    running = an_experiment(start_date=NOW - timedelta(days=1), metrics=[MEAN])
    first = await results.of(a_project(), running, FLAG, NOW)
    again = await results.of(a_project(), running, FLAG, NOW)
    assert (first.metrics[0].error is None, again.metrics[0].error is None) == (False, True)
    assert not again.is_cached
