"""Events on their way out, joined: routing, the deliver loop, and the guarded way out."""

from dataclasses import dataclass

import structlog

from hedgerow.app.outbound import OutboundWhenNeeded
from hedgerow.app.pipelines import Pipelines
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.pipelines.backlogs import Backlogs
from hedgerow.pipelines.deliver import KEEP_EVERY_S, Deliverer
from hedgerow.pipelines.deliveries import Ages
from hedgerow.pipelines.destinations import Destinations
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.notifications import Notifier, Receiver
from hedgerow.pipelines.routing import Routing
from hedgerow.pipelines.sending import WaysOut
from hedgerow.settings import Settings
from hedgerow.storage.database import Database
from hedgerow.storage.deliveries import DeliveryRecords
from hedgerow.storage.delivery_backlogs import DeliveryBacklogs
from hedgerow.storage.delivery_groups import DeliveredGroups
from hedgerow.storage.event_tables import EventTables
from hedgerow.storage.guard import Guard
from hedgerow.storage.guarded_postgres import GuardedPostgres
from hedgerow.storage.local_files import LocalFiles
from hedgerow.storage.notifications import NotificationRecords
from hedgerow.storage.pipelines import PipelineRecords
from hedgerow.worker import Chore

DELIVER_EVERY_S = 0.5
MAX_PAUSE_S = 5.0
FORGET_EVERY_S = 3600.0
TIDY_EVERY_S = 2.0
LOOK_EVERY_S = 5.0
NOTIFY_EVERY_S = 1.0
DAY_MS = 24 * 3600 * 1000
MEGABYTE = 1024 * 1024

_log = structlog.get_logger("hedgerow.deliver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    deliverer: Deliverer
    routing: Routing
    records: DeliveryRecords
    ways_out: WaysOut
    ages: Ages
    http: OutboundWhenNeeded
    files: LocalFiles
    databases: GuardedPostgres
    backlogs: Backlogs
    notifier: Notifier | None

    def chores(self) -> list[Chore]:
        notifying = (
            [Chore(name="send notifications", every_s=NOTIFY_EVERY_S, run=self.notifier.send)]
            if self.notifier is not None
            else []
        )
        return [
            *notifying,
            Chore(
                name="see what waits for destinations",
                every_s=LOOK_EVERY_S,
                run=self.backlogs.look,
            ),
            Chore(
                name="deliver events",
                every_s=DELIVER_EVERY_S,
                run=self.deliverer.run,
                max_pause_s=MAX_PAUSE_S,
            ),
            Chore(name="keep deliveries", every_s=KEEP_EVERY_S, run=self.deliverer.keep),
            Chore(name="forget old deliveries", every_s=FORGET_EVERY_S, run=self._forget),
            Chore(name="complete files", every_s=TIDY_EVERY_S, run=self.files.tidy),
        ]

    def tidying(self) -> Chore:
        """For every process, since every one may try a destination out."""
        return Chore(name="close idle connections", every_s=TIDY_EVERY_S, run=self.databases.tidy)

    async def close(self) -> None:
        await self.http.close()
        await self.databases.close()
        await self.files.close()

    async def _forget(self) -> None:
        await self.records.forget_old(self.ages, utc_now())


def join_delivery(settings: Settings, database: Database, pipelines: Pipelines) -> Delivery:
    destinations = Destinations(PipelineRecords(database), pipelines.catalogue, pipelines.sealer)
    records = DeliveryRecords(database)
    guard = Guard(allow_private=settings.allow_private_destinations)
    http, databases = OutboundWhenNeeded(guard), GuardedPostgres(guard)
    files = LocalFiles(
        settings.exports, min_free_bytes=settings.min_free_mb * MEGABYTE, note=_note_file
    )
    ways_out = WaysOut(
        http=http, files=files, tables=EventTables(databases), aside=in_daemon_thread
    )
    ages = Ages(
        waiting_ms=settings.delivery_days * DAY_MS,
        dead_ms=settings.dead_delivery_days * DAY_MS,
        delivered_ms=settings.delivered_days * DAY_MS,
    )

    def note(id: RecordId, error: Exception) -> None:
        _log.error("a destination's turn failed", record=id, exc_info=error)

    deliverer = Deliverer(
        destinations,
        records,
        ways_out,
        utc_now,
        keep_ms=ages.waiting_ms,
        notifies=bool(settings.notification_url),
        note=note,
    )
    return Delivery(
        deliverer=deliverer,
        routing=Routing(destinations, DeliveredGroups(database), deliverer.wake, utc_now),
        records=records,
        ways_out=ways_out,
        ages=ages,
        http=http,
        files=files,
        databases=databases,
        backlogs=Backlogs(DeliveryBacklogs(database), utc_now),
        notifier=_notifier(settings, database, http),
    )


def _note_file(name: str, error: OSError) -> None:
    _log.error("a file of events cannot be completed yet", name=name, reason=str(error))


def _notifier(
    settings: Settings, database: Database, outbound: OutboundWhenNeeded
) -> Notifier | None:
    if not settings.notification_url:
        return None

    def note(reason: str) -> None:
        _log.error("a notification was not delivered", reason=reason)

    receiver = Receiver(url=settings.notification_url, secret=settings.notification_secret)
    return Notifier(NotificationRecords(database), receiver, outbound, utc_now, note)
