"""How the records of a family are doing: counts of a day, waiting deliveries, the newest job; and
why deliveries of a record fail.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from starlette.responses import Response

from hedgerow.http.api.pipelines.deliveries import DELIVERY_FILTERS, parse_delivery_query
from hedgerow.http.api.pipelines.jobs import JobItem, render_job
from hedgerow.http.api.pipelines.record_items import (
    NOT_TRANSFORMATIONS,
    family_paths,
    parse_record_key,
)
from hedgerow.http.api.pipelines.records import LIST_PARAMETERS, parse_record_query
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.pipelines.deliveries.destination_health import (
    DAY_MS,
    BacklogMonitor,
    DestinationHealthCache,
)
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.records.records import Records
from hedgerow.pipelines.store import DeliveryHistory, PipelineHealth, PipelineHealthStore

MAX_REASONS = 20


class CountsItem(msgspec.Struct, kw_only=True):
    """Deliveries of a destination, or events of a transformation. A failed event passed
    unchanged."""

    delivered: int
    retried: int
    dead: int
    changed: int
    dropped: int
    failed: int


class QueueItem(msgspec.Struct, kw_only=True):
    """Deliveries that have not arrived, counted every few seconds. `dead` are dead letters."""

    waiting: int
    retrying: int
    dead: int


class HealthItem(msgspec.Struct, kw_only=True):
    """`paused_until` is the time of the next attempt of a paused destination. `last_job` is null if
    the record has had no job."""

    id: int
    error: str
    paused_until: str | None
    last_24h: CountsItem
    queue: QueueItem
    last_job: JobItem | None


class ReasonItem(msgspec.Struct, kw_only=True):
    """A reason, the number of deliveries that have it, and when the newest of them was queued."""

    error: str
    count: int
    newest_at: str


class HealthEndpoints:
    tag = "Pipelines"

    def __init__(
        self,
        backlogs: BacklogMonitor,
        deliveries: DeliveryHistory,
        destination_health: DestinationHealthCache,
        health: PipelineHealthStore,
        records: Records,
    ) -> None:
        self._backlogs = backlogs
        self._deliveries = deliveries
        self._destination_health = destination_health
        self._health = health
        self._records = records

    @endpoint(
        "GET",
        *family_paths("health/"),
        access=in_project("plugin:read"),
        response=Page[HealthItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_health(self, call: ProjectCall) -> Response:
        """List how records are doing, in the order and with the filters of the list of records."""
        records, count = await self._records.list_records(parse_record_query(call))
        return JsonResponse(call.page(count, await self._read(records, call.now)))

    @endpoint(
        "GET",
        *family_paths("{record_id}/health/"),
        access=in_project("plugin:read"),
        response=HealthItem,
    )
    async def retrieve_health(self, call: ProjectCall) -> Response:
        """Retrieve how a record is doing."""
        record = await self._records.find(parse_record_key(call))
        (item,) = await self._read([record], call.now)
        return JsonResponse(item)

    async def _read(self, records: Sequence[Record], now: datetime) -> list[HealthItem]:
        since_ms = int(now.timestamp() * 1000) - DAY_MS
        found = await self._health.health([record.id for record in records], since_ms)
        return [self._render(record, found[record.id], now) for record in records]

    def _render(self, record: Record, health: PipelineHealth, now: datetime) -> HealthItem:
        backlog = self._backlogs.get(record.id)
        counts, paused_ms = health.counts, health.paused_until_ms
        is_paused = paused_ms > now.timestamp() * 1000
        return HealthItem(
            id=record.id,
            error=self._destination_health.get(record.id).error,
            paused_until=_format_time(paused_ms) if is_paused else None,
            last_24h=CountsItem(
                delivered=counts.delivered,
                retried=counts.retried,
                dead=counts.dead,
                changed=counts.changed,
                dropped=counts.dropped,
                failed=counts.failed,
            ),
            queue=QueueItem(
                waiting=backlog.waiting if backlog else 0,
                retrying=backlog.retrying if backlog else 0,
                dead=backlog.dead if backlog else 0,
            ),
            last_job=render_job(health.last_job) if health.last_job else None,
        )

    @endpoint(
        "GET",
        *family_paths("{record_id}/deliveries/reasons/", NOT_TRANSFORMATIONS),
        access=in_project("plugin:read"),
        response=list[ReasonItem],
        query=DELIVERY_FILTERS,
    )
    async def list_reasons(self, call: ProjectCall) -> Response:
        """Count deliveries by the reason of their last failure: the 20 most frequent reasons."""
        record = await self._records.find(parse_record_key(call))
        found = await self._deliveries.reasons(parse_delivery_query(call, record), MAX_REASONS)
        return JsonResponse(
            [
                ReasonItem(
                    error=each.error, count=each.count, newest_at=_format_time(each.newest_ms)
                )
                for each in found
            ]
        )


def _format_time(milliseconds: int) -> str:
    return format_iso(datetime.fromtimestamp(milliseconds / 1000, UTC))
