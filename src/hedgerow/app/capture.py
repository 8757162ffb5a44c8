"""Events on their way in, joined: inbox, progress, the two steps of processing."""

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from hedgerow.app.events import OpenedWhenNeeded
from hedgerow.events.delete import CountedEvents, Deletion
from hedgerow.ingestion.accept import Capture
from hedgerow.ingestion.arrivals import Arrivals
from hedgerow.ingestion.care import Note
from hedgerow.ingestion.lag import Lag
from hedgerow.ingestion.process import Processor
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.room import Room
from hedgerow.ingestion.store import Stage
from hedgerow.ingestion.transform import Transforming
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.routing import Routing
from hedgerow.pipelines.transformations import Transformations
from hedgerow.settings import Settings
from hedgerow.storage.activity import ActivityRecords
from hedgerow.storage.blame import is_about_values
from hedgerow.storage.database import Database
from hedgerow.storage.deliveries import DeliveryRecords
from hedgerow.storage.geoip import GeoIp
from hedgerow.storage.inbox import InboxRecords
from hedgerow.storage.ingestion_warnings import WarningRecords
from hedgerow.storage.set_aside import SetAsideRecords
from hedgerow.worker import Chore

# How many workers can share the work where several processes share a database.
BUCKETS = 16
WORK_EVERY_S = 0.01
WATCH_EVERY_S = 0.05
LOOK_EVERY_S = 1.0
FORGET_WARNINGS_EVERY_S = 60.0
COMPACT_EVERY_S = 60.0
KEEP_LEASES_EVERY_S = 5.0
# Who accepts events waits for nobody; who stores them comes back soon after an outage.
MAX_PAUSE_S = 2.0

_log = structlog.get_logger("hedgerow.ingestion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    progress: Progress
    arrivals: Arrivals
    capture: Capture
    processor: Processor
    room: Room
    events: OpenedWhenNeeded
    inbox: InboxRecords
    lag: Lag
    warnings: WarningRecords
    # Whether no other process accepts events or works on them.
    is_alone: bool

    def chores(self, *, worker: bool) -> list[Chore]:
        watching = Chore(
            name="see how far events have come",
            every_s=WATCH_EVERY_S,
            run=self.processor.watch,
        )
        if not worker:
            return [] if self.is_alone else [watching]
        keeping = Chore(
            name="keep the way to the event store",
            every_s=KEEP_LEASES_EVERY_S,
            run=self.processor.keep_leases,
            backs_off=False,
        )
        return [
            *([] if self.is_alone else [watching, keeping]),
            Chore(
                name="settle events",
                every_s=WORK_EVERY_S,
                run=self.processor.settle,
                max_pause_s=MAX_PAUSE_S,
            ),
            Chore(
                name="store events",
                every_s=WORK_EVERY_S,
                run=self.processor.store,
                max_pause_s=MAX_PAUSE_S,
            ),
            Chore(name="open the event store", every_s=LOOK_EVERY_S, run=self.events.warm),
            Chore(
                name="merge small parts of the event store",
                every_s=COMPACT_EVERY_S,
                run=self.events.compact,
            ),
            Chore(
                name="forget old ingestion warnings",
                every_s=FORGET_WARNINGS_EVERY_S,
                run=self.warnings.forget_old,
            ),
        ]

    def gauges(self) -> Iterable[tuple[str, str, float]]:
        """For Prometheus. What waits is everybody's; the rest is what this process did."""
        yield "hedgerow_inbox_events_waiting", "Events on their way.", self.progress.waiting
        yield "hedgerow_inbox_oldest_seconds", "How long the oldest waits.", self.lag.seconds()
        yield "hedgerow_events_accepted_total", "Events accepted.", self.capture.accepted
        yield "hedgerow_events_rejected_total", "Events refused.", self.capture.rejected
        yield "hedgerow_events_settled_total", "Events with persons.", self.processor.settled
        yield "hedgerow_events_stored_total", "Events in the store.", self.processor.stored
        yield "hedgerow_inbox_events_set_aside", "Events set aside, in all.", self.lag.set_aside
        yield (
            "hedgerow_events_set_aside_total",
            "Events that this process set aside.",
            self.processor.set_aside,
        )


def join_deletion(database: Database, events: CountedEvents, arrivals: Arrivals) -> Deletion:
    copies = DeliveryRecords(database), SetAsideRecords(database)
    return Deletion(events, copies, ActivityRecords(database), arrivals.stored)


def join_intake(
    settings: Settings,
    database: Database,
    events: OpenedWhenNeeded,
    geoip: GeoIp,
    transformations: Transformations,
    routing: Routing,
) -> Intake:
    is_embedded = database.engine_name == "sqlite"
    inbox = InboxRecords(database, 1 if is_embedded else BUCKETS)
    progress = Progress()
    room = Room(
        progress,
        lambda: shutil.disk_usage(settings.data).free,
        max_waiting=settings.inbox_max_events,
        min_free_bytes=settings.min_free_mb * 1024 * 1024 if is_embedded else 0,
    )

    def place(address: str) -> Mapping[str, Any]:
        return geoip.details(address)

    return Intake(
        progress=progress,
        arrivals=Arrivals(progress, events.opened, at_most_s=settings.read_wait_s),
        capture=Capture(inbox, progress, room),
        processor=Processor(
            inbox=inbox,
            events=events,
            progress=progress,
            is_alone=is_embedded,
            idle_s=0.5 if is_embedded else 0.05,
            place=place,
            transforming=Transforming(transformations),
            routing=routing,
            blames=is_about_values,
            note=_noting(),
            clock=utc_now,
        ),
        room=room,
        events=events,
        inbox=inbox,
        lag=Lag(inbox, utc_now),
        warnings=WarningRecords(database),
        is_alone=is_embedded,
    )


def _noting() -> Note:
    """Tells of events that are set aside."""
    told: Counter[str] = Counter()

    def note(stage: Stage, uuid: str, reason: str, error: Exception | None) -> None:
        kind = reason.partition(":")[0]
        told[kind] += 1
        if told[kind] & (told[kind] - 1) == 0:  # the 1st, 2nd, 4th …: a lasting defect is no flood
            _log.error(
                "event set aside: see `hedgerow events aside`",
                step=stage,
                uuid=uuid,
                reason=reason,
                times=told[kind],
                exc_info=error,
            )

    return note
