"""How much waits in the inbox and since when, and leaving it to others."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from hedgerow.ingestion.model import Arrived
from hedgerow.ingestion.store import Settled, Waiting
from hedgerow.persons.changes import Changes
from hedgerow.persons.known import Known
from hedgerow.projects.model import ProjectId
from hedgerow.storage.inbox import InboxRecords
from tests.contract.stores.conftest import Stores
from tests.happenings import happening

PROJECT = ProjectId(1)
AT = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def _settled(_: ProjectId, arrived: Sequence[Arrived], __: Known) -> Settled:
    nothing = Changes(persons=[], groups=[], group_types={}, warnings=[])
    return Settled(events=[], changes=nothing, warnings=[], flag_calls={})


async def _add(inbox: InboxRecords, number: int, at: datetime) -> None:
    event = msgspec.structs.replace(happening(), accepted_at=at)
    await inbox.add(PROJECT, [event] * number, [], at)


async def test_what_waits_is_counted_and_its_age_is_kept_when_it_is_settled(
    stores: Stores,
) -> None:
    inbox = InboxRecords(stores.database, 1)
    assert await inbox.waiting() == Waiting(unsettled=0, unstored=0)
    assert await inbox.waits_since() is None
    await _add(inbox, 3, AT)
    await _add(inbox, 2, AT + timedelta(minutes=1))
    assert await inbox.waiting() == Waiting(unsettled=5, unstored=0)
    first, second = await inbox.oldest(0)
    assert await inbox.settle(0, [first], _settled, AT)
    assert await inbox.waiting() == Waiting(unsettled=2, unstored=3)
    assert await inbox.waits_since() == AT
    await inbox.stored(await inbox.ready(0), {}, AT)
    assert await inbox.waits_since() == AT + timedelta(minutes=1)
    assert await inbox.settle(0, [second], _settled, AT)
    await inbox.stored(await inbox.ready(0), {}, AT)
    assert await inbox.waits_since() is None


async def test_a_process_that_lets_go_leaves_its_buckets_to_others_at_once(
    stores: Stores,
) -> None:
    if stores.database.engine_name == "sqlite":
        pytest.skip("one process works alone there")
    one, other = InboxRecords(stores.database, 2), InboxRecords(stores.database, 2)
    await _add(one, 1, AT)
    (bucket,) = [bucket for bucket in (0, 1) if await one.oldest(bucket)]
    assert await one.settle(bucket, await one.oldest(bucket), _settled, AT)
    assert await one.ready(bucket)
    assert not await other.ready(bucket)
    await other.let_go()
    assert not await other.ready(bucket)
    await one.let_go()
    assert await other.ready(bucket)
