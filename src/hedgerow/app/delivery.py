"""Events on their way out, joined: routing, the deliver loop, and the guarded way out."""

from dataclasses import dataclass

import structlog

from hedgerow.app.pipelines import Pipelines
from hedgerow.kit.clock import utc_now
from hedgerow.pipelines.backlogs import Backlogs
from hedgerow.pipelines.deliver import KEEP_EVERY_S, Deliverer
from hedgerow.pipelines.deliveries import Ages
from hedgerow.pipelines.destinations import Destinations
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.notifications import Notifier, Receiver
from hedgerow.pipelines.routing import Routing
from hedgerow.settings import Settings
from hedgerow.storage.database import Database
from hedgerow.storage.deliveries import DeliveryRecords
from hedgerow.storage.delivery_backlogs import DeliveryBacklogs
from hedgerow.storage.delivery_groups import DeliveredGroups
from hedgerow.storage.guard import Guard
from hedgerow.storage.notifications import NotificationRecords
from hedgerow.storage.outbound import HttpOutbound
from hedgerow.storage.pipelines import PipelineRecords
from hedgerow.worker import Chore

DELIVER_EVERY_S = 0.5
MAX_PAUSE_S = 5.0
FORGET_EVERY_S = 3600.0
LOOK_EVERY_S = 5.0
NOTIFY_EVERY_S = 1.0
DAY_MS = 24 * 3600 * 1000

_log = structlog.get_logger("hedgerow.deliver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    deliverer: Deliverer
    routing: Routing
    records: DeliveryRecords
    outbound: HttpOutbound
    ages: Ages
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
        ]

    async def _forget(self) -> None:
        await self.records.forget_old(self.ages, utc_now())


def join_delivery(settings: Settings, database: Database, pipelines: Pipelines) -> Delivery:
    destinations = Destinations(PipelineRecords(database), pipelines.catalogue, pipelines.sealer)
    records = DeliveryRecords(database)
    outbound = HttpOutbound(Guard(allow_private=settings.allow_private_destinations))
    ages = Ages(
        waiting_ms=settings.delivery_days * DAY_MS, dead_ms=settings.dead_delivery_days * DAY_MS
    )

    def note(id: RecordId, error: Exception) -> None:
        _log.error("a destination's turn failed", record=id, exc_info=error)

    deliverer = Deliverer(
        destinations,
        records,
        outbound,
        utc_now,
        keep_ms=ages.waiting_ms,
        notifies=bool(settings.notification_url),
        note=note,
    )
    return Delivery(
        deliverer=deliverer,
        routing=Routing(destinations, DeliveredGroups(database), deliverer.wake, utc_now),
        records=records,
        outbound=outbound,
        ages=ages,
        backlogs=Backlogs(DeliveryBacklogs(database), utc_now),
        notifier=_notifier(settings, database, outbound),
    )


def _notifier(settings: Settings, database: Database, outbound: HttpOutbound) -> Notifier | None:
    if not settings.notification_url:
        return None

    def note(reason: str) -> None:
        _log.error("a notification was not delivered", reason=reason)

    receiver = Receiver(url=settings.notification_url, secret=settings.notification_secret)
    return Notifier(NotificationRecords(database), receiver, outbound, utc_now, note)
