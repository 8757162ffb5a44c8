"""Transformations that take long do not delay the events of other projects."""

from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from hedgerow.ingestion import transform_stage
from hedgerow.ingestion.deduplication import ProcessedEvents
from hedgerow.ingestion.model import InboxRow
from hedgerow.ingestion.transform_stage import BATCH_BUDGET_S, TransformStage
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.transformations import chain
from hedgerow.pipelines.transformations.chain import ChainStep, TransformationChain
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.plugin.transform import IncomingEvent
from hedgerow.projects.model import ProjectId
from tests.support.factories import captured_event

SLOW, OTHER = ProjectId(1), ProjectId(2)
NO_DUPLICATES = ProcessedEvents((), {}, {})


class Clock:
    """Time passes only while something is transformed."""

    def __init__(self, event_s: float) -> None:
        self.now = 0.0
        self._event_s = event_s

    def perf_counter(self) -> float:
        return self.now

    def transform(self, event: IncomingEvent) -> IncomingEvent:
        self.now += self._event_s
        return event.with_properties({**event.properties, "done": True})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A third of what a project may take of a batch passes with each event."""
    made = Clock(BATCH_BUDGET_S / 2.5)
    monkeypatch.setattr(transform_stage, "time", made)
    return made


def _build_chain(clock: Clock, steps: int = 1) -> TransformationChain:
    return TransformationChain(
        [ChainStep(record_id=RecordId(n), transform=clock.transform) for n in range(steps)]
    )


def _build_stage(clock: Clock, *, in_order: bool = False) -> TransformStage:
    registry = SimpleNamespace(chains={SLOW: _build_chain(clock)})
    return TransformStage(cast(TransformationRegistry, registry), in_order=in_order)


def _build_row(id: int, project_id: ProjectId, number: int) -> InboxRow:
    names = [f"{id}-{each}" for each in range(number)]
    events = [captured_event("seen", name, uuid=f"uuid-{name}") for name in names]
    return InboxRow(id=id, project_id=project_id, events=events, number=number)


async def _apply(stage: TransformStage, *rows: InboxRow) -> list[tuple[int, int, int]]:
    """Return the id, the transformed events and the rest of each row."""
    done = await stage.apply(rows, NO_DUPLICATES)
    return [(row.id, len(row.events), len(row.rest)) for row in done.rows]


async def test_events_beyond_the_budget_wait_for_a_later_batch(clock: Clock) -> None:
    rows = [_build_row(1, SLOW, 2), _build_row(2, OTHER, 5), _build_row(3, SLOW, 4)]
    rows += [_build_row(4, SLOW, 1), _build_row(5, OTHER, 1)]
    assert await _apply(_build_stage(clock), *rows) == [(1, 2, 0), (2, 5, 0), (3, 1, 3), (5, 1, 0)]


async def test_a_row_that_waits_keeps_its_order_and_its_number(clock: Clock) -> None:
    row = replace(_build_row(1, SLOW, 4), rest=_build_row(2, SLOW, 2).events)
    (done,) = (await _build_stage(clock).apply([row], NO_DUPLICATES)).rows
    assert [event.distinct_id for event in done.events] == ["1-0", "1-1", "1-2"]
    assert [event.distinct_id for event in done.rest] == ["1-3", "2-0", "2-1"]
    assert done.number == 3
    assert all(event.properties["done"] for event in done.events)
    assert not any("done" in event.properties for event in done.rest)


async def test_nothing_overtakes_where_rows_are_done_in_order(clock: Clock) -> None:
    rows = [_build_row(1, OTHER, 1), _build_row(2, SLOW, 4), _build_row(3, OTHER, 1)]
    assert await _apply(_build_stage(clock, in_order=True), *rows) == [(1, 1, 0), (2, 3, 1)]


async def test_one_event_is_always_transformed(clock: Clock) -> None:
    clock._event_s = 100 * BATCH_BUDGET_S
    assert await _apply(_build_stage(clock), _build_row(1, SLOW, 3)) == [(1, 1, 2)]


async def test_rows_without_events_are_done(clock: Clock) -> None:
    assert await _apply(_build_stage(clock), _build_row(1, SLOW, 0)) == [(1, 0, 0)]


def test_transformations_of_an_event_have_a_budget_together(clock: Clock) -> None:
    clock._event_s = chain.EVENT_BUDGET_S / 2.5
    steps = _build_chain(clock, steps=5)
    counts = steps.new_counts()
    event = captured_event("seen", "ann")
    steps.apply(transform_stage._to_incoming(event), counts, clock.perf_counter)
    assert [each.changed for each in counts] == [1, 1, 1, 0, 0]
    assert [each.failed for each in counts] == [0, 0, 0, 1, 1]
    assert counts[3].error == chain.OVER_BUDGET
