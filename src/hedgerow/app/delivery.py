"""Events on their way out, joined: routing, the deliver loop, and the guarded way out."""

from dataclasses import dataclass

import structlog

from hedgerow.app.pipelines import Pipelines
from hedgerow.kit.clock import utc_now
from hedgerow.pipelines.deliver import KEEP_EVERY_S, Deliverer
from hedgerow.pipelines.deliveries import Ages
from hedgerow.pipelines.destinations import Destinations
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.routing import Routing
from hedgerow.settings import Settings
from hedgerow.storage.database import Database
from hedgerow.storage.deliveries import DeliveryRecords
from hedgerow.storage.outbound import HttpOutbound
from hedgerow.storage.pipelines import PipelineRecords
from hedgerow.worker import Chore

DELIVER_EVERY_S = 0.5
MAX_PAUSE_S = 5.0
FORGET_EVERY_S = 3600.0
DAY_MS = 24 * 3600 * 1000

_log = structlog.get_logger("hedgerow.deliver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    deliverer: Deliverer
    routing: Routing
    records: DeliveryRecords
    outbound: HttpOutbound
    ages: Ages

    def chores(self) -> list[Chore]:
        return [
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
    outbound = HttpOutbound(allow_private=settings.allow_private_destinations)
    ages = Ages(
        waiting_ms=settings.delivery_days * DAY_MS,
        dead_ms=settings.dead_delivery_days * DAY_MS,
        delivered_ms=settings.delivered_days * DAY_MS,
    )

    def note(id: RecordId, error: Exception) -> None:
        _log.error("a destination's turn failed", record=id, exc_info=error)

    deliverer = Deliverer(
        destinations, records, outbound, utc_now, keep_ms=ages.waiting_ms, note=note
    )
    return Delivery(
        deliverer=deliverer,
        routing=Routing(destinations, deliverer.wake, utc_now),
        records=records,
        outbound=outbound,
        ages=ages,
    )
