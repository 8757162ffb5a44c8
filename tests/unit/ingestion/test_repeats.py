"""Which deliveries are the first of their events."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.events.model import EventKey
from hedgerow.ingestion.model import Accepted, Arrived
from hedgerow.ingestion.repeats import ON_THE_WAY_S, PAUSE_S, Repeats, keys_of
from hedgerow.projects.model import ProjectId

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
ONE, OTHER = ProjectId(1), ProjectId(2)


class Stored:
    """An event store of which only this is asked."""

    def __init__(self, accepted: Mapping[EventKey, datetime] | None = None) -> None:
        self.accepted = accepted or {}
        self.failure: Exception | None = None
        self.asked = 0

    async def acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return {key: self.accepted[key] for key in keys if key in self.accepted}

    append: Any = None
    delete: Any = None


def arrived(uuid: str, at: datetime = NOW) -> Arrived:
    return Arrived(
        uuid=uuid, event="e", distinct_id="ann", properties={}, timestamp=NOW, accepted_at=at
    )


async def new(repeats: Repeats, *events: Arrived, project: ProjectId = ONE) -> list[str]:
    known = await repeats.known(
        [Accepted(id=1, project_id=project, events=events, number=len(events))]
    )
    return [event.uuid for event in known.without_repeats(project, events)]


@pytest.fixture
async def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the loop's time pass."""
    loop = asyncio.get_running_loop()
    began, passed = loop.time(), [0.0]
    monkeypatch.setattr(loop, "time", lambda: began + passed[0])

    def pass_by(seconds: float) -> None:
        passed[0] += seconds

    return pass_by


async def test_of_one_uuid_in_a_batch_the_first_is_new() -> None:
    repeats = Repeats(Stored(), is_alone=True)
    assert await new(repeats, arrived("a"), arrived("b"), arrived("a")) == ["a", "b"]


async def test_what_is_on_its_way_is_a_repeat_until_the_store_has_it() -> None:
    stored = Stored()
    repeats = Repeats(stored, is_alone=True)
    repeats.settled([(ONE, "a")])
    assert await new(repeats, arrived("a"), arrived("b")) == ["b"]
    assert await new(repeats, arrived("a"), project=OTHER) == ["a"]
    repeats.stored([(ONE, "a")])
    assert await new(repeats, arrived("a")) == ["a"]  # it was deleted, say
    stored.accepted = {(ONE, "a"): NOW}
    assert await new(repeats, arrived("a", NOW + timedelta(microseconds=1))) == []
    assert await new(repeats, arrived("a", NOW - timedelta(days=1))) == []


async def test_an_acceptance_is_no_repeat_of_itself() -> None:
    repeats = Repeats(Stored({(ONE, "a"): NOW}), is_alone=True)
    assert await new(repeats, arrived("a"), arrived("a")) == ["a"]


async def test_what_arrives_while_the_store_is_asked_is_not_missed() -> None:
    repeats = Repeats(Stored(), is_alone=True)
    repeats.settled([(ONE, "a")])
    known = await repeats.known([Accepted(id=1, project_id=ONE, events=[arrived("a")], number=1)])
    repeats.stored([(ONE, "a")])
    assert known.without_repeats(ONE, [arrived("a")]) == []


async def test_what_another_bucket_settles_meanwhile_is_not_missed() -> None:
    repeats = Repeats(Stored(), is_alone=False)
    known = await repeats.known([Accepted(id=1, project_id=ONE, events=[arrived("a")], number=1)])
    repeats.settled(keys_of(ONE, [arrived("a")]))
    assert known.without_repeats(ONE, [arrived("a")]) == []


async def test_who_is_not_alone_forgets_in_time_what_others_store(later: Any) -> None:
    repeats, alone = Repeats(Stored(), is_alone=False), Repeats(Stored(), is_alone=True)
    for each in (repeats, alone):
        each.settled([(ONE, "a")])
    later(ON_THE_WAY_S + 1)
    for each in (repeats, alone):
        each.settled([(ONE, "b")])
    assert await new(repeats, arrived("a"), arrived("b")) == ["a"]
    assert await new(alone, arrived("a"), arrived("b")) == []


@pytest.mark.parametrize("failure", [Unavailable("away"), TimeoutError()])
async def test_a_store_that_is_away_is_not_asked_for_a_while(
    later: Any, failure: Exception
) -> None:
    stored = Stored({(ONE, "a"): NOW})
    stored.failure = failure
    repeats = Repeats(stored, is_alone=True)
    again = arrived("a", NOW + timedelta(hours=1))
    assert [await new(repeats, again) for _ in range(3)] == [["a"]] * 3
    assert stored.asked == 1
    stored.failure = None
    later(PAUSE_S + 1)
    assert await new(repeats, again) == []
