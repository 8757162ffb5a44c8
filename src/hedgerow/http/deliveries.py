"""A record's deliveries: what waits and what is dead, counts, log lines, and trying it out."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.fields import INT64_MAX, Fields
from hedgerow.http.paging import WINDOW, Page, page, positive
from hedgerow.http.records import OTHERS, found_record, under_every_base
from hedgerow.http.reply import JsonResponse
from hedgerow.lib.clock import iso
from hedgerow.lib.text import cut_short, why_unstorable
from hedgerow.pipelines.audit import SCOPE
from hedgerow.pipelines.deliveries import DeliveryStatus, Hour, LogLevel, ToldDelivery
from hedgerow.pipelines.payload import payload_of
from hedgerow.pipelines.trial import Sample, Trial, reason_of
from hedgerow.projects.activity import Entry

router = APIRouter(tags=["Pipelines"])

HOURS = 24
MAX_HOURS = 24 * 30
SEARCH_MAX = 200
NAME_MAX = 200

STATUSES = tuple(status.value for status in DeliveryStatus)
LEVELS = tuple(level.value for level in LogLevel)


class DeliveryItem(msgspec.Struct, kw_only=True):
    """`payload` is what templates see of the event; `due_at` is null for one due at once."""

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
    """Milliseconds that so many of a hundred requests took at most; null where none is known."""

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
    """Hours in which nothing happened are left out."""

    delivered: int
    retried: int
    dead: int
    hours: list[HourItem]


class ExchangeItem(msgspec.Struct, kw_only=True):
    """A request with its secrets masked, and its answer: null if it was not sent, or had none. Of
    a file the method is APPEND, of a database SQL; these have no status."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    status: int | None
    response_headers: Mapping[str, str] | None
    response_body: str | None


class TrialItem(msgspec.Struct, kw_only=True):
    """`error` is empty if the event would count as delivered."""

    delivered: bool
    error: str
    requests: list[ExchangeItem]


class TrialBody(Fields):
    """A sample event. Every field may be left out."""

    event: Any = None
    distinct_id: Any = None
    properties: Any = None
    person_properties: Any = None


@describes(
    answer=Page[DeliveryItem],
    query=(*WINDOW, Parameter("status", f"Only those that are {', '.join(STATUSES)}.")),
)
async def list_deliveries(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:read")]
) -> Response:
    """Deliveries that have not arrived, the newest first."""
    record = await found_record(call, record_id)
    asked, status = call.window, _choice(call, "status", STATUSES)
    found, count = await call.rooms.deliveries.deliveries(
        record.id,
        DeliveryStatus(status) if status else None,
        limit=asked.limit,
        offset=asked.offset,
    )
    items = [_delivery(told) for told in found]
    return JsonResponse(page(call.request, call.rooms.origins, asked, count, items))


@describes(answer=DeliveryItem)
async def retry_delivery(
    record_id: str, delivery_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Send a delivery again now, with all its attempts before it, also if it is dead."""
    record = await found_record(call, record_id)
    id = positive(delivery_id)
    if id is None or id > INT64_MAX:
        raise NotFound
    component = call.rooms.records.component(record)
    entry = Entry(
        scope=SCOPE,
        item_id=str(record.id),
        item_name=record.name or (component.name if component else ""),
        activity="delivery_retried",
        actor=call.actor,
        project_id=record.project_id,
        detail={"delivery_id": id},
    )
    told = await call.rooms.deliveries.send_again(record.id, id, entry, call.now)
    if told is None:
        raise NotFound
    return JsonResponse(_delivery(told))


@describes(
    answer=Page[LogItem],
    query=(
        *WINDOW,
        Parameter("level", f"Only lines of this level: {', '.join(LEVELS)}."),
        Parameter("search", "Only lines with this text in them."),
    ),
)
async def list_logs(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:read")]
) -> Response:
    """What went wrong and when, the newest first."""
    record = await found_record(call, record_id)
    asked, level = call.window, _choice(call, "level", LEVELS)
    search = (call.asked("search") or "").strip()[:SEARCH_MAX]
    if unstorable := why_unstorable(search):
        code, detail = unstorable
        raise Invalid(detail, attr="search", code=code)
    found, count = await call.rooms.deliveries.logs(
        record.id,
        LogLevel(level) if level else None,
        search,
        limit=asked.limit,
        offset=asked.offset,
    )
    items = [
        LogItem(
            id=told.id,
            level=told.line.level.value,
            message=told.line.message,
            uuid=told.line.uuid,
            timestamp=iso(told.created_at),
        )
        for told in found
    ]
    return JsonResponse(page(call.request, call.rooms.origins, asked, count, items))


@describes(
    answer=MetricsItem,
    query=(Parameter("hours", f"How far back: {HOURS} hours unless told.", {"type": "integer"}),),
)
async def show_metrics(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:read")]
) -> Response:
    """Deliveries that arrived, were retried and died, by the hour, and how long requests took."""
    record = await found_record(call, record_id)
    hours = min(positive(call.asked("hours")) or HOURS, MAX_HOURS)
    since_ms = int(call.now.timestamp() * 1000) - hours * 3_600_000
    found = await call.rooms.deliveries.hours(record.id, since_ms)
    return JsonResponse(
        MetricsItem(
            delivered=sum(hour.delivered for hour in found),
            retried=sum(hour.retried for hour in found),
            dead=sum(hour.dead for hour in found),
            hours=[_hour(hour) for hour in found],
        )
    )


@describes(answer=TrialItem, body=TrialBody)
async def test_destination(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Send one sample event now, and show the request and the answer. Nothing is stored."""
    record = await found_record(call, record_id)
    sample = sample_of(await call.body(TrialBody))
    return JsonResponse(_trial(await call.rooms.trials.test(record, sample, call.now)))


@describes(answer=TrialItem, body=TrialBody)
async def preview_destination(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """What would be sent of a sample event. Nothing is sent or stored."""
    record = await found_record(call, record_id)
    sample = sample_of(await call.body(TrialBody))
    return JsonResponse(_trial(await call.rooms.trials.preview(record, sample, call.now)))


def _choice(call: ProjectCall, name: str, choices: tuple[str, ...]) -> str:
    asked = call.asked(name) or ""
    if asked and asked not in choices:
        detail = f'"{cut_short(asked)}" is not a valid choice.'
        raise Invalid(detail, attr=name, code="invalid_choice")
    return asked


def sample_of(body: TrialBody) -> Sample:
    return Sample(
        event=_text(body.event, "event", Sample().event),
        distinct_id=_text(body.distinct_id, "distinct_id", Sample().distinct_id),
        properties=_object(body.properties, "properties"),
        person_properties=_object(body.person_properties, "person_properties"),
    )


def _text(value: Any, attr: str, default: str) -> str:
    if value is None:
        return default
    if not isinstance(value, str) or not 0 < len(value) <= NAME_MAX:
        raise Invalid(f"A text of 1 to {NAME_MAX} characters is required.", attr=attr)
    return value


def _object(value: Any, attr: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid("An object is required.", attr=attr)
    return value


def _delivery(told: ToldDelivery) -> DeliveryItem:
    return DeliveryItem(
        id=told.id,
        uuid=told.uuid,
        distinct_id=told.distinct_id,
        event=told.event.event if told.event else "",
        status=told.status.value,
        attempts=told.attempts,
        error=told.error,
        due_at=_moment(told.due_ms)
        if told.due_ms and told.status is not DeliveryStatus.DEAD
        else None,
        created_at=_moment(told.created_ms),
        payload=payload_of(told.event) if told.event else {},
    )


def _hour(hour: Hour) -> HourItem:
    return HourItem(
        hour=_moment(hour.hour_ms),
        delivered=hour.delivered,
        retried=hour.retried,
        dead=hour.dead,
        latency_ms=LatencyItem(
            p50=hour.latency_ms(0.5), p95=hour.latency_ms(0.95), p99=hour.latency_ms(0.99)
        ),
    )


def _trial(trial: Trial) -> TrialItem:
    error = reason_of(trial.outcome)
    return TrialItem(
        delivered=not error,
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
            for each in trial.exchanges
        ],
    )


def _moment(milliseconds: int) -> str:
    return iso(datetime.fromtimestamp(milliseconds / 1000, UTC))


under_every_base(router.get, "{record_id}/deliveries/", list_deliveries, OTHERS)
under_every_base(router.post, "{record_id}/deliveries/{delivery_id}/retry/", retry_delivery, OTHERS)
under_every_base(router.get, "{record_id}/logs/", list_logs)
under_every_base(router.get, "{record_id}/metrics/", show_metrics, OTHERS)
under_every_base(router.post, "{record_id}/test/", test_destination, OTHERS)
under_every_base(router.post, "{record_id}/preview/", preview_destination, OTHERS)
