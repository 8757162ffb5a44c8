"""Metrics of a transformation, and a test run on a sample event."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

from hedgerow.http.api.pipelines.deliveries import (
    DEFAULT_HOURS,
    MAX_HOURS,
    PreviewBody,
    apply_draft,
    parse_sample,
)
from hedgerow.http.api.pipelines.record_items import TRANSFORMATIONS, family_paths, parse_record_key
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.parameters import Parameter, parse_positive
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.pipelines.records.records import Records
from hedgerow.pipelines.store import TransformationHistory
from hedgerow.pipelines.transformations.preview import TransformationPreviews
from hedgerow.plugin.transform import IncomingEvent


class TransformationHourItem(msgspec.Struct, kw_only=True):
    hour: str
    changed: int
    dropped: int
    failed: int


class TransformationMetricsItem(msgspec.Struct, kw_only=True):
    """Event counts. Hours without events are left out."""

    changed: int
    dropped: int
    failed: int
    hours: list[TransformationHourItem]


class SampleItem(msgspec.Struct, kw_only=True):
    event: str
    distinct_id: str
    properties: Mapping[str, Any]


class TransformationPreviewItem(msgspec.Struct, kw_only=True):
    """`after` is null if the event is dropped. With an `error` the event passes unchanged."""

    changed: bool
    dropped: bool
    error: str
    before: SampleItem
    after: SampleItem | None


def _render_sample(event: IncomingEvent) -> SampleItem:
    return SampleItem(event=event.event, distinct_id=event.distinct_id, properties=event.properties)


class TransformationEndpoints:
    tag = "Pipelines"

    def __init__(
        self,
        records: Records,
        transformation_preview: TransformationPreviews,
        transformation_metrics: TransformationHistory,
    ) -> None:
        self._records = records
        self._transformation_preview = transformation_preview
        self._transformation_metrics = transformation_metrics

    @endpoint(
        "GET",
        *family_paths("{record_id}/metrics/", {TRANSFORMATIONS}),
        access=in_project("plugin:read"),
        response=TransformationMetricsItem,
        query=(
            Parameter(
                "hours",
                f"Number of hours to cover. Default: {DEFAULT_HOURS}, maximum: {MAX_HOURS}.",
                {"type": "integer"},
            ),
        ),
    )
    async def retrieve_transformation_metrics(self, call: ProjectCall) -> Response:
        """Retrieve changed and dropped events and failures by hour. Failed events pass
        unchanged."""
        record = await self._records.find(parse_record_key(call))
        hours = min(parse_positive(call.query_param("hours")) or DEFAULT_HOURS, MAX_HOURS)
        since_ms = int(call.now.timestamp() * 1000) - hours * 3_600_000
        found = await self._transformation_metrics.hours(record.id, since_ms)
        return JsonResponse(
            TransformationMetricsItem(
                changed=sum(hour.changed for hour in found),
                dropped=sum(hour.dropped for hour in found),
                failed=sum(hour.failed for hour in found),
                hours=[
                    TransformationHourItem(
                        hour=format_iso(datetime.fromtimestamp(hour.hour_ms / 1000, UTC)),
                        changed=hour.changed,
                        dropped=hour.dropped,
                        failed=hour.failed,
                    )
                    for hour in found
                ],
            )
        )

    @endpoint(
        "POST",
        *family_paths("{record_id}/test/", {TRANSFORMATIONS}),
        access=in_project("plugin:write"),
        response=TransformationPreviewItem,
        body=PreviewBody,
    )
    async def test_transformation(self, call: ProjectCall) -> Response:
        """Run the transformation on a sample event, whether it is enabled or not. Nothing is
        stored."""
        record = await self._records.find(parse_record_key(call))
        body = await call.body(PreviewBody)
        draft = apply_draft(self._records, record, body)
        preview = await self._transformation_preview.preview(draft, parse_sample(body), call.now)
        return JsonResponse(
            TransformationPreviewItem(
                changed=preview.after is not None and preview.after is not preview.before,
                dropped=preview.after is None,
                error=preview.error,
                before=_render_sample(preview.before),
                after=None if preview.after is None else _render_sample(preview.after),
            )
        )
