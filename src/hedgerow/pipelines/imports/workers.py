"""Reads sources of imports in worker processes, which can be killed. Each has limits on memory and
time, and projects take turns for them.

What a source sends is never parsed here: a small file can unpack to gigabytes, and parsing a page
can take seconds, during which the event loop would answer no other client.
"""

import asyncio
import os
import pickle
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from functools import partial
from itertools import count
from typing import Any, BinaryIO

import msgspec

from hedgerow.lib import jsonio
from hedgerow.lib.threads import ThreadLimiter, run_in_thread
from hedgerow.lib.workers.fair_queue import Places
from hedgerow.lib.workers.process import WorkerDied, WorkerProcess
from hedgerow.pipelines.imports.reading import (
    EventArguments,
    EventsRequest,
    FileRequest,
    ListingRequest,
    NextRequest,
    PreparedRows,
    QueryRequest,
    ReadRequest,
    RowsRequest,
    Source,
    SourcePage,
)
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import DatabaseQuery, DatabaseReader, JobError, SourceRow
from hedgerow.projects.model import ProjectId

HOST_MODULE = "hedgerow.app.hosts.import_host"
# A project gets at most one of them, so that the next one finds the other.
MAX_PROCESSES = 2
START_TIMEOUT_S = 60.0
# For one page. The CPU time is what the host allows itself; the other limit includes the time that
# a database takes for a query.
MAX_PAGE_CPU_S = 20.0
MAX_PAGE_S = 180.0
MAX_MEMORY_MIB = 256
# While other projects wait, a source keeps its process for so long, and for so long without a page.
SLICE_S = 5.0
MAX_SILENCE_S = 30.0
# An idle process ends.
IDLE_TIMEOUT_S = 60.0

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
BuildArguments = Callable[[], EventArguments]
Waiting = Callable[[], AbstractContextManager[None]]

_encode = msgspec.msgpack.Encoder().encode
_decode_page = msgspec.msgpack.Decoder(SourcePage).decode


class ImportWorkers:
    """The worker processes. They start on demand. `resolve` returns the IP addresses of a database
    that may be connected to."""

    def __init__(
        self,
        resolve: Resolve,
        host_module: str = HOST_MODULE,
        max_processes: int = MAX_PROCESSES,
    ) -> None:
        self.resolve = resolve
        self._idle = [
            WorkerProcess(
                host_module, start_timeout_s=START_TIMEOUT_S, response_timeout_s=MAX_PAGE_S
            )
            for _ in range(max_processes)
        ]
        self._workers = tuple(self._idle)
        self._places = Places[ProjectId](max_processes, per_key=1)
        # A killed request holds its thread for a moment longer than its place.
        self._threads = ThreadLimiter(2 * max_processes)
        self._last_use: dict[WorkerProcess, object] = {}
        self._session_ids = count(1)

    @property
    def has_waiting(self) -> bool:
        """Whether another project waits for a process."""
        return self._places.waiting > 0

    @asynccontextmanager
    async def hold(self, project_id: ProjectId, waiting: Waiting) -> AsyncIterator["WorkerSession"]:
        with waiting():
            await self._places.acquire(project_id)
        try:
            worker = self._idle.pop()
            session = WorkerSession(worker, self._threads, next(self._session_ids))
            try:
                yield session
            finally:
                session.close()
                self._idle.append(worker)
                self._plan_end(worker)
        finally:
            self._places.release(project_id)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def _plan_end(self, worker: WorkerProcess) -> None:
        self._last_use[worker] = use = object()

        def end_if_unused() -> None:
            if worker in self._idle and self._last_use[worker] is use:
                worker.end()

        asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, end_if_unused)


class WorkerSession:
    """A process while one source is read. It is killed if the source has more pages at the end."""

    def __init__(self, worker: WorkerProcess, threads: ThreadLimiter, id: int) -> None:
        self._worker = worker
        self._threads = threads
        self._id = id
        self._is_open = False
        self._is_closed = False

    async def request(self, request: ReadRequest, files: Sequence[int] = ()) -> SourcePage:
        """Raises JobError and TransportError. A cancelled request is killed."""
        self._is_open = True
        body = _encode(msgspec.structs.replace(request, session=self._id))
        # The caller may close its files when it is cancelled, while the thread still sends them.
        copies = [os.dup(file) for file in files]
        try:
            response = await self._threads.run(partial(self._exchange, body, copies))
        except WorkerDied as died:
            raise _explain_death(died) from None
        except asyncio.CancelledError:
            self.close()
            raise
        page = _decode_page(response)
        self._is_open = not (page.is_last or page.error)
        if page.error:
            raise TransportError(page.error) if page.is_temporary else JobError(page.error)
        return page

    def close(self) -> None:
        if self._is_open:
            self._is_closed = True
            self._worker.kill()

    def _exchange(self, body: bytes, files: Sequence[int]) -> bytes:
        try:
            if self._is_closed:  # cancelled before this thread began
                raise WorkerDied(timed_out=False)
            return self._worker.request(body, files=files)
        finally:
            for file in files:
                os.close(file)


class SourceReader:
    """Reads the source of one import. Time during which it `waiting` for a process does not count
    as silence of the source."""

    def __init__(
        self,
        workers: ImportWorkers,
        project_id: ProjectId,
        mapping: dict[str, Any],
        build_arguments: BuildArguments,
        waiting: Waiting = nullcontext,
    ) -> None:
        self._workers = workers
        self._project_id = project_id
        self._mapping = mapping
        self._build_arguments = build_arguments
        self._waiting = waiting

    def with_waiting(self, waiting: Waiting) -> "SourceReader":
        build = self._build_arguments
        return SourceReader(self._workers, self._project_id, self._mapping, build, waiting)

    async def prepare_rows(self, rows: Sequence[SourceRow]) -> PreparedRows:
        """Turn rows of a package into events."""
        encoded = await run_in_thread(lambda: _encode_rows(rows))
        return (await self._read_one(RowsRequest(rows=encoded))).rows

    async def parse_events(self, file: BinaryIO, host: str) -> SourcePage:
        return await self._read_one(EventsRequest(host=host), [file.fileno()])

    async def parse_listing(self, body: bytes) -> SourcePage:
        return await self._read_one(ListingRequest(body=body))

    def read_file(
        self, file: BinaryIO, name: str, format: str, position: Any
    ) -> AsyncGenerator[SourcePage]:
        source = FileRequest(name=name, format=format, position=position)

        def continue_at(position: Any) -> FileRequest:
            return msgspec.structs.replace(source, position=position)

        return self._read_pages(source, continue_at, [file.fileno()])

    async def read_query(
        self, query: DatabaseQuery, known: Sequence[str] = (), *, is_raw: bool = False
    ) -> AsyncGenerator[SourcePage]:
        address = query.address
        source = QueryRequest(
            addresses=await self._workers.resolve(address.host, address.port),
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database,
            ssl_mode=address.ssl_mode,
            text=query.text,
            cursor_column=query.cursor_column,
            at=query.start,
            known=known,
            is_raw=is_raw,
        )

        def continue_at(position: Any) -> QueryRequest:
            if is_raw:
                # The component knows where to continue.
                raise TransportError("Other imports wait. This one continues later.")
            return msgspec.structs.replace(source, at=position["at"], known=position["known"])

        async with aclosing(self._read_pages(source, continue_at, ())) as pages:
            async for page in pages:
                yield page

    async def _read_pages(
        self, source: Source, continue_at: Callable[[Any], Source], files: Sequence[int]
    ) -> AsyncGenerator[SourcePage]:
        position = getattr(source, "position", None)
        while True:
            start = position
            async with self._workers.hold(self._project_id, self._waiting) as session:
                page = await self._request(session, source, files)
                slice_end = time.monotonic() + SLICE_S
                while True:
                    yield page
                    if page.is_last:
                        return
                    position = page.position
                    is_over = time.monotonic() > slice_end and position != start
                    if is_over and self._workers.has_waiting:
                        break
                    page = await self._request(session, NextRequest())
            source = continue_at(position)

    async def _read_one(self, source: Source, files: Sequence[int] = ()) -> SourcePage:
        async with self._workers.hold(self._project_id, self._waiting) as session:
            return await self._request(session, source, files)

    async def _request(
        self, session: WorkerSession, source: Source, files: Sequence[int] = ()
    ) -> SourcePage:
        request = ReadRequest(
            source=source, mapping=self._mapping, arguments=self._build_arguments()
        )
        task = asyncio.create_task(session.request(request, files))
        try:
            while not (await asyncio.wait({task}, timeout=MAX_SILENCE_S))[0]:
                if self._workers.has_waiting:
                    raise TransportError(
                        f"The source sent nothing for {MAX_SILENCE_S:.0f} s while other imports "
                        "waited."
                    )
            return task.result()
        finally:
            task.cancel()


class WorkerDatabase(DatabaseReader):
    """Runs queries of components of packages in a worker process."""

    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader

    @asynccontextmanager
    async def rows(self, query: DatabaseQuery) -> AsyncIterator[AsyncIterator[Sequence[Any]]]:
        async with aclosing(self._read(query)) as batches:
            yield batches

    async def _read(self, query: DatabaseQuery) -> AsyncGenerator[Sequence[Any]]:
        async with aclosing(self._reader.read_query(query, is_raw=True)) as pages:
            async for page in pages:
                raw = page.raw
                if raw:
                    yield await run_in_thread(partial(pickle.loads, raw))


def _encode_rows(rows: Sequence[SourceRow]) -> bytes:
    return jsonio.encode([(row.identity, row.location, row.values, row.is_text) for row in rows])


def _explain_death(died: WorkerDied) -> JobError:
    if died.timed_out:
        return JobError(
            f"A page of the source takes longer than {MAX_PAGE_CPU_S:.0f} s of CPU time or "
            f"{MAX_PAGE_S:.0f} s to read. Split the source, or select fewer or simpler rows."
        )
    if died.out_of_memory:
        return JobError(
            f"A page of the source needs more than {MAX_MEMORY_MIB} MiB of memory. Use smaller "
            "rows, row groups or columns."
        )
    return JobError(
        "The process that read the source ended. Resume the job. If it fails again, the source "
        "may be damaged."
    )
