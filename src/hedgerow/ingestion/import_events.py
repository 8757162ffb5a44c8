"""Accept events from an import: validated like events from clients, at a lower priority.

An imported event must have a valid timestamp, or no timestamp at all: the time of arrival would
make an old event look new.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.ingestion.accept import Capture
from hedgerow.ingestion.model import CaptureBatch, PackedBatch
from hedgerow.ingestion.parsing.event import MAX_AHEAD
from hedgerow.ingestion.parsing.request import AllEventsRejected, parse_batch
from hedgerow.ingestion.progress import Progress
from hedgerow.lib.clock import Clock
from hedgerow.lib.dates import EARLIEST, parse_event_timestamp
from hedgerow.lib.text import truncate
from hedgerow.lib.tokens import RandomBytesPool
from hedgerow.lib.workers.fair_queue import Places
from hedgerow.pipelines.imports.reading import EventArguments
from hedgerow.projects.model import ProjectId

# An import pauses while so many events wait: events from clients take precedence.
MAX_WAITING_EVENTS = 20_000
POLL_INTERVAL_S = 0.05
# Stands in for the project token: the project is already known.
MAX_CONCURRENT_ACCEPTS = 2
PLACEHOLDER_TOKEN = "import"  # noqa: S105 - no secret

_decode_batch = msgspec.msgpack.Decoder(PackedBatch).decode


class EventImporter:
    """Imports take turns by project: one that has filled the inbox does not keep others waiting."""

    def __init__(self, capture: Capture, progress: Progress, clock: Clock) -> None:
        self._capture = capture
        self._progress = progress
        self._clock = clock
        self._randomness = RandomBytesPool()
        self._places = Places[ProjectId](MAX_CONCURRENT_ACCEPTS, per_key=1)

    def build_arguments(self) -> EventArguments:
        return EventArguments(
            now=self._clock(),
            randomness=self._randomness.take_uuid7_bytes(),
            bucket_count=self._capture.bucket_count,
        )

    async def accept(self, project_id: ProjectId, events: bytes) -> None:
        """Accept a PackedBatch in MessagePack, once the backlog is small enough."""
        while self._progress.count_waiting(project_id) >= MAX_WAITING_EVENTS:
            await asyncio.sleep(POLL_INTERVAL_S)
        async with self._places.hold(project_id):
            await self._capture.accept_packed(project_id, _decode_batch(events), self._clock())


def parse_import(
    events: Sequence[dict[str, Any]], now: datetime, randomness: bytes
) -> tuple[CaptureBatch, Mapping[int, str]]:
    """Return the valid events, and the reasons why the others are rejected, by their index."""
    rejected = {
        index: problem
        for index, event in enumerate(events)
        if (problem := _find_timestamp_problem(event, now))
    }
    indexes = [index for index in range(len(events)) if index not in rejected]
    if not indexes:
        return CaptureBatch(token="", events=()), rejected
    batch = _parse([events[index] for index in indexes], now, randomness)
    rejected |= {indexes[each.index]: each.detail for each in batch.rejected}
    # Without warnings: the import job reports the rejected events.
    return CaptureBatch(token="", events=batch.events), rejected


def _find_timestamp_problem(event: Mapping[str, Any], now: datetime) -> str:
    """Return what is wrong with the timestamp of an event, "" if it is valid or missing."""
    value = event.get("timestamp")
    if value is None:
        return ""
    moment = parse_event_timestamp(value)
    if moment is None:
        return f"The timestamp {truncate(value)} is not a valid date."
    if moment > now + MAX_AHEAD:
        return f"The timestamp {truncate(value)} is in the future."
    if moment < EARLIEST:
        return f"The timestamp {truncate(value)} is before the year 1900."
    return ""


def _parse(events: Sequence[dict[str, Any]], now: datetime, randomness: bytes) -> CaptureBatch:
    payload = {"api_key": PLACEHOLDER_TOKEN, "batch": list(events), "historical_migration": True}
    try:
        return parse_batch(
            payload,
            now=now,
            query_sent_at_ms=None,
            is_engage=False,
            ip="",
            randomness=randomness,
        )
    except AllEventsRejected as error:
        return error.batch
