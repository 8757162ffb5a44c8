"""The filters of a project take a limited time of a batch."""

from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from hedgerow.events.model import Event
from hedgerow.pipelines.deliveries import routing
from hedgerow.pipelines.deliveries.router import DestinationRouter
from hedgerow.pipelines.deliveries.routing import MATCH_BUDGET_S, RoutingBudget, RoutingStage
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import GroupStore, LoadedGroups
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START
from tests.unit.pipelines.deliveries.test_router import event

SLOW, FAST, UNUSED = ProjectId(1), ProjectId(2), ProjectId(3)


class Filters:
    """Time passes only while an event of the slow project is compared."""

    def __init__(self, event_s: float) -> None:
        self.now = 0.0
        self._event_s = event_s

    def perf_counter(self) -> float:
        return self.now

    def destinations(self, event: Event, now: datetime) -> list[RecordId]:
        if event.project_id == SLOW:
            self.now += self._event_s
        return [RecordId(event.project_id)]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> RoutingStage:
    filters = Filters(MATCH_BUDGET_S / 2.5)
    monkeypatch.setattr(routing, "time", filters)
    router = cast(DestinationRouter, filters)
    destinations: Any = SimpleNamespace(routers={SLOW: router, FAST: router})

    async def load_groups(*_: object) -> LoadedGroups:
        return LoadedGroups(types={}, properties={})

    groups = cast(GroupStore, SimpleNamespace(groups=load_groups))
    return RoutingStage(destinations, groups, lambda _: None, lambda: START)


async def _route(
    stage: RoutingStage, budget: RoutingBudget, rows: Mapping[int, tuple[ProjectId, int]]
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return how many events of each row are routed, and how many deliveries each has."""
    events = {row: [replace(event(), project_id=id)] * number for row, (id, number) in rows.items()}
    numbers, new = await stage.route(events, budget)
    return numbers, {row: len(some) for row, some in new.items()}


async def test_events_beyond_the_budget_are_left(stage: RoutingStage) -> None:
    rows = {1: (SLOW, 5), 2: (FAST, 4), 3: (SLOW, 1), 4: (UNUSED, 2)}
    assert await _route(stage, RoutingBudget(), rows) == (
        {1: 3, 2: 4, 3: 0, 4: 2},
        {1: 3, 2: 4},
    )


async def test_the_budget_is_for_a_whole_batch(stage: RoutingStage) -> None:
    budget = RoutingBudget()
    assert await _route(stage, budget, {1: (SLOW, 2)}) == ({1: 2}, {1: 2})
    assert await _route(stage, budget, {2: (SLOW, 2)}) == ({2: 1}, {2: 1})
    assert await _route(stage, budget, {3: (SLOW, 2)}) == ({3: 0}, {})


async def test_projects_with_a_backlog_have_no_budget(stage: RoutingStage) -> None:
    budget = RoutingBudget(exhausted=[FAST])
    assert await _route(stage, budget, {1: (FAST, 2)}) == ({1: 0}, {})
