"""Deliveries of a pipeline record: pending and dead deliveries, metrics, logs, test and preview."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.http.api.pipelines.record_items import (
    NOT_TRANSFORMATIONS,
    check_activity_access,
    family_paths,
    parse_record_key,
)
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_choice, parse_positive, parse_text
from hedgerow.http.payload.fields import INT64_MAX, Fields, Json
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.pipelines.deliveries.model import DeliveryHour, DeliveryStatus, DeliveryView, LogLevel
from hedgerow.pipelines.destinations.delivery_preview import (
    DeliveryPreview,
    DeliveryPreviews,
    SampleEvent,
    failure_reason,
)
from hedgerow.pipelines.event_filters import is_of_activity_log
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.records.audit import SCOPE
from hedgerow.pipelines.records.records import Records
from hedgerow.pipelines.store import DeliveryHistory, DeliveryQuery
from hedgerow.plugin.payload import build_payload, is_activity
from hedgerow.projects.activity import ActivityEntry

DEFAULT_HOURS = 24
MAX_HOURS = 24 * 30
SEARCH_MAX = 200
NAME_MAX = 200
STATUSES = tuple(status.value for status in DeliveryStatus)
LEVELS = tuple(level.value for level in LogLevel)


DELIVERY_FILTERS = (
    Parameter(
        "status",
        f"Only deliveries with these statuses, separated by commas: {', '.join(STATUSES)}.",
    ),
    Parameter("search", "Only deliveries whose error, distinct id or uuid contains this text."),
    Parameter("error", "Only deliveries with exactly this error."),
)


def parse_delivery_query(call: ProjectCall, record: Record) -> DeliveryQuery:
    texts = (call.query_param("status") or "").split(",")
    statuses = [parse_choice(text, "status", STATUSES) for text in texts]
    return DeliveryQuery(
        record_id=record.id,
        statuses=[DeliveryStatus(status) for status in statuses if status],
        search=parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX],
        error=parse_text(call.query_param("error"), "error"),
    )


class DeliveryItem(msgspec.Struct, kw_only=True):
    """`payload` is the event as templates see it. `due_at` is null for deliveries due now."""

    id: int
    uuid: str
    distinct_id: str
    event: str
    status: str
    attempts: int
    error: str
    due_at: str | None
    created_at: str
    payload: Mapping[str, Any]


class LogItem(msgspec.Struct, kw_only=True):
    id: int
    level: str
    message: str
    uuid: str
    timestamp: str


class LatencyItem(msgspec.Struct, kw_only=True):
    """Request latency percentiles in milliseconds; null without data."""

    p50: int | None
    p95: int | None
    p99: int | None


class HourItem(msgspec.Struct, kw_only=True):
    hour: str
    delivered: int
    retried: int
    dead: int
    latency_ms: LatencyItem


class MetricsItem(msgspec.Struct, kw_only=True):
    """Delivery counts. Hours without deliveries are left out."""

    delivered: int
    retried: int
    dead: int
    hours: list[HourItem]


class ExchangeItem(msgspec.Struct, kw_only=True):
    """A request with masked secrets, and its response: null if the request was not sent or had no
    response. The method is APPEND for files and SQL for databases; these have no status."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    status: int | None
    response_headers: Mapping[str, str] | None
    response_body: str | None


class PreviewItem(msgspec.Struct, kw_only=True):
    """The result of a test or preview. `delivered` is false for a preview, which sends nothing;
    `error` is empty if the event was delivered, or would be sent."""

    delivered: bool
    error: str
    requests: list[ExchangeItem]


class SampleBody(Fields):
    """A sample event. All fields are optional."""

    event: Any = None
    distinct_id: Any = None
    properties: Json = None
    person_properties: Json = None


class PreviewBody(SampleBody):
    """A sample event, and settings to use instead of the stored ones. Settings that are left out,
    and masked secrets, are those of the record."""

    config: Json = None


def apply_draft(records: Records, record: Record, body: PreviewBody) -> Record:
    """Return the record with the settings of the body, if there are any. Nothing is stored."""
    if body.config is None:
        return record
    return records.apply_settings(record, _parse_object(body.config, "config"), whole=False)


def parse_sample(body: SampleBody) -> SampleEvent:
    return SampleEvent(
        event=_parse_name(body.event, "event", SampleEvent().event),
        distinct_id=_parse_name(body.distinct_id, "distinct_id", SampleEvent().distinct_id),
        properties=_parse_object(body.properties, "properties"),
        person_properties=_parse_object(body.person_properties, "person_properties"),
    )


def _parse_name(value: Any, attr: str, default: str) -> str:
    if value is None:
        return default
    if not isinstance(value, str) or not 0 < len(value) <= NAME_MAX:
        raise Invalid(f"Expected a string of 1 to {NAME_MAX} characters.", attr=attr)
    return value


def _parse_object(value: Any, attr: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid("Expected an object.", attr=attr)
    return value


def _render_delivery(delivery: DeliveryView) -> DeliveryItem:
    return DeliveryItem(
        id=delivery.id,
        uuid=delivery.uuid,
        distinct_id=delivery.distinct_id,
        event=delivery.event.event if delivery.event else "",
        status=delivery.status.value,
        attempts=delivery.attempts,
        error=delivery.error,
        due_at=_format_time(delivery.due_ms)
        if delivery.due_ms and delivery.status is not DeliveryStatus.DEAD
        else None,
        created_at=_format_time(delivery.created_ms),
        payload=build_payload(delivery.event) if delivery.event else {},
    )


def _render_hour(hour: DeliveryHour) -> HourItem:
    return HourItem(
        hour=_format_time(hour.hour_ms),
        delivered=hour.delivered,
        retried=hour.retried,
        dead=hour.dead,
        latency_ms=LatencyItem(
            p50=hour.latency_ms(0.5), p95=hour.latency_ms(0.95), p99=hour.latency_ms(0.99)
        ),
    )


def _render_preview(preview: DeliveryPreview, *, is_sent: bool) -> PreviewItem:
    error = failure_reason(preview.outcome)
    return PreviewItem(
        delivered=is_sent and not error,
        error=error,
        requests=[
            ExchangeItem(
                method=each.request.method,
                url=each.request.url,
                headers=each.request.headers,
                body=each.request.body.decode("utf-8", "replace"),
                status=(each.response.status or None) if each.response else None,
                response_headers=each.response.headers if each.response else None,
                response_body=each.response.body.decode("utf-8", "replace")
                if each.response
                else None,
            )
            for each in preview.exchanges
        ],
    )


def _format_time(milliseconds: int) -> str:
    return format_iso(datetime.fromtimestamp(milliseconds / 1000, UTC))


class DeliveryEndpoints:
    tag = "Pipelines"

    def __init__(
        self, deliveries: DeliveryHistory, records: Records, delivery_preview: DeliveryPreviews
    ) -> None:
        self._deliveries = deliveries
        self._records = records
        self._delivery_preview = delivery_preview

    @endpoint(
        "GET",
        *family_paths("{record_id}/deliveries/", NOT_TRANSFORMATIONS),
        access=in_project("plugin:read"),
        response=Page[DeliveryItem],
        query=(
            *PAGE_PARAMETERS,
            *DELIVERY_FILTERS,
        ),
    )
    async def list_deliveries(self, call: ProjectCall) -> Response:
        """List pending and dead deliveries, newest first."""
        record = await self._records.find(parse_record_key(call))
        window, query = call.window, parse_delivery_query(call, record)
        found, count = await self._deliveries.deliveries(
            query, limit=window.limit, offset=window.offset
        )
        has_activity = any(each.event and is_activity(each.event) for each in found)
        check_activity_access(call, has_activity=has_activity)
        items = [_render_delivery(delivery) for delivery in found]
        return JsonResponse(call.page(count, items))

    @endpoint(
        "POST",
        *family_paths("{record_id}/deliveries/{delivery_id}/retry/", NOT_TRANSFORMATIONS),
        access=in_project("plugin:write"),
        response=DeliveryItem,
    )
    async def retry_delivery(self, call: ProjectCall) -> Response:
        """Retry a delivery now, with a fresh number of attempts. Works for dead deliveries too, and
        ends a pause of the destination."""
        record = await self._records.find(parse_record_key(call))
        check_activity_access(call, has_activity=is_of_activity_log(record.config))
        id = parse_positive(call.path_param("delivery_id"))
        if id is None or id > INT64_MAX:
            raise NotFound
        component = self._records.component(record)
        entry = ActivityEntry(
            scope=SCOPE,
            item_id=str(record.id),
            item_name=record.name or (component.name if component else ""),
            activity="delivery_retried",
            actor=call.actor,
            project_id=record.project_id,
            detail={"delivery_id": id},
        )
        delivery = await self._deliveries.retry_now(record.id, id, entry, call.now)
        if delivery is None:
            raise NotFound
        return JsonResponse(_render_delivery(delivery))

    @endpoint(
        "GET",
        *family_paths("{record_id}/logs/"),
        access=in_project("plugin:read"),
        response=Page[LogItem],
        query=(
            *PAGE_PARAMETERS,
            Parameter("level", f"Only log lines with this level: {', '.join(LEVELS)}."),
            Parameter(
                "search", "Only log lines that contain this text, or of the event with this uuid."
            ),
        ),
    )
    async def list_logs(self, call: ProjectCall) -> Response:
        """List the log lines of a record, newest first."""
        record = await self._records.find(parse_record_key(call))
        window, level = call.window, parse_choice(call.query_param("level"), "level", LEVELS)
        search = parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX]
        found, count = await self._deliveries.logs(
            record.id,
            LogLevel(level) if level else None,
            search,
            limit=window.limit,
            offset=window.offset,
        )
        items = [
            LogItem(
                id=each.id,
                level=each.line.level.value,
                message=each.line.message,
                uuid=each.line.uuid,
                timestamp=format_iso(each.created_at),
            )
            for each in found
        ]
        return JsonResponse(call.page(count, items))

    @endpoint(
        "GET",
        *family_paths("{record_id}/metrics/", NOT_TRANSFORMATIONS),
        access=in_project("plugin:read"),
        response=MetricsItem,
        query=(
            Parameter(
                "hours",
                f"Number of hours to cover. Default: {DEFAULT_HOURS}, maximum: {MAX_HOURS}.",
                {"type": "integer"},
            ),
        ),
    )
    async def retrieve_delivery_metrics(self, call: ProjectCall) -> Response:
        """Retrieve delivered, retried and dead deliveries and request latency by hour."""
        record = await self._records.find(parse_record_key(call))
        hours = min(parse_positive(call.query_param("hours")) or DEFAULT_HOURS, MAX_HOURS)
        since_ms = int(call.now.timestamp() * 1000) - hours * 3_600_000
        found = await self._deliveries.hours(record.id, since_ms)
        return JsonResponse(
            MetricsItem(
                delivered=sum(hour.delivered for hour in found),
                retried=sum(hour.retried for hour in found),
                dead=sum(hour.dead for hour in found),
                hours=[_render_hour(hour) for hour in found],
            )
        )

    @endpoint(
        "POST",
        *family_paths("{record_id}/test/", NOT_TRANSFORMATIONS),
        access=in_project("plugin:write"),
        response=PreviewItem,
        body=SampleBody,
    )
    async def test_destination(self, call: ProjectCall) -> Response:
        """Send a sample event now and return the request and its response. Nothing is stored."""
        record = await self._records.find(parse_record_key(call))
        sample = parse_sample(await call.body(SampleBody))
        result = await self._delivery_preview.send_test(record, sample, call.now)
        return JsonResponse(_render_preview(result, is_sent=True))

    @endpoint(
        "POST",
        *family_paths("{record_id}/preview/", NOT_TRANSFORMATIONS),
        access=in_project("plugin:write"),
        response=PreviewItem,
        body=PreviewBody,
    )
    async def preview_destination(self, call: ProjectCall) -> Response:
        """Return the request that a sample event would cause. Nothing is sent or stored."""
        record = await self._records.find(parse_record_key(call))
        body = await call.body(PreviewBody)
        draft = apply_draft(self._records, record, body)
        result = await self._delivery_preview.preview(draft, parse_sample(body), call.now)
        return JsonResponse(_render_preview(result, is_sent=False))
