"""Helpers for the tests of a component package: events, settings, and fakes for everything that a
component reaches. Nothing here opens a connection.

    from hedgerow.plugin import Delivered
    from hedgerow.plugin.testing import FakeHttp, deliver, make_event

    def test_sends_the_event() -> None:
        http = FakeHttp(200)
        outcomes = deliver(COMPONENT, [make_event("bought")], http=http, topic="orders")
        assert outcomes == [Delivered()]
        assert http.requests[0].url == "https://ntfy.sh/orders"
"""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO, TypeVar
from uuid import uuid4

from hedgerow.events.model import Event, PersonMode
from hedgerow.lib import jsonio
from hedgerow.plugin.component import Component
from hedgerow.plugin.delivery import (
    DeliveryContext,
    FileTarget,
    FileWriter,
    InsertResult,
    TableTarget,
    TableWriter,
    run_inline,
)
from hedgerow.plugin.http import HttpClient, Request, Response, StreamedResponse, TransportError
from hedgerow.plugin.imports import (
    DatabaseQuery,
    DatabaseReader,
    FileVersion,
    ImportBatch,
    ImportContext,
    ImportFiles,
    JobError,
)
from hedgerow.plugin.outcomes import Outcome
from hedgerow.plugin.transform import IncomingEvent
from hedgerow.projects.model import ProjectId

T = TypeVar("T")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROJECT_ID = ProjectId(1)


def make_event(
    event: str = "sample event",
    *,
    distinct_id: str = "sample-person",
    properties: Mapping[str, Any] | None = None,
    person_properties: Mapping[str, Any] | None = None,
    uuid: str | None = None,
    timestamp: datetime = NOW,
) -> Event:
    """Return a stored event as `deliver` receives it."""
    return Event(
        project_id=PROJECT_ID,
        uuid=uuid or str(uuid4()),
        event=event,
        distinct_id=distinct_id,
        properties=jsonio.encode(properties or {}).decode(),
        elements_chain="",
        timestamp=timestamp,
        created_at=timestamp,
        person_id=str(uuid4()),
        person_created_at=timestamp,
        person_properties=jsonio.encode(person_properties or {}).decode(),
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )


def make_incoming_event(
    event: str = "sample event",
    *,
    distinct_id: str = "sample-person",
    properties: Mapping[str, Any] | None = None,
    timestamp: datetime = NOW,
) -> IncomingEvent:
    """Return an event as a transformation receives it."""
    return IncomingEvent(
        uuid=str(uuid4()),
        event=event,
        distinct_id=distinct_id,
        properties=dict(properties or {}),
        timestamp=timestamp,
        accepted_at=timestamp,
    )


def make_settings(component: Component, **values: Any) -> dict[str, Any]:
    """Return every setting of a component: these values, and the defaults of the others.

    Raises ValueError for an unknown setting and for a required one without a value. Does not call
    the component's `check`, so that a test can.
    """
    settings = {field.key: field.default for field in component.settings}
    if unknown := values.keys() - settings.keys():
        raise ValueError(f"{component.key} has no setting {min(unknown)!r}.")
    settings |= values
    for field in component.settings:
        if field.required and settings[field.key] is None:
            raise ValueError(f"{component.key} requires the setting {field.key!r}.")
    return settings


class FakeHttp(HttpClient):
    """An HTTP client that records `requests` and replies with the given responses in turn; the last
    one repeats. A response is a status, a Response, or a TransportError to raise."""

    def __init__(self, *responses: int | Response | TransportError) -> None:
        self._responses = [*responses] or [200]
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        response = self._responses[0]
        if len(self._responses) > 1:
            self._responses.pop(0)
        if isinstance(response, TransportError):
            raise response
        if isinstance(response, Response):
            return response
        return Response(status=response, headers={}, body=b"")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        response = await self.send(request)

        async def chunks() -> AsyncIterator[bytes]:
            yield response.body

        yield StreamedResponse(status=response.status, headers=response.headers, chunks=chunks())


class FakeFiles(FileWriter):
    """A file writer that keeps the lines in `written`, by folder."""

    def __init__(self) -> None:
        self.written: dict[str, bytes] = {}

    async def append(self, target: FileTarget, lines: bytes) -> str:
        self.written[target.folder] = self.written.get(target.folder, b"") + lines
        return f"{target.folder}/1.{target.format}"


class FakeTables(TableWriter):
    """A table writer that keeps the events in `inserted`, by table, each uuid once."""

    def __init__(self) -> None:
        self.inserted: dict[str, dict[str, Event]] = {}

    async def insert(self, target: TableTarget, events: Sequence[Event]) -> InsertResult:
        table = self.inserted.setdefault(f"{target.schema}.{target.table}", {})
        before = len(table)
        for event in events:
            table.setdefault(event.uuid, event)
        return InsertResult(statement="", inserted_rows=len(table) - before, rejected={})


def make_context(
    *,
    http: HttpClient | None = None,
    files: FileWriter | None = None,
    tables: TableWriter | None = None,
    now: datetime = NOW,
) -> DeliveryContext:
    """Return a context for `deliver`, with fakes for whatever is not given."""
    return DeliveryContext(
        http=http or FakeHttp(),
        files=files or FakeFiles(),
        tables=tables or FakeTables(),
        run_in_thread=run_inline,
        now=now,
    )


def deliver(
    component: Component,
    events: Sequence[Event],
    ctx: DeliveryContext | None = None,
    *,
    http: HttpClient | None = None,
    **settings: Any,
) -> list[Outcome]:
    """Run a destination's `deliver` with these settings and return one outcome per event.

    Raises AssertionError if the number of outcomes is wrong, which Hedgerow counts as a failure.
    """
    if component.deliver is None:
        raise ValueError(f"{component.key} has no `deliver`.")
    ctx = ctx or make_context(http=http)
    outcomes = _run(component.deliver(events, make_settings(component, **settings), ctx))
    assert len(outcomes) == len(events), f"{len(outcomes)} outcomes for {len(events)} events"
    return list(outcomes)


def transform(component: Component, event: IncomingEvent, **settings: Any) -> IncomingEvent | None:
    """Apply a transformation with these settings to an event. None means that the event is
    dropped."""
    if component.transform is None:
        raise ValueError(f"{component.key} has no `transform`.")
    return component.transform(make_settings(component, **settings))(event)


class FakeImportFiles(ImportFiles):
    """Files of a project by name, held in memory. The version of a file is its content."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    async def list_files(self, project_id: ProjectId, path: str) -> Sequence[FileVersion]:
        found = [
            FileVersion(name=name, version=content.hex())
            for name, content in sorted(self._files.items())
            if name == path or name.startswith(path.rstrip("/") + "/")
        ]
        if not found:
            raise JobError(f"There is no file {path}.")
        return found

    async def open_file(self, project_id: ProjectId, name: str) -> BinaryIO:
        return io.BytesIO(self._files[name])

    async def create_temporary(self) -> BinaryIO:
        return io.BytesIO()

    def has_free_space(self) -> bool:
        return True


class FakeDatabase(DatabaseReader):
    """A database that records `queries` and replies to each with the same pairs: the cursor column
    as text, and all values by column."""

    def __init__(self, rows: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> None:
        self._rows = rows
        self.queries: list[DatabaseQuery] = []

    @asynccontextmanager
    async def rows(self, query: DatabaseQuery) -> AsyncIterator[AsyncIterator[Sequence[Any]]]:
        self.queries.append(query)

        async def batches() -> AsyncIterator[Sequence[Any]]:
            yield self._rows

        yield batches()


def make_import_context(
    *,
    http: HttpClient | None = None,
    files: Mapping[str, bytes] | None = None,
    database: DatabaseReader | None = None,
    finished: Sequence[FileVersion] = (),
    now: datetime = NOW,
) -> ImportContext:
    """Return a context for `read` and `check_connection`, with fakes for whatever is not given."""

    async def is_finished(file: FileVersion) -> bool:
        return file in finished

    async def sleep(seconds: float) -> None:
        """Waits take no time in tests."""

    return ImportContext(
        project_id=PROJECT_ID,
        http=http or FakeHttp(),
        files=FakeImportFiles(files or {}),
        database=database or FakeDatabase(),
        is_finished=is_finished,
        run_in_thread=run_inline,
        sleep=sleep,
        clock=lambda: now,
    )


def read_all(
    component: Component, ctx: ImportContext, cursor: Any = None, **settings: Any
) -> list[ImportBatch]:
    """Read an import app's source to its end and return all batches."""
    read: Callable[..., AsyncIterator[ImportBatch]] | None = component.read
    if read is None:
        raise ValueError(f"{component.key} has no `read`.")

    async def collect() -> list[ImportBatch]:
        return [batch async for batch in read(make_settings(component, **settings), cursor, ctx)]

    return _run(collect())


def _run(work: Awaitable[T]) -> T:
    async def wait() -> T:
        return await work

    return asyncio.run(wait())
