"""Accept parsed events: write them to the inbox before the client gets its response."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import msgspec

from hedgerow.errors import Unavailable
from hedgerow.ingestion.backpressure import AdmissionControl
from hedgerow.ingestion.changed_names import list_other_names
from hedgerow.ingestion.cookieless.resolve import CookielessVisitors, is_cookieless
from hedgerow.ingestion.model import (
    AcceptedIds,
    CaptureBatch,
    CapturedEvent,
    IngestionWarning,
    PackedBatch,
)
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import InboxStore
from hedgerow.projects.model import ProjectId

RETRY_AFTER_S = 10
# A client that sends only invalid events must not fill the disk with warnings.
MAX_WARNINGS_PER_MINUTE = 1000

_decode_ids = msgspec.msgpack.Decoder(AcceptedIds).decode
_decode_events = msgspec.json.Decoder(list[CapturedEvent]).decode


class Capture:
    def __init__(
        self,
        inbox: InboxStore,
        progress: Progress,
        admission: AdmissionControl,
        cookieless: CookielessVisitors,
    ) -> None:
        self._inbox = inbox
        self._progress = progress
        self._admission = admission
        self._cookieless = cookieless
        self._minute = 0
        self._warning_counts: dict[ProjectId, int] = {}
        self.accepted = self.rejected = 0

    @property
    def bucket_count(self) -> int:
        return self._inbox.bucket_count

    async def accept(self, project_id: ProjectId, batch: CaptureBatch, now: datetime) -> None:
        """Store the events of a request. They are durable when this returns."""
        self._check_admission(project_id)
        if any(map(is_cookieless, batch.events)):
            batch = await self._cookieless.resolve(project_id, batch, now)
        warnings = self._limit_warnings(project_id, batch.warnings, now)
        if batch.events or warnings:
            await self._inbox.add(project_id, batch.events, warnings, now)
        self._progress.accept(project_id, [event.distinct_id for event in batch.events])
        for event in batch.events:
            for other in list_other_names(event):
                self._progress.add_name(project_id, other)
        self.accepted += len(batch.events)
        self.rejected += len(batch.rejected)

    async def accept_packed(self, project_id: ProjectId, batch: PackedBatch, now: datetime) -> None:
        """The same for a large request. Other requests run in between."""
        self._check_admission(project_id)
        for encoded in batch.cookieless:
            events = _decode_events(encoded)
            await self.accept(project_id, CaptureBatch(token=batch.token, events=events), now)
        warnings = self._limit_warnings(project_id, batch.warnings, now)
        if batch.rows or warnings:
            await self._inbox.add_packed(project_id, batch.rows, warnings, now)
        for encoded in batch.ids:
            ids = _decode_ids(encoded)
            self._progress.accept_together(project_id, ids.number, ids.names)
            self.accepted += ids.number
            await asyncio.sleep(0)
        self.rejected += batch.rejected_count

    def _check_admission(self, project_id: ProjectId) -> None:
        reason = self._admission.rejection_reason(project_id)
        if reason is not None:
            raise Unavailable(f"{reason} Try again later.", retry_after_s=RETRY_AFTER_S)

    def _limit_warnings(
        self, project_id: ProjectId, warnings: Sequence[IngestionWarning], now: datetime
    ) -> Sequence[IngestionWarning]:
        if not warnings:
            return warnings
        minute = int(now.timestamp() // 60)
        if minute != self._minute:
            self._minute, self._warning_counts = minute, {}
        count = self._warning_counts.get(project_id, 0)
        allowed = warnings[: max(0, MAX_WARNINGS_PER_MINUTE - count)]
        self._warning_counts[project_id] = count + len(allowed)
        return allowed
