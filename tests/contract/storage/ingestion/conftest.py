"""The inbox in the database, and in a stream of NATS JetStream."""

from collections.abc import AsyncIterator, Callable, Iterator
from uuid import uuid4

import pytest

from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.ingestion.stream_inbox import open_inbox
from tests.contract.storage.conftest import Stores
from tests.support.nats import NatsTestServer, needs_nats

BUCKETS = 16
STREAM_BYTES = 64 << 20

OpenInbox = Callable[[Stores, int], SqlInboxStore]


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsTestServer]:
    with NatsTestServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(params=["database", pytest.param("stream", marks=needs_nats)])
async def open_any_inbox(
    request: pytest.FixtureRequest, stores: Stores
) -> AsyncIterator[OpenInbox]:
    """Opens the inbox in one process."""
    if request.param == "database":
        yield lambda process, buckets: SqlInboxStore(process.database, buckets)
        return
    if stores.location.is_sqlite:
        pytest.skip("a stream needs PostgreSQL")
    url = f"{request.getfixturevalue('nats').url}/inbox-{uuid4().hex}"
    opened: list[SqlInboxStore] = []

    def open_stream(process: Stores, buckets: int) -> SqlInboxStore:
        opened.append(open_inbox(process.database, buckets, url, STREAM_BYTES))
        return opened[-1]

    yield open_stream
    for each in opened:
        await each.close()


@pytest.fixture
def inbox(stores: Stores, open_any_inbox: OpenInbox) -> SqlInboxStore:
    """The inbox of a single-process installation."""
    return open_any_inbox(stores, 1)


@pytest.fixture
def shared(stores: Stores, open_any_inbox: OpenInbox) -> SqlInboxStore:
    return open_any_inbox(stores, BUCKETS)


@pytest.fixture
async def others(other_stores: Stores, open_any_inbox: OpenInbox) -> SqlInboxStore:
    """The same inbox in another process."""
    inbox = open_any_inbox(other_stores, BUCKETS)
    if inbox.has_stream:
        await inbox.find_work()
    return inbox


@pytest.fixture
def on_postgres(stores: Stores) -> None:
    if stores.location.is_sqlite:
        pytest.skip("only where several processes share a database")
