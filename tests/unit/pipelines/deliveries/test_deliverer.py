"""One delivery round with failing receivers: each delivery has an outcome, a bad event fails
alone, and `keep_order` keeps the order.
"""

import asyncio
from collections import Counter
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
from hedgerow.pipelines.deliveries.deliverer import DeliveryRound, _drop_partial_batch
from hedgerow.pipelines.deliveries.model import Delivery, DeliveryReport
from hedgerow.pipelines.deliveries.retry import FAILURES_TO_PAUSE, NOT_PAUSED
from hedgerow.pipelines.destinations.attempt import (
    BYTES_PER_START,
    STARTS_PER_ITERATION,
    DeliveryTarget,
    OutboundClients,
)
from hedgerow.pipelines.destinations.registry import Destination
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.plugin.delivery import DeliveryContext
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome
from tests.unit.generated import bounded
from tests.unit.pipelines.deliveries.test_router import event
from tests.unit.pipelines.sample_components import RECORD

KEEP_MS = int(timedelta(days=7).total_seconds() * 1000)
REFUSED = Failed(reason="HTTP 400", is_final=True, event_rejected=True)
DOWN = Failed(reason="HTTP 500")
GONE = Failed(reason="HTTP 404", is_final=True)


class Receiver:
    """Treats each event as configured, and a batch like the worst event in it."""

    def __init__(self, behaviours: Mapping[str, Any]) -> None:
        self._behaviours = behaviours
        self.attempted: list[str] = []
        self.received: list[str] = []
        self.requests = 0

    async def __call__(
        self, events: Sequence[Event], settings: Mapping[str, Any], ctx: DeliveryContext
    ) -> Sequence[Outcome]:
        self.requests += 1
        self.attempted += [each.uuid for each in events]
        behaviours = [self._behaviours.get(each.uuid, "sent") for each in events]
        if "raises" in behaviours:
            raise SystemExit(1)
        for behaviour, outcome in (("down", DOWN), ("gone", GONE), ("refused", REFUSED)):
            if behaviour in behaviours:
                return [outcome] * len(events)
        self.received += [each.uuid for each in events]
        return [Delivered()] * len(events)


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


def make_destination(deliver: Any, **settings: Any) -> Destination:
    target = DeliveryTarget(
        project_id=RECORD.project_id,
        record_id=RECORD.id,
        deliver=deliver,
        settings=settings,
        mask=SecretMask(),
    )
    return Destination(record=RECORD, name="Test", target=target, problem="")


def make_round(receiver: Receiver, **settings: Any) -> DeliveryRound:
    destination = make_destination(receiver, **settings)
    http: Any = None
    return DeliveryRound(destination, NOT_PAUSED, OutboundClients(http=http), utc_now, KEEP_MS)


def uuid(id: int) -> str:
    return event(number=id).uuid


def finished_ids(report: DeliveryReport) -> list[int]:
    return sorted([*report.delivered, *report.retried, *report.dead])


people = st.lists(st.sampled_from(["ann", "bob", "cid"]), min_size=1, max_size=30)
behaviours = st.dictionaries(
    st.integers(0, 29), st.sampled_from(["down", "gone", "refused", "raises"]), max_size=4
)


@given(people, behaviours, st.integers(1, 10), st.booleans())
@bounded
async def test_each_delivery_has_exactly_one_outcome(
    distinct_ids: list[str], behaviours: dict[int, str], size: int, in_order: bool
) -> None:
    receiver = Receiver({uuid(id): behaviour for id, behaviour in behaviours.items()})
    found = deliveries(distinct_ids)
    report = await make_round(receiver, batch_size=size, keep_order=in_order).run(found)
    assert len(finished_ids(report)) == len(set(finished_ids(report)))
    assert {uuid(id) for id in report.delivered} == set(receiver.received)
    assert len(receiver.received) == len(set(receiver.received))
    assert {uuid(id) for id in finished_ids(report)} <= set(receiver.attempted)
    untouched = {each.id for each in found} - set(finished_ids(report))
    if not in_order and not report.pause_state.is_paused:
        assert untouched == set()
    if not in_order:  # a failing event fails no other event of its batch
        other_dead = {id for id in report.dead if behaviours.get(id) not in ("refused", "gone")}
        assert all(report.dead[id].reason == GONE.reason for id in other_dead)
    if in_order:
        by_uuid = {each.event.uuid: each for each in found}
        for by in set(distinct_ids):
            received_ids = [
                by_uuid[one].id for one in receiver.received if by_uuid[one].event.distinct_id == by
            ]
            assert received_ids == sorted(received_ids)
            retried_ids = [id for id in report.retried if distinct_ids[id] == by]
            assert all(id < min(retried_ids, default=10**9) for id in received_ids)


async def test_bad_event_fails_alone() -> None:
    for behaviour in ("refused", "raises"):
        receiver = Receiver({uuid(37): behaviour})
        report = await make_round(receiver, batch_size=100).run(deliveries(["ann"] * 100))
        assert sorted(report.delivered) == [id for id in range(100) if id != 37]
        assert {*report.dead, *report.retried} == {37}
        # The whole batch, then two halves for each bisection of a hundred.
        assert receiver.requests <= 15


async def test_rejected_events_do_not_pause_the_destination() -> None:
    many = 10 * FAILURES_TO_PAUSE
    receiver = Receiver({uuid(id): "refused" for id in range(many)})
    report = await make_round(receiver).run(deliveries(["ann"] * many))
    assert len(report.dead) == many
    assert not report.pause_state.is_paused
    assert report.pause_state.error == REFUSED.reason
    assert report.entry is None


@pytest.mark.parametrize(
    ("number", "age_s", "sent"),
    [(4, 0, 4), (10, 0, 10), (12, 0, 10), (12, 9, 12), (25, 4, 20), (25, 6, 25)],
)
def test_partial_batch_waits_to_fill(number: int, age_s: int, sent: int) -> None:
    destination = make_destination(Receiver({}), batch_size=10, batch_seconds=5)
    found = deliveries(["ann"] * number)
    now = datetime.fromtimestamp(found[0].created_ms / 1000 + age_s, UTC)
    assert len(_drop_partial_batch(destination, found, now)) == sent
    retried = [*found[:-1], replace(found[-1], attempts=1)]
    assert len(_drop_partial_batch(destination, retried, now)) == number


async def test_round_ends_when_its_record_is_changed() -> None:
    receiver = Receiver({})
    destination = make_destination(receiver)
    http: Any = None
    current = DeliveryRound(
        destination,
        NOT_PAUSED,
        OutboundClients(http=http),
        utc_now,
        KEEP_MS,
        is_current=lambda: receiver.requests < 5,
    )
    report = await current.run(deliveries(["ann"] * 100))
    assert receiver.requests == len(report.delivered) == 5


@pytest.mark.parametrize(
    ("size", "most"), [(10, 2 * STARTS_PER_ITERATION), (BYTES_PER_START * STARTS_PER_ITERATION, 2)]
)
async def test_a_few_attempts_begin_in_an_iteration_of_the_loop(size: int, most: int) -> None:
    """However many destinations a project has. Two iterations of the loop are counted together."""
    begun: Counter[int] = Counter()
    iteration = 0

    async def count_iterations() -> None:
        nonlocal iteration
        while True:
            await asyncio.sleep(0)
            iteration += 1

    async def deliver(
        events: Sequence[Event], settings: Mapping[str, Any], ctx: DeliveryContext
    ) -> Sequence[Outcome]:
        begun[iteration] += 1
        return [Delivered()] * len(events)

    http: Any = None
    clients = OutboundClients(http=http)
    destination = make_destination(deliver)
    found = [
        replace(each, event=msgspec.structs.replace(each.event, properties="x" * size))
        for each in deliveries(["ann"] * 50)
    ]
    rounds = [DeliveryRound(destination, NOT_PAUSED, clients, utc_now, KEEP_MS) for _ in range(5)]
    counting = asyncio.create_task(count_iterations())
    reports = await asyncio.gather(*(each.run(found) for each in rounds))
    counting.cancel()
    assert [len(each.delivered) for each in reports] == [50] * 5
    assert max(begun.values()) <= most
