"""Accept parsed events: write them to the inbox before the client gets its response."""

from datetime import datetime

import msgspec

from hedgerow.errors import Unavailable
from hedgerow.ingestion.backpressure import AdmissionControl
from hedgerow.ingestion.model import CaptureBatch
from hedgerow.ingestion.persons.loaded_state import MERGE_PROPERTIES, normalize_distinct_id
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import InboxStore
from hedgerow.projects.model import ProjectId

RETRY_AFTER_S = 10
# A client that sends only invalid events must not fill the disk with warnings.
MAX_WARNINGS_PER_MINUTE = 1000


class Capture:
    def __init__(self, inbox: InboxStore, progress: Progress, admission: AdmissionControl) -> None:
        self._inbox = inbox
        self._progress = progress
        self._admission = admission
        self._minute = 0
        self._warning_counts: dict[ProjectId, int] = {}
        self.accepted = self.rejected = 0

    async def accept(self, project_id: ProjectId, batch: CaptureBatch, now: datetime) -> None:
        """Store the events of a request. They are durable when this returns."""
        reason = self._admission.rejection_reason()
        if reason is not None:
            raise Unavailable(f"{reason} Try again later.", retry_after_s=RETRY_AFTER_S)
        if batch.warnings:
            batch = self._limit_warnings(project_id, batch, now)
        if batch.events or batch.warnings:
            await self._inbox.add(project_id, batch.events, batch.warnings, now)
        self._progress.accept(project_id, [event.distinct_id for event in batch.events])
        for event in batch.events:
            merged = MERGE_PROPERTIES.get(event.event)
            if merged and merged in event.properties:
                other_id = normalize_distinct_id(event.properties[merged])
                self._progress.add_distinct_id(project_id, other_id)
        self.accepted += len(batch.events)
        self.rejected += len(batch.rejected)

    def _limit_warnings(
        self, project_id: ProjectId, batch: CaptureBatch, now: datetime
    ) -> CaptureBatch:
        minute = int(now.timestamp() // 60)
        if minute != self._minute:
            self._minute, self._warning_counts = minute, {}
        count = self._warning_counts.get(project_id, 0)
        allowed = batch.warnings[: max(0, MAX_WARNINGS_PER_MINUTE - count)]
        self._warning_counts[project_id] = count + len(allowed)
        return msgspec.structs.replace(batch, warnings=allowed)
