"""The import job: reads rows, maps them to events and accepts them like captured events.

The cursor is stored after each batch. Rows that are read again after a crash get the same uuids, so
their events are stored once.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any, Protocol, cast

from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.deliveries.model import LogLevel, LogLine
from hedgerow.pipelines.imports.free_space import check_free_space
from hedgerow.pipelines.imports.reading import EventArguments, PreparedBatch, PreparedRows
from hedgerow.pipelines.imports.rows import PAGE_ROWS
from hedgerow.pipelines.imports.workers import (
    ImportWorkers,
    SourceReader,
    WorkerDatabase,
)
from hedgerow.pipelines.jobs.running import JobContext, JobStep
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.plugin.component import Component
from hedgerow.plugin.http import HttpClient, TransportError
from hedgerow.plugin.imports import (
    BadRow,
    FileVersion,
    ImportBatch,
    ImportContext,
    ImportFiles,
    JobError,
    ReadSource,
)
from hedgerow.projects.model import ProjectId

# A source that yields no batch for this long is given up, unless it sleeps on purpose.
BATCH_TIMEOUT_S = 300.0
# Pauses before retries in a row of a source that fails.
RETRY_PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
MAX_SAMPLES = 20
TEXT_MAX = 300
# Pages in a row without an event, before the source is given up.
MAX_FRUITLESS_BATCHES = 1000


class EventSink(Protocol):
    """Accepts events for ingestion."""

    def build_arguments(self) -> EventArguments:
        """Return what a worker process needs to parse and encode events now."""
        ...

    async def accept(self, project_id: ProjectId, events: bytes) -> None:
        """Accept events that a worker process has encoded, after waiting for space in the
        inbox."""
        ...


class ImportStateStore(Protocol):
    async def cursor(self, record_id: RecordId, about: str) -> Any:
        """Return where the last import of the same source ended; None if there was none."""
        ...

    async def is_finished(self, record_id: RecordId, file: FileVersion) -> bool: ...


class ImportCounts:
    """Counts of imported and bad rows, with samples of the bad ones."""

    def __init__(self, details: Mapping[str, Any], mask: SecretMask) -> None:
        self._mask = mask
        self.imported = int(details.get("imported", 0))
        self.bad = int(details.get("bad", 0))
        self.samples: list[dict[str, str]] = list(details.get("samples", ()))

    def add_bad_rows(self, number: int, rows: Sequence[BadRow]) -> list[LogLine]:
        """Count bad rows, of which these are the first, and return log lines for the first ones."""
        self.bad += number
        samples = [
            BadRow(location=self._sanitize(row.location), reason=self._sanitize(row.reason))
            for row in rows[: MAX_SAMPLES - len(self.samples)]
        ]
        self.samples += [{"place": row.location, "reason": row.reason} for row in samples]
        return [
            LogLine(level=LogLevel.WARNING, message=f"{row.location}: {row.reason}")
            for row in samples
        ]

    def _sanitize(self, text: str) -> str:
        return replace_unstorable_characters(self._mask.cut(text, TEXT_MAX))

    def details(self, batch: ImportBatch) -> dict[str, Any]:
        return {
            "imported": self.imported,
            "bad": self.bad,
            "samples": self.samples,
            **batch.details,
        }


class ImportJob:
    def __init__(
        self,
        *,
        state: ImportStateStore,
        sink: EventSink,
        http: HttpClient,
        files: ImportFiles,
        workers: ImportWorkers,
        clock: Clock,
    ) -> None:
        self._state = state
        self._sink = sink
        self._http = http
        self._files = files
        self._workers = workers
        self._clock = clock

    def build_context(self, context: JobContext) -> ImportContext:
        again = bool(context.job.payload.get("again"))

        async def is_finished(file: FileVersion) -> bool:
            return not again and await self._state.is_finished(context.record.id, file)

        reader = SourceReader(
            self._workers,
            context.record.project_id,
            context.settings.get("mapping") or {},
            self._sink.build_arguments,
        )
        return ImportContext(
            project_id=context.record.project_id,
            http=self._http,
            files=self._files,
            database=WorkerDatabase(reader),
            is_finished=is_finished,
            run_in_thread=run_in_thread,
            sleep=asyncio.sleep,
            clock=self._clock,
            reader=reader,
        )

    async def run(self, context: JobContext) -> None:
        read = context.component.read
        if read is None:
            raise JobError("The component of this record is not an import app.")
        about = fingerprint_source(context.component, context.settings)
        cursor = context.job.cursor
        if cursor is None and not context.job.payload.get("again"):
            cursor = await self._state.cursor(context.record.id, about)
        ctx = self.build_context(context)
        run = _ImportRun(context, ctx, self._sink, about)
        pauses = iter(RETRY_PAUSES_S)
        while True:
            try:
                async for batch in _read_source(read, context.settings, cursor, ctx):
                    await run.process(batch)
                    cursor = batch.cursor
                    pauses = iter(RETRY_PAUSES_S)
                break
            except TransportError:
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
        await run.end(cursor)


class _ImportRun:
    """One run of an import."""

    def __init__(
        self, context: JobContext, ctx: ImportContext, sink: EventSink, about: str
    ) -> None:
        self._context = context
        self._ctx = ctx
        self._sink = sink
        self._about = about
        self._counts = ImportCounts(context.job.details, context.mask)
        self._done = context.job.done
        self._fruitless_batches = 0
        self._last = ImportBatch(rows=(), cursor=None)

    async def process(self, batch: ImportBatch) -> None:
        check_free_space(self._ctx.files)
        if isinstance(batch, PreparedBatch):
            await self._accept(batch, batch.prepared, is_last=True)
            return
        for start in range(0, max(1, len(batch.rows)), PAGE_ROWS):
            rows = batch.rows[start : start + PAGE_ROWS]
            prepared = await self._ctx.reader.prepare_rows(rows) if rows else PreparedRows()
            await self._accept(batch, prepared, is_last=start + PAGE_ROWS >= len(batch.rows))

    async def _accept(self, batch: ImportBatch, prepared: PreparedRows, *, is_last: bool) -> None:
        """Accept rows of a batch, and store its cursor with the last ones."""
        if prepared.events:
            await self._sink.accept(self._context.record.project_id, prepared.events)
        bad = list(batch.bad) if is_last else []
        self._counts.imported += prepared.accepted
        self._done += prepared.accepted + prepared.bad + len(bad)
        self._check_fruitfulness(prepared.accepted)
        logs = self._counts.add_bad_rows(prepared.bad + len(bad), [*bad, *prepared.samples])
        if is_last:
            self._last = batch
            await self._save(batch.cursor, batch.finished, logs)

    def _check_fruitfulness(self, accepted: int) -> None:
        self._fruitless_batches = 0 if accepted else self._fruitless_batches + 1
        if self._fruitless_batches >= MAX_FRUITLESS_BATCHES:
            raise JobError(
                f"No row of {MAX_FRUITLESS_BATCHES:,} pages in a row can be imported. Check the "
                "source and the mapping."
            )

    async def end(self, cursor: Any) -> None:
        counts = self._counts
        message = f"Import: {counts.imported} rows imported, {counts.bad} bad rows skipped."
        await self._save(cursor, (), [LogLine(level=LogLevel.INFO, message=message)])

    async def _save(
        self, cursor: Any, finished: Sequence[FileVersion], logs: Sequence[LogLine]
    ) -> None:
        await self._context.save(
            JobStep(
                cursor=cursor,
                done=self._done,
                total=self._last.total,
                details=self._counts.details(self._last),
                logs=logs,
                about=self._about,
                finished=finished,
            )
        )


def fingerprint_source(component: Component, settings: Mapping[str, Any]) -> str:
    """Identify the source that a cursor belongs to, by the settings that select it."""
    ignored = component.secret_keys | {"mapping", "schedule"}
    relevant = {key: value for key, value in sorted(settings.items()) if key not in ignored}
    return sha256(jsonio.encode([component.key, relevant])).hexdigest()


async def _read_source(
    read: ReadSource, settings: Mapping[str, Any], cursor: Any, ctx: ImportContext
) -> AsyncIterator[ImportBatch]:
    timeout = asyncio.timeout(BATCH_TIMEOUT_S)

    async def sleep_without_timeout(seconds: float) -> None:
        with wait_without_timeout():
            await ctx.sleep(seconds)

    @contextmanager
    def wait_without_timeout() -> Iterator[None]:
        loop, end = asyncio.get_running_loop(), timeout.when()
        began = loop.time()
        if end is None:
            yield
            return
        timeout.reschedule(None)
        try:
            yield
        finally:
            timeout.reschedule(end + loop.time() - began)

    reader = ctx.reader and ctx.reader.with_waiting(wait_without_timeout)
    source = replace(ctx, sleep=sleep_without_timeout, reader=reader)
    batches = cast(Any, read(settings, cursor, source))
    async with aclosing(batches):
        while True:
            timeout = asyncio.timeout(BATCH_TIMEOUT_S)
            try:
                async with timeout:
                    batch = await anext(batches)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise JobError(
                    f"The source sent nothing complete for {BATCH_TIMEOUT_S:.0f} s."
                ) from None
            yield batch
