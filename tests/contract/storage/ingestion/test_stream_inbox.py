"""What only the inbox in NATS JetStream has: positions, a limited stream, and a server that can be
killed, lose messages, or be full.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.ingestion.model import CapturedEvent, PackedRow
from hedgerow.ingestion.store import InboxBacklog
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.ingestion.jetstream import SUMMARY_HEADER
from hedgerow.storage.ingestion.nats_connection import JetStreamConnection, StreamState
from hedgerow.storage.ingestion.stream_inbox import open_inbox
from tests.contract.storage.conftest import DEFAULT_PROJECT, NOW, Stores
from tests.contract.storage.ingestion.test_inbox import (
    add_each,
    build_captured_event,
    decide,
    get_uuids,
    process_all,
)
from tests.support.nats import NatsTestServer, needs_nats

pytestmark = needs_nats
STREAM_BYTES = 1 << 20


@pytest.fixture
def on_postgres(stores: Stores) -> None:
    if stores.location.is_sqlite:
        pytest.skip("a stream needs PostgreSQL")


@pytest.fixture
async def server(on_postgres: None, tmp_path: Path) -> AsyncIterator[NatsTestServer]:
    with NatsTestServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def inbox(stores: Stores, server: NatsTestServer) -> AsyncIterator[SqlInboxStore]:
    inbox = open_inbox(stores.database, 1, server.url, STREAM_BYTES)
    yield inbox
    await inbox.close()


async def fetch_state(server: NatsTestServer) -> StreamState:
    connection = JetStreamConnection(server.url)
    await connection.open()
    try:
        return await connection.fetch_state()
    finally:
        await connection.close()


async def add_to_restarted(inbox: SqlInboxStore, *events: CapturedEvent) -> None:
    """Add events, the first one as often as needed: the connection may be found lost only now."""
    for event in events:
        async with asyncio.timeout(60):
            while True:
                try:
                    await add_each(inbox, event)
                except Unavailable:
                    await asyncio.sleep(0.1)
                    continue
                break


def build_events(numbers: Sequence[int], **to_set: Any) -> list[CapturedEvent]:
    return [build_captured_event(number, **to_set) for number in numbers]


async def test_acknowledged_events_survive_the_death_of_the_server(
    stores: Stores, inbox: SqlInboxStore, server: NatsTestServer
) -> None:
    await add_each(inbox, *build_events(range(20)))
    (first, *_) = await inbox.fetch_unprocessed(0)
    assert await inbox.process(0, [first], decide, NOW)
    server.kill()
    with pytest.raises(Unavailable):
        await add_each(inbox, build_captured_event(99))
    assert not (await inbox.fetch_positions()).is_empty  # what is known, without the server
    server.start()
    await add_to_restarted(inbox, build_captured_event(20))
    expected = [each.uuid for each in build_events(range(1, 21))]
    assert await process_all(inbox) == expected
    # Another process begins where the first one is.
    other = open_inbox(stores.database, 1, server.url, STREAM_BYTES)
    try:
        assert await process_all(other) == []
        assert await other.count_backlog() == InboxBacklog(unstored={DEFAULT_PROJECT: 21})
        await other.find_work()
    finally:
        await other.close()
    state = await fetch_state(server)
    assert (state.messages, state.last) == (0, 21)


async def test_stream_that_lost_processed_messages_loses_no_new_ones(
    inbox: SqlInboxStore, server: NatsTestServer, tmp_path: Path
) -> None:
    """As after a power failure, if the server does not write each message to the disk at once."""
    await add_each(inbox, *build_events(range(3)))
    assert len(await process_all(inbox)) == 3
    server.kill()
    shutil.copytree(server.store, tmp_path / "earlier")
    server.start()
    await add_to_restarted(inbox, *build_events(range(3, 9)))
    assert len(await process_all(inbox)) == 6
    server.kill()
    shutil.rmtree(server.store)
    shutil.copytree(tmp_path / "earlier", server.store)
    server.start()
    await add_to_restarted(inbox, *build_events(range(9, 15)))
    assert await process_all(inbox) == [each.uuid for each in build_events(range(9, 15))]
    # As with another disk.
    server.kill()
    shutil.rmtree(server.store)
    server.start()
    await add_to_restarted(inbox, *build_events(range(15, 18)))
    assert await process_all(inbox) == [each.uuid for each in build_events(range(15, 18))]


async def test_full_stream_refuses_events_until_some_are_processed(
    inbox: SqlInboxStore, server: NatsTestServer
) -> None:
    large = build_events(range(40), text="x" * 100_000)
    with pytest.raises(Unavailable, match="Too many events wait") as refused:
        await add_each(inbox, *large)
    assert int(refused.value.headers["Retry-After"]) > 1
    accepted = await process_all(inbox)
    assert accepted == [each.uuid for each in large[: len(accepted)]]
    await inbox.find_work()
    assert (await fetch_state(server)).messages == 0
    await add_each(inbox, large[-1])
    assert await process_all(inbox) == [large[-1].uuid]


async def test_row_that_cannot_be_decoded_becomes_a_dead_letter(
    stores: Stores, inbox: SqlInboxStore
) -> None:
    damaged = PackedRow(bucket=0, events=b"\xc1 noise", number=1)
    await inbox.add_packed(DEFAULT_PROJECT, [damaged], [], NOW)
    await add_each(inbox, build_captured_event(1))
    row, _ = await inbox.fetch_unprocessed(0)
    assert row.problem
    assert await inbox.dead_letter_unprocessed(0, row, row.problem, NOW)
    assert await process_all(inbox) == [build_captured_event(1).uuid]
    letters = SqlDeadLetterStore(stores.database)
    ((found,), _) = await letters.list_oldest(10)
    assert await letters.get_content(found.id) == damaged.events


async def test_rows_left_in_the_database_are_processed_first(
    stores: Stores, inbox: SqlInboxStore
) -> None:
    await add_each(SqlInboxStore(stores.database, 1), build_captured_event(1))
    await add_each(inbox, build_captured_event(2))
    assert (await inbox.count_backlog()).total_unprocessed == 2
    assert await process_all(inbox) == [each.uuid for each in build_events([1, 2])]
    assert get_uuids(await inbox.fetch_processed(0)) == [each.uuid for each in build_events([1, 2])]


async def test_messages_that_were_removed_do_not_block_others(
    inbox: SqlInboxStore, server: NatsTestServer
) -> None:
    await add_each(inbox, *build_events(range(4)))
    connection = JetStreamConnection(server.url)
    await connection.open()
    for sequence in (1, 3):
        await connection.call("STREAM.MSG.DELETE.hedgerow", {"seq": sequence})
    era = (await connection.fetch_state()).era
    await connection.request(f"hedgerow.{era}", b"noise", {SUMMARY_HEADER: "bm9pc2U="})
    await connection.close()
    assert await process_all(inbox) == [each.uuid for each in build_events([1, 3])]
    await inbox.find_work()
    assert (await fetch_state(server)).messages == 0
