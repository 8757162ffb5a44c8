"""The job of an import app: rows are read, mapped to events and accepted as if they had been sent.

After each portion the place behind it is stored. What is read again after a crash makes the same
uuids, and is stored once.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from typing import Any, Protocol, cast

from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import storable_text
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.deliveries import LogLevel, LogLine
from hedgerow.pipelines.imports.mapping import mapped_by
from hedgerow.pipelines.imports.model import (
    Around,
    BadRow,
    ImportFiles,
    Portion,
    QueriedRows,
    Read,
)
from hedgerow.pipelines.model import FileMark, JobProblem, RecordId
from hedgerow.pipelines.running import Held, Step
from hedgerow.pipelines.sending import CannotSend, Outbound
from hedgerow.projects.model import ProjectId

# A source that gives nothing for so long is given up, unless it asks for patience.
PORTION_S = 300.0
# One that breaks off is tried again so often in a row, after so many seconds.
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
SAMPLES = 20
TEXT_MAX = 300


class Takes(Protocol):
    """The way in for events."""

    async def take(
        self, project_id: ProjectId, events: Sequence[dict[str, Any]]
    ) -> Mapping[int, str]:
        """Accept some events, once there is room for them. Why those were refused, by their place,
        that were."""
        ...


class ImportMemory(Protocol):
    async def cursor(self, record_id: RecordId, about: str) -> Any:
        """Where the last import by the same settings ended; None if there was none."""
        ...

    async def is_finished(self, record_id: RecordId, mark: FileMark) -> bool: ...


class Tally:
    """What became of rows, as it is told."""

    def __init__(self, details: Mapping[str, Any]) -> None:
        self.imported = int(details.get("imported", 0))
        self.bad = int(details.get("bad", 0))
        self.samples: list[dict[str, str]] = list(details.get("samples", ()))

    def refuse(self, rows: Sequence[BadRow]) -> list[LogLine]:
        """Log lines for those that are told one by one."""
        self.bad += len(rows)
        told = [
            BadRow(place=_text(row.place), reason=_text(row.reason))
            for row in rows[: SAMPLES - len(self.samples)]
        ]
        self.samples += [{"place": row.place, "reason": row.reason} for row in told]
        return [
            LogLine(level=LogLevel.WARNING, message=f"{row.place}: {row.reason}") for row in told
        ]

    def details(self, portion: Portion) -> dict[str, Any]:
        return {
            "imported": self.imported,
            "bad": self.bad,
            "samples": self.samples,
            **portion.details,
        }


class Importing:
    def __init__(
        self,
        *,
        memory: ImportMemory,
        takes: Takes,
        http: Outbound,
        files: ImportFiles,
        queried: QueriedRows,
        clock: Clock,
    ) -> None:
        self._memory = memory
        self._takes = takes
        self._http = http
        self._files = files
        self._queried = queried
        self._clock = clock

    def around(self, held: Held) -> Around:
        again = bool(held.job.payload.get("again"))

        async def is_finished(mark: FileMark) -> bool:
            return not again and await self._memory.is_finished(held.record.id, mark)

        return Around(
            project_id=held.record.project_id,
            http=self._http,
            files=self._files,
            queried=self._queried,
            is_finished=is_finished,
            aside=in_daemon_thread,
            sleep=asyncio.sleep,
            clock=self._clock,
        )

    async def run(self, held: Held) -> None:
        read = held.component.read
        if read is None:
            raise JobProblem("The component of this record imports nothing.")
        about = fingerprint(held.component, held.settings)
        cursor = held.job.cursor
        if cursor is None and not held.job.payload.get("again"):
            cursor = await self._memory.cursor(held.record.id, about)
        run = _Run(held, self._takes, about)
        pauses = iter(PAUSES_S)
        while True:
            try:
                async for portion in _read(read, held.settings, cursor, self.around(held)):
                    await run.take(portion)
                    cursor = portion.cursor
                    pauses = iter(PAUSES_S)
                break
            except CannotSend:
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
        await run.end(cursor)


class _Run:
    """One run of an import: portion by portion."""

    def __init__(self, held: Held, takes: Takes, about: str) -> None:
        self._held = held
        self._takes = takes
        self._about = about
        self._to_event = mapped_by(held.settings.get("mapping") or {})
        self._tally = Tally(held.job.details)
        self._done = held.job.done
        self._last = Portion(rows=(), cursor=None)

    async def take(self, portion: Portion) -> None:
        rows = portion.rows
        bad = list(portion.bad)
        refused: Mapping[int, str] = {}
        if rows:
            events = [self._to_event(row) for row in rows]
            refused = await self._takes.take(self._held.record.project_id, events)
            bad += [BadRow(place=rows[at].place, reason=why) for at, why in refused.items()]
        self._tally.imported += len(rows) - len(refused)
        self._done += len(rows) + len(portion.bad)
        self._last = portion
        await self._save(portion.cursor, portion.finished, self._tally.refuse(bad))

    async def end(self, cursor: Any) -> None:
        tally = self._tally
        message = f"Import: {tally.imported} rows taken, {tally.bad} bad ones left out."
        await self._save(cursor, (), [LogLine(level=LogLevel.INFO, message=message)])

    async def _save(
        self, cursor: Any, finished: Sequence[FileMark], logs: Sequence[LogLine]
    ) -> None:
        await self._held.save(
            Step(
                cursor=cursor,
                done=self._done,
                total=self._last.total,
                details=self._tally.details(self._last),
                logs=logs,
                about=self._about,
                finished=finished,
            )
        )


def fingerprint(component: Component, settings: Mapping[str, Any]) -> str:
    """What a cursor is about: it means nothing to another source."""
    aside = component.secret_keys | {"mapping", "schedule"}
    said = {key: value for key, value in sorted(settings.items()) if key not in aside}
    return sha256(jsonio.encode([component.key, said])).hexdigest()


async def _read(
    read: Read, settings: Mapping[str, Any], cursor: Any, around: Around
) -> AsyncIterator[Portion]:
    bound = asyncio.timeout(PORTION_S)

    async def asked_for(seconds: float) -> None:
        if (end := bound.when()) is not None:
            bound.reschedule(end + seconds)
        await around.sleep(seconds)

    portions = cast(Any, read(settings, cursor, replace(around, sleep=asked_for)))
    async with aclosing(portions):
        while True:
            bound = asyncio.timeout(PORTION_S)
            try:
                async with bound:
                    portion = await anext(portions)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise JobProblem(f"The source gave nothing for {PORTION_S:.0f} s.") from None
            yield portion


def _text(text: str) -> str:
    return storable_text(text[:TEXT_MAX])
