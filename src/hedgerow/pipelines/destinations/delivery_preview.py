"""Preview and test of a destination with a sample event: the requests, and the responses if they
are sent. Nothing is stored, and secrets are masked.
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.model import Event, PersonMode
from hedgerow.lib import jsonio
from hedgerow.pipelines.deliveries.activity_messages import build_activity_message
from hedgerow.pipelines.destinations.attempt import (
    DeliveryTarget,
    OutboundClients,
    attempt_delivery,
)
from hedgerow.pipelines.destinations.recording import RecordedRequests, record_requests
from hedgerow.pipelines.event_filters import is_of_activity_log
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.records.records import Records
from hedgerow.pipelines.secret_mask import SecretMask, build_mask
from hedgerow.plugin.http import Request, Response
from hedgerow.plugin.outcomes import Failed, Outcome
from hedgerow.projects.activity import ActivityEntry, Actor, RecordedActivity, diff_fields

SHOWN_BYTES = 20_000
SAMPLE_ACTOR = Actor(kind="user", id=None, name="Ann", email="ann@example.com")
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleEvent:
    """The fields of the sample event that a caller may choose."""

    event: str = "sample event"
    distinct_id: str = "sample-person"
    properties: Mapping[str, Any] = field(default_factory=dict)
    person_properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A masked request, and its response if it was sent and got one."""

    request: Request
    response: Response | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPreview:
    exchanges: list[Exchange]
    outcome: Outcome


class DeliveryPreviews:
    def __init__(self, records: Records, clients: OutboundClients) -> None:
        self._records = records
        self._clients = clients

    async def send_test(
        self, record: Record, sample: SampleEvent, now: datetime
    ) -> DeliveryPreview:
        return await self._run(record, sample, now, self._clients)

    async def preview(self, record: Record, sample: SampleEvent, now: datetime) -> DeliveryPreview:
        return await self._run(record, sample, now, None)

    async def _run(
        self, record: Record, sample: SampleEvent, now: datetime, clients: OutboundClients | None
    ) -> DeliveryPreview:
        component = self._records.component(record)
        if component is None or component.deliver is None:
            raise Invalid("The component of this record is not a destination.", attr="plugin")
        settings = self._records.usable_settings(record)
        recorded: RecordedRequests = []
        recording = replace(record_requests(clients, recorded), templates=self._clients.templates)
        target = DeliveryTarget(
            project_id=record.project_id,
            record_id=record.id,
            deliver=component.deliver,
            settings=settings,
            mask=build_mask(component, settings),
        )
        events = [_build_event(record, sample, now)]
        if is_of_activity_log(settings):
            events = [_build_activity_sample(record, sample, now)]
        (outcome,) = await attempt_delivery(target, events, recording, now)
        return DeliveryPreview(
            exchanges=[
                Exchange(
                    request=_mask_request(request, target.mask),
                    response=response and _mask_response(response, target.mask),
                )
                for request, response in recorded
            ],
            outcome=outcome,
        )


def _build_activity_sample(record: Record, sample: SampleEvent, now: datetime) -> Event:
    """Return a message about an entry of the activity log. `properties` replace some of its own."""
    entry = ActivityEntry(
        scope="FeatureFlag",
        item_id="0",
        item_name="sample-flag",
        activity="updated",
        actor=SAMPLE_ACTOR,
        project_id=record.project_id,
        changes=diff_fields("FeatureFlag", {"active": False}, {"active": True}),
    )
    recorded = RecordedActivity(id=0, entry=entry, created_at=now)
    event = build_activity_message(record.project_id, recorded)
    properties = {**jsonio.decode(event.properties), **sample.properties}
    return msgspec.structs.replace(event, properties=jsonio.encode(properties).decode())


def _build_event(record: Record, sample: SampleEvent, now: datetime) -> Event:
    return Event(
        project_id=record.project_id,
        uuid=str(uuid4()),
        event=sample.event,
        distinct_id=sample.distinct_id,
        properties=jsonio.encode(sample.properties).decode(),
        elements_chain="",
        timestamp=now,
        created_at=now,
        person_id=str(uuid4()),
        person_created_at=now,
        person_properties=jsonio.encode(sample.person_properties).decode(),
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )


def _mask_request(request: Request, mask: SecretMask) -> Request:
    return Request(
        method=request.method,
        url=mask.apply(request.url),
        headers={name: mask.apply(value) for name, value in request.headers.items()},
        body=mask.cut(_decode_body(request.body), SHOWN_BYTES).encode()[:SHOWN_BYTES],
    )


def _mask_response(response: Response, mask: SecretMask) -> Response:
    """Mask secrets in the response: some services echo the request."""
    return Response(
        status=response.status,
        headers={name: mask.apply(value) for name, value in response.headers.items()},
        body=mask.cut(response.body.decode("utf-8", "replace"), SHOWN_BYTES).encode()[:SHOWN_BYTES],
    )


def _decode_body(body: bytes) -> str:
    """Return a body as text, decompressed; or its length if it is binary."""
    if body.startswith(GZIP):
        body = gzip.decompress(body)  # one sample event, compressed by the component
    try:
        return body.decode()
    except UnicodeDecodeError:
        return f"({len(body)} bytes)"


def failure_reason(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Failed) else ""
