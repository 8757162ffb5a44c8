"""Events that an import brings: checked and accepted as those that clients send, once there is
room. What happened long ago must say when, or it would count as new.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from hedgerow.ingestion.accept import Capture
from hedgerow.ingestion.model import Batch
from hedgerow.ingestion.moments import EARLIEST, MAX_AHEAD, parsed
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.reading import NothingAccepted, read_batch
from hedgerow.lib.clock import Clock
from hedgerow.lib.randomness import Randomness
from hedgerow.lib.text import cut_short
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import ProjectId

# An import waits while so many events wait: those that clients send go first.
FULL = 20_000
LOOK_S = 0.05
# In the place of a project's key: whose the events are is known.
NO_TOKEN = "import"  # noqa: S105 - no secret


class ImportedEvents:
    def __init__(self, capture: Capture, progress: Progress, clock: Clock) -> None:
        self._capture = capture
        self._progress = progress
        self._clock = clock
        self._randomness = Randomness()

    async def take(
        self, project_id: ProjectId, events: Sequence[dict[str, Any]]
    ) -> Mapping[int, str]:
        """Accept some events. Why those were refused, by their place, that were."""
        while self._progress.waiting >= FULL:
            await asyncio.sleep(LOOK_S)
        now = self._clock()
        randomness = self._randomness.for_uuid7()
        batch, refused = await in_daemon_thread(partial(checked, events, now, randomness))
        if batch.events:
            await self._capture.accept(project_id, batch, now)
        return refused


def checked(
    events: Sequence[dict[str, Any]], now: datetime, randomness: bytes
) -> tuple[Batch, Mapping[int, str]]:
    """The events that can be accepted, and by their place why others cannot."""
    refused = {at: why for at, event in enumerate(events) if (why := _misdated(event, now))}
    places = [at for at in range(len(events)) if at not in refused]
    if not places:
        return Batch(token="", events=()), refused
    batch = _read([events[at] for at in places], now, randomness)
    refused |= {places[each.index]: each.detail for each in batch.rejected}
    # Whoever imports is told by the job.
    return Batch(token="", events=batch.events), refused


def _misdated(event: Mapping[str, Any], now: datetime) -> str:
    """What is wrong with an event's timestamp; nothing if it has none or a good one."""
    said = event.get("timestamp")
    if said is None:
        return ""
    moment = parsed(said)
    if moment is None:
        return f"The timestamp {cut_short(str(said))} cannot be read."
    if moment > now + MAX_AHEAD:
        return f"The timestamp {cut_short(str(said))} lies ahead."
    if moment < EARLIEST:
        return f"The timestamp {cut_short(str(said))} is before the year 1900."
    return ""


def _read(events: Sequence[dict[str, Any]], now: datetime, randomness: bytes) -> Batch:
    payload = {"api_key": NO_TOKEN, "batch": list(events), "historical_migration": True}
    try:
        return read_batch(
            payload,
            now=now,
            query_sent_at_ms=None,
            is_engage=False,
            ip="",
            randomness=randomness,
        )
    except NothingAccepted as refusal:
        return refusal.batch
