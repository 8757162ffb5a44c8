"""Jobs of a pipeline record: start, list, pause, resume, cancel, and the schedule.

Starting a job responds with 200 and an empty body, as the specification demands; `?format=json`
returns the job.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.http.api.pipelines.record_actions import (
    FORMAT_PARAMETERS,
    empty_response,
    wants_format,
)
from hedgerow.http.api.pipelines.record_items import family_paths, parse_record_key
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.payload.fields import Fields, Json
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.lib.text import explain_unstorable, truncate
from hedgerow.pipelines.imports.scheduler import ScheduleStore
from hedgerow.pipelines.jobs.jobs import JobRequest, Jobs
from hedgerow.pipelines.model import Job, JobId, Record
from hedgerow.pipelines.records.records import Records
from hedgerow.plugin.component import Component
from hedgerow.projects.activity import Actor

JobChange = Callable[[Record, Component | None, JobId, Actor, datetime], Awaitable[Job]]
SCHEDULE = "schedule"
START = "start"
STOP = "stop"


class JobItem(msgspec.Struct, kw_only=True):
    """A job. `total` is null while unknown, `rate` is items per second, and `details` holds counts
    that depend on the job type."""

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
    """`schedule` is empty if the record has none. `next_run_at` is null while the record is
    disabled and for about a second after a change."""

    schedule: str
    next_run_at: str | None


class JobBody(Fields):
    """`{"job": {"type": …, "payload": {…}, "operation": "start"}}`. The operation `stop` cancels
    the jobs of the type that have not ended. Without `job` nothing runs."""

    job: Json = None


def render_job(job: Job) -> JobItem:
    return JobItem(
        id=job.id,
        type=job.type,
        payload=job.payload,
        status=job.status.value,
        error=job.error,
        requested_by=job.requested_by,
        created_at=format_iso(job.created_at),
        updated_at=format_iso(job.updated_at),
        started_at=format_iso(job.started_at) if job.started_at else None,
        ended_at=format_iso(job.ended_at) if job.ended_at else None,
        done=job.done,
        total=job.total,
        rate=job.rate,
        details=job.details,
    )


def _parse_job_id(call: ProjectCall) -> JobId:
    text = call.path_param("job_id")
    if explain_unstorable(text):
        raise NotFound
    return JobId(text)


def _parse_job(job: Any) -> JobRequest:
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
    return JobRequest(type=job["type"], payload=payload)


def _parse_operation(job: dict[str, Any]) -> str:
    operation = job.get("operation")
    if operation is None:
        return START
    if operation not in (START, STOP):
        raise Invalid(
            f'"{truncate(operation)}" is not a valid choice. Expected one of: {START}, {STOP}.',
            attr="job__operation",
            code="invalid_choice",
        )
    return str(operation)


class JobEndpoints:
    tag = "Pipelines"

    def __init__(self, jobs: Jobs, records: Records, schedules: ScheduleStore) -> None:
        self._jobs = jobs
        self._records = records
        self._schedules = schedules

    @endpoint(
        "POST",
        *family_paths("{record_id}/job/"),
        access=in_project("plugin:write"),
        response=JobItem | None,
        query=FORMAT_PARAMETERS,
        body=JobBody,
    )
    async def start_job(self, call: ProjectCall) -> Response:
        """Start the job of the component that `job` names. The X-Job-Id header holds its id. With
        `"operation": "stop"`, cancel such jobs instead. Without `job` nothing runs: the fields of
        Create alone have no effect."""
        record = await self._records.find(parse_record_key(call))
        sent = (await call.body(JobBody)).job
        component = self._records.component(record)
        request = None if sent is None else _parse_job(sent)
        job = None
        if request and _parse_operation(sent) == STOP:
            await self._jobs.stop(record, component, request, call.actor, call.now)
        else:
            job = await self._jobs.start(record, component, request, call.actor, call.now)
        headers = {"X-Job-Id": job.id} if job else {}
        if not wants_format(call, "json"):
            return empty_response(headers)
        return JsonResponse(render_job(job) if job else None, headers=headers)

    @endpoint(
        "GET",
        *family_paths("{record_id}/jobs/"),
        access=in_project("plugin:read"),
        response=Page[JobItem],
        query=PAGE_PARAMETERS,
    )
    async def list_jobs(self, call: ProjectCall) -> Response:
        """List the jobs of a record, newest first."""
        record, _ = await self._find_record(call)
        window = call.window
        jobs, count = await self._jobs.list_jobs(
            record.id, limit=window.limit, offset=window.offset
        )
        listed = [render_job(job) for job in jobs]
        return JsonResponse(call.page(count, listed))

    @endpoint(
        "GET",
        *family_paths("{record_id}/jobs/{job_id}/"),
        access=in_project("plugin:read"),
        response=JobItem,
    )
    async def retrieve_job(self, call: ProjectCall) -> Response:
        """Retrieve a job."""
        record, _ = await self._find_record(call)
        return JsonResponse(render_job(await self._jobs.find(record.id, _parse_job_id(call))))

    @endpoint(
        "POST",
        *family_paths("{record_id}/jobs/{job_id}/cancel/"),
        access=in_project("plugin:write"),
        response=JobItem,
    )
    async def cancel_job(self, call: ProjectCall) -> Response:
        """Cancel a job. A finished job is not changed."""
        return await self._change(call, self._jobs.cancel)

    @endpoint(
        "POST",
        *family_paths("{record_id}/jobs/{job_id}/pause/"),
        access=in_project("plugin:write"),
        response=JobItem,
    )
    async def pause_job(self, call: ProjectCall) -> Response:
        """Pause a job. A finished job is not changed."""
        return await self._change(call, self._jobs.pause)

    @endpoint(
        "POST",
        *family_paths("{record_id}/jobs/{job_id}/resume/"),
        access=in_project("plugin:write"),
        response=JobItem,
    )
    async def resume_job(self, call: ProjectCall) -> Response:
        """Resume a paused or failed job. Other jobs are not changed."""
        return await self._change(call, self._jobs.resume)

    @endpoint(
        "GET",
        *family_paths("{record_id}/schedule/"),
        access=in_project("plugin:read"),
        response=ScheduleItem,
    )
    async def retrieve_schedule(self, call: ProjectCall) -> Response:
        """Retrieve the schedule of a record and the time of its next run."""
        record, component = await self._find_record(call)
        has_schedule = any(
            field.key == SCHEDULE for field in (component.settings if component else ())
        )
        schedule = str(record.config.get(SCHEDULE) or "") if has_schedule else ""
        planned = await self._schedules.planned(record.id) if schedule and record.enabled else None
        due_ms = planned.next_run_ms if planned and planned.schedule == schedule else None
        next_run = (
            None if due_ms is None else format_iso(datetime.fromtimestamp(due_ms / 1000, UTC))
        )
        return JsonResponse(ScheduleItem(schedule=schedule, next_run_at=next_run))

    async def _find_record(self, call: ProjectCall) -> tuple[Record, Component | None]:
        record = await self._records.find(parse_record_key(call))
        return record, self._records.component(record)

    async def _change(self, call: ProjectCall, change: JobChange) -> Response:
        record, component = await self._find_record(call)
        job = await change(record, component, _parse_job_id(call), call.actor, call.now)
        return JsonResponse(render_job(job))
