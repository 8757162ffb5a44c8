"""The import job: reads rows, maps them to events and accepts them like captured events.

The cursor is stored after each batch. Rows that are read again after a crash get the same uuids, so
their events are stored once.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from typing import Any, Protocol, cast

from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.deliveries.model import LogLevel, LogLine
from hedgerow.pipelines.imports.mapping import compile_mapping
from hedgerow.pipelines.jobs.running import JobContext, JobStep
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.plugin.component import Component
from hedgerow.plugin.http import HttpClient, TransportError
from hedgerow.plugin.imports import (
    BadRow,
    DatabaseReader,
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


class EventSink(Protocol):
    """Accepts events for ingestion."""

    async def accept(
        self, project_id: ProjectId, events: Sequence[dict[str, Any]]
    ) -> Mapping[int, str]:
        """Accept events, after waiting for space in the inbox. Returns the reasons of rejected
        events by index."""
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

    def add_bad_rows(self, rows: Sequence[BadRow]) -> list[LogLine]:
        """Count bad rows and return log lines for the first ones."""
        self.bad += len(rows)
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
        database: DatabaseReader,
        clock: Clock,
    ) -> None:
        self._state = state
        self._sink = sink
        self._http = http
        self._files = files
        self._database = database
        self._clock = clock

    def build_context(self, context: JobContext) -> ImportContext:
        again = bool(context.job.payload.get("again"))

        async def is_finished(file: FileVersion) -> bool:
            return not again and await self._state.is_finished(context.record.id, file)

        return ImportContext(
            project_id=context.record.project_id,
            http=self._http,
            files=self._files,
            database=self._database,
            is_finished=is_finished,
            run_in_thread=run_in_thread,
            sleep=asyncio.sleep,
            clock=self._clock,
        )

    async def run(self, context: JobContext) -> None:
        read = context.component.read
        if read is None:
            raise JobError("The component of this record is not an import app.")
        about = fingerprint_source(context.component, context.settings)
        cursor = context.job.cursor
        if cursor is None and not context.job.payload.get("again"):
            cursor = await self._state.cursor(context.record.id, about)
        run = _ImportRun(context, self._sink, about)
        pauses = iter(RETRY_PAUSES_S)
        while True:
            try:
                async for batch in _read_source(
                    read, context.settings, cursor, self.build_context(context)
                ):
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

    def __init__(self, context: JobContext, sink: EventSink, about: str) -> None:
        self._context = context
        self._sink = sink
        self._about = about
        self._to_event = compile_mapping(context.settings.get("mapping") or {})
        self._counts = ImportCounts(context.job.details, context.mask)
        self._done = context.job.done
        self._last = ImportBatch(rows=(), cursor=None)

    async def process(self, batch: ImportBatch) -> None:
        rows = batch.rows
        bad = list(batch.bad)
        rejected: Mapping[int, str] = {}
        if rows:
            events = [self._to_event(row) for row in rows]
            rejected = await self._sink.accept(self._context.record.project_id, events)
            bad += [BadRow(location=rows[at].location, reason=why) for at, why in rejected.items()]
        self._counts.imported += len(rows) - len(rejected)
        self._done += len(rows) + len(batch.bad)
        self._last = batch
        await self._save(batch.cursor, batch.finished, self._counts.add_bad_rows(bad))

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
        if (end := timeout.when()) is not None:
            timeout.reschedule(end + seconds)
        await ctx.sleep(seconds)

    batches = cast(Any, read(settings, cursor, replace(ctx, sleep=sleep_without_timeout)))
    async with aclosing(batches):
        while True:
            timeout = asyncio.timeout(BATCH_TIMEOUT_S)
            try:
                async with timeout:
                    batch = await anext(batches)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise JobError(f"The source sent nothing for {BATCH_TIMEOUT_S:.0f} s.") from None
            yield batch
