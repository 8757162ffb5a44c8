"""Accepting: what was read is on disk before anybody hears that it was accepted."""

from datetime import datetime

import msgspec

from hedgerow.errors import Unavailable
from hedgerow.ingestion.model import Batch
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.room import Room
from hedgerow.ingestion.store import InboxStore
from hedgerow.persons.known import OTHER_ID, id_text
from hedgerow.projects.model import ProjectId

RETRY_AFTER_S = 10
# Whoever sends nothing but nonsense may not fill the disk with what is to be said about it.
MAX_WARNINGS_A_MINUTE = 1000


class Capture:
    def __init__(self, inbox: InboxStore, progress: Progress, room: Room) -> None:
        self._inbox = inbox
        self._progress = progress
        self._room = room
        self._minute = 0
        self._warned: dict[ProjectId, int] = {}
        self.accepted = self.rejected = 0

    async def accept(self, project_id: ProjectId, batch: Batch, now: datetime) -> None:
        reason = self._room.lack()
        if reason is not None:
            raise Unavailable(f"{reason} Try again later.", retry_after_s=RETRY_AFTER_S)
        if batch.warnings:
            batch = self._with_bounded_warnings(project_id, batch, now)
        if batch.events or batch.warnings:
            await self._inbox.add(project_id, batch.events, batch.warnings, now)
        self._progress.accept(project_id, [event.distinct_id for event in batch.events])
        for event in batch.events:
            other = OTHER_ID.get(event.event)
            if other and other in event.properties:
                self._progress.also(project_id, id_text(event.properties[other]))
        self.accepted += len(batch.events)
        self.rejected += len(batch.rejected)

    def _with_bounded_warnings(self, project_id: ProjectId, batch: Batch, now: datetime) -> Batch:
        minute = int(now.timestamp() // 60)
        if minute != self._minute:
            self._minute, self._warned = minute, {}
        warned = self._warned.get(project_id, 0)
        kept = batch.warnings[: max(0, MAX_WARNINGS_A_MINUTE - warned)]
        self._warned[project_id] = warned + len(kept)
        return msgspec.structs.replace(batch, warnings=kept)
