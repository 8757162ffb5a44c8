"""One turn of a lane, with receivers that fail in every way: nothing is forgotten, no event takes
others with it, and order is kept for who asks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events.model import Event
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.deliver import Turn, _full
from hedgerow.pipelines.deliveries import Delivery, Report
from hedgerow.pipelines.destinations import Destination
from hedgerow.pipelines.retry import FAILURES_TO_PAUSE, HEALTHY
from hedgerow.pipelines.sending import Failed, Outcome, Sent, Surroundings, WaysOut
from tests.unit.generated import bounded
from tests.unit.pipelines.test_route import event
from tests.unit.pipelines.world import RECORD

KEEP_MS = int(timedelta(days=7).total_seconds() * 1000)
REFUSED = Failed(reason="HTTP 400", is_final=True, is_events_fault=True)
DOWN = Failed(reason="HTTP 500")
GONE = Failed(reason="HTTP 404", is_final=True)


class Receiver:
    """Does with each event as it is told, and with a whole batch as with the worst event in it."""

    def __init__(self, fates: Mapping[str, Any]) -> None:
        self._fates = fates
        self.tried: list[str] = []
        self.arrived: list[str] = []
        self.requests = 0

    async def __call__(
        self, events: Sequence[Event], settings: Mapping[str, Any], around: Surroundings
    ) -> Sequence[Outcome]:
        self.requests += 1
        self.tried += [each.uuid for each in events]
        fates = [self._fates.get(each.uuid, "sent") for each in events]
        if "raises" in fates:
            raise SystemExit(1)
        for fate, outcome in (("down", DOWN), ("gone", GONE), ("refused", REFUSED)):
            if fate in fates:
                return [outcome] * len(events)
        self.arrived += [each.uuid for each in events]
        return [Sent()] * len(events)


def deliveries(distinct_ids: Sequence[str]) -> list[Delivery]:
    now_ms = int(utc_now().timestamp() * 1000)
    return [
        Delivery(
            id=id,
            event=msgspec.structs.replace(event(number=id), distinct_id=by),
            attempts=0,
            created_ms=now_ms,
        )
        for id, by in enumerate(distinct_ids)
    ]


def turn(receiver: Receiver, **settings: Any) -> Turn:
    destination = Destination(
        record=RECORD, name="Odd", deliver=receiver, settings=settings, problem=""
    )
    http: Any = None
    return Turn(destination, HEALTHY, WaysOut(http=http), utc_now, KEEP_MS)


def uuid(id: int) -> str:
    return event(number=id).uuid


def ends(report: Report) -> list[int]:
    return sorted([*report.delivered, *report.retried, *report.dead])


people = st.lists(st.sampled_from(["ann", "bob", "cid"]), min_size=1, max_size=30)
fates = st.dictionaries(
    st.integers(0, 29), st.sampled_from(["down", "gone", "refused", "raises"]), max_size=4
)


@given(people, fates, st.integers(1, 10), st.booleans())
@bounded
async def test_whatever_a_receiver_does_each_delivery_has_one_end(
    distinct_ids: list[str], fates: dict[int, str], size: int, in_order: bool
) -> None:
    receiver = Receiver({uuid(id): fate for id, fate in fates.items()})
    found = deliveries(distinct_ids)
    report = await turn(receiver, batch_size=size, keep_order=in_order).taken(found)
    assert len(ends(report)) == len(set(ends(report)))
    assert {uuid(id) for id in report.delivered} == set(receiver.arrived)
    assert len(receiver.arrived) == len(set(receiver.arrived))
    assert {uuid(id) for id in ends(report)} <= set(receiver.tried)
    untouched = {each.id for each in found} - set(ends(report))
    if not in_order and not report.health.is_paused:
        assert untouched == set()
    if not in_order:  # one that fails never takes one with it that is only beside it
        alone = {id for id in report.dead if fates.get(id) not in ("refused", "gone")}
        assert all(report.dead[id].reason == GONE.reason for id in alone)
    if in_order:
        places = {each.event.uuid: each for each in found}
        for by in set(distinct_ids):
            came = [
                places[one].id for one in receiver.arrived if places[one].event.distinct_id == by
            ]
            assert came == sorted(came)
            put_off = [id for id in report.retried if distinct_ids[id] == by]
            assert all(id < min(put_off, default=10**9) for id in came)


async def test_one_bad_event_takes_no_others_with_it() -> None:
    for fate in ("refused", "raises"):
        receiver = Receiver({uuid(37): fate})
        report = await turn(receiver, batch_size=100).taken(deliveries(["ann"] * 100))
        assert sorted(report.delivered) == [id for id in range(100) if id != 37]
        assert {*report.dead, *report.retried} == {37}
        # One whole, then two halves for each time that a hundred can be halved.
        assert receiver.requests <= 15


async def test_what_is_refused_for_its_own_sake_pauses_nobody() -> None:
    many = 10 * FAILURES_TO_PAUSE
    receiver = Receiver({uuid(id): "refused" for id in range(many)})
    report = await turn(receiver).taken(deliveries(["ann"] * many))
    assert len(report.dead) == many
    assert not report.health.is_paused
    assert report.health.error == REFUSED.reason
    assert report.entry is None


@pytest.mark.parametrize(
    ("number", "age_s", "sent"),
    [(4, 0, 4), (10, 0, 10), (12, 0, 10), (12, 9, 12), (25, 4, 20), (25, 6, 25)],
)
def test_a_young_rest_waits_for_its_batch_to_fill(number: int, age_s: int, sent: int) -> None:
    destination = Destination(
        record=RECORD,
        name="",
        deliver=Receiver({}),
        settings={"batch_size": 10, "batch_seconds": 5},
        problem="",
    )
    found = deliveries(["ann"] * number)
    now = datetime.fromtimestamp(found[0].created_ms / 1000 + age_s, UTC)
    assert len(_full(destination, found, now)) == sent
    tried = [*found[:-1], replace(found[-1], attempts=1)]
    assert len(_full(destination, tried, now)) == number


async def test_a_turn_ends_when_its_record_is_changed() -> None:
    receiver = Receiver({})
    destination = Destination(record=RECORD, name="", deliver=receiver, settings={}, problem="")
    http: Any = None
    current = Turn(
        destination,
        HEALTHY,
        WaysOut(http=http),
        utc_now,
        KEEP_MS,
        is_current=lambda: receiver.requests < 5,
    )
    report = await current.taken(deliveries(["ann"] * 100))
    assert receiver.requests == len(report.delivered) == 5
