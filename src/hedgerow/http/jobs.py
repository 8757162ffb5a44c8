"""A record's jobs: started, listed, watched, paused, resumed and cancelled.

The bare call that starts one is the specification's: 200 and an empty body.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.describe import describes
from hedgerow.http.fields import Fields
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.record_actions import FORMAT, empty, wants
from hedgerow.http.records import place_of, under_every_base
from hedgerow.http.reply import JsonResponse
from hedgerow.lib.clock import iso
from hedgerow.lib.text import why_unstorable
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.jobs import JobWish
from hedgerow.pipelines.model import Job, JobId, Record
from hedgerow.projects.activity import Actor

router = APIRouter(tags=["Pipelines"])

JobChange = Callable[[Record, Component | None, JobId, Actor, datetime], Awaitable[Job]]

SCHEDULE = "schedule"


class JobItem(msgspec.Struct, kw_only=True):
    """`done` of `total` (null where that is not known), by `rate` a second. `details` are counts
    of what became of them, as the kind of job has it."""

    id: str
    type: str
    payload: Mapping[str, Any]
    status: str
    error: str
    requested_by: str
    created_at: str
    updated_at: str
    started_at: str | None
    ended_at: str | None
    done: int
    total: int | None
    rate: float
    details: Mapping[str, Any]


class ScheduleItem(msgspec.Struct, kw_only=True):
    """`schedule` as it is set, empty if it has none. `next_run_at` is null while the record is
    disabled, and for a second after a change."""

    schedule: str
    next_run_at: str | None


class JobBody(Fields):
    """`{"job": {"type": …, "payload": {…}}}`; without it the component's default job runs."""

    job: Any = None


@describes(answer=JobItem | None, query=FORMAT, body=JobBody)
async def start_job(
    record_id: str,
    call: Annotated[ProjectCall, in_project("plugin:write")],
) -> Response:
    """Run one of the component's jobs, or its default one. X-Job-Id names it."""
    record = await call.rooms.records.find(place_of(call, record_id))
    wish = _job_wish((await call.body(JobBody)).job)
    component = call.rooms.records.component(record)
    job = await call.rooms.jobs.start(record, component, wish, call.actor, call.now)
    headers = {"X-Job-Id": job.id} if job else {}
    if not wants(call.request, "json"):
        return empty(headers)
    return JsonResponse(job_item(job) if job else None, headers=headers)


@describes(answer=Page[JobItem], query=WINDOW)
async def list_jobs(
    record_id: str,
    call: Annotated[ProjectCall, in_project("plugin:read")],
) -> Response:
    """The record's jobs, newest first."""
    record, _ = await _found(call, record_id)
    asked = call.window
    jobs, count = await call.rooms.jobs.listing(record.id, limit=asked.limit, offset=asked.offset)
    listed = [job_item(job) for job in jobs]
    return JsonResponse(page(call.request, call.rooms.origins, asked, count, listed))


@describes(answer=JobItem)
async def retrieve_job(
    record_id: str, job_id: str, call: Annotated[ProjectCall, in_project("plugin:read")]
) -> Response:
    """One job."""
    record, _ = await _found(call, record_id)
    return JsonResponse(job_item(await call.rooms.jobs.find(record.id, _job_id(job_id))))


@describes(answer=JobItem)
async def cancel_job(
    record_id: str, job_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Cancel a job. One that is over stays as it is."""
    return await _changed(call, record_id, job_id, call.rooms.jobs.cancel)


@describes(answer=JobItem)
async def pause_job(
    record_id: str, job_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Put a job aside. One that is over stays as it is."""
    return await _changed(call, record_id, job_id, call.rooms.jobs.pause)


@describes(answer=JobItem)
async def resume_job(
    record_id: str, job_id: str, call: Annotated[ProjectCall, in_project("plugin:write")]
) -> Response:
    """Let a job go on that was paused or has failed. Any other stays as it is."""
    return await _changed(call, record_id, job_id, call.rooms.jobs.resume)


@describes(answer=ScheduleItem)
async def retrieve_schedule(
    record_id: str, call: Annotated[ProjectCall, in_project("plugin:read")]
) -> Response:
    """When the record runs by itself."""
    record, component = await _found(call, record_id)
    has_one = any(field.key == SCHEDULE for field in (component.settings if component else ()))
    said = str(record.config.get(SCHEDULE) or "") if has_one else ""
    planned = await call.rooms.schedules.planned(record.id) if said and record.enabled else None
    due_ms = planned.next_run_ms if planned and planned.schedule == said else None
    next_run = None if due_ms is None else iso(datetime.fromtimestamp(due_ms / 1000, UTC))
    return JsonResponse(ScheduleItem(schedule=said, next_run_at=next_run))


def job_item(job: Job) -> JobItem:
    return JobItem(
        id=job.id,
        type=job.type,
        payload=job.payload,
        status=job.status.value,
        error=job.error,
        requested_by=job.requested_by,
        created_at=iso(job.created_at),
        updated_at=iso(job.updated_at),
        started_at=iso(job.started_at) if job.started_at else None,
        ended_at=iso(job.ended_at) if job.ended_at else None,
        done=job.done,
        total=job.total,
        rate=job.rate,
        details=job.details,
    )


async def _found(call: ProjectCall, record_id: str) -> tuple[Record, Component | None]:
    record = await call.rooms.records.find(place_of(call, record_id))
    return record, call.rooms.records.component(record)


async def _changed(call: ProjectCall, record_id: str, job_id: str, change: JobChange) -> Response:
    record, component = await _found(call, record_id)
    job = await change(record, component, _job_id(job_id), call.actor, call.now)
    return JsonResponse(job_item(job))


def _job_id(text: str) -> JobId:
    if why_unstorable(text):
        raise NotFound
    return JobId(text)


def _job_wish(job: Any) -> JobWish | None:
    if job is None:
        return None
    if not isinstance(job, dict) or not isinstance(job.get("type"), str) or not job["type"]:
        raise Invalid("The job type must be specified!")
    payload = {} if job.get("payload") is None else job["payload"]
    if not isinstance(payload, dict):
        kind = type(payload).__name__
        raise Invalid(
            f'Expected a dictionary of items but got type "{kind}".',
            attr="job__payload",
            code="not_a_dict",
        )
    return JobWish(type=job["type"], payload=payload)


under_every_base(router.post, "{record_id}/job/", start_job)
under_every_base(router.get, "{record_id}/schedule/", retrieve_schedule)
under_every_base(router.get, "{record_id}/jobs/", list_jobs)
under_every_base(router.get, "{record_id}/jobs/{job_id}/", retrieve_job)
under_every_base(router.post, "{record_id}/jobs/{job_id}/cancel/", cancel_job)
under_every_base(router.post, "{record_id}/jobs/{job_id}/pause/", pause_job)
under_every_base(router.post, "{record_id}/jobs/{job_id}/resume/", resume_job)
