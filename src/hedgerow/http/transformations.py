"""What transformations do to events: counts by the hour, and trying one out."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.deliveries import HOURS, MAX_HOURS, TrialBody, sample_of
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.paging import positive
from hedgerow.http.records import TRANSFORMATIONS, place_of, under_every_base
from hedgerow.http.reply import JsonResponse
from hedgerow.lib.clock import iso
from hedgerow.pipelines.transforming import Incoming

router = APIRouter(tags=["Pipelines"])


class TransformedHourItem(msgspec.Struct, kw_only=True):
    hour: str
    changed: int
    dropped: int
    failed: int


class TransformedItem(msgspec.Struct, kw_only=True):
    """Hours in which nothing happened are left out."""

    changed: int
    dropped: int
    failed: int
    hours: list[TransformedHourItem]


class SampleItem(msgspec.Struct, kw_only=True):
    event: str
    distinct_id: str
    properties: Mapping[str, Any]


class TransformTrialItem(msgspec.Struct, kw_only=True):
    """`after` is null if the event would be dropped. With an `error` it would be kept as it is."""

    changed: bool
    dropped: bool
    error: str
    before: SampleItem
    after: SampleItem | None


@describes(
    answer=TransformedItem,
    query=(Parameter("hours", f"How far back: {HOURS} hours unless told.", {"type": "integer"}),),
)
async def transformation_metrics(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:read")]
) -> Response:
    """Events that were changed, dropped, and kept because it failed, by the hour."""
    record = await call.rooms.records.find(place_of(call, record_id))
    hours = min(positive(call.asked("hours")) or HOURS, MAX_HOURS)
    since_ms = int(call.now.timestamp() * 1000) - hours * 3_600_000
    found = await call.rooms.transformed.hours(record.id, since_ms)
    return JsonResponse(
        TransformedItem(
            changed=sum(hour.changed for hour in found),
            dropped=sum(hour.dropped for hour in found),
            failed=sum(hour.failed for hour in found),
            hours=[
                TransformedHourItem(
                    hour=iso(datetime.fromtimestamp(hour.hour_ms / 1000, UTC)),
                    changed=hour.changed,
                    dropped=hour.dropped,
                    failed=hour.failed,
                )
                for hour in found
            ],
        )
    )


@describes(answer=TransformTrialItem, body=TrialBody)
async def test_transformation(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """What the record, enabled or not, makes of a sample event. Nothing is stored."""
    record = await call.rooms.records.find(place_of(call, record_id))
    sample = sample_of(await call.body(TrialBody))
    trial = await call.rooms.transform_trials.test(record, sample, call.now)
    return JsonResponse(
        TransformTrialItem(
            changed=trial.after is not None and trial.after is not trial.before,
            dropped=trial.after is None,
            error=trial.error,
            before=_sample(trial.before),
            after=None if trial.after is None else _sample(trial.after),
        )
    )


def _sample(event: Incoming) -> SampleItem:
    return SampleItem(event=event.event, distinct_id=event.distinct_id, properties=event.properties)


under_every_base(router.get, "{record_id}/metrics/", transformation_metrics, {TRANSFORMATIONS})
under_every_base(router.post, "{record_id}/test/", test_transformation, {TRANSFORMATIONS})
