"""Jobs of records: start, stop, list, pause, resume and cancel them. runner.py runs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.errors import Invalid, NotFound
from hedgerow.lib.text import truncate
from hedgerow.pipelines.config import parse_value
from hedgerow.pipelines.event_filters import is_of_activity_log
from hedgerow.pipelines.jobs.replay import check_replay_payload
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record, RecordId
from hedgerow.pipelines.records.audit import SCOPE
from hedgerow.pipelines.store import JobStore, JobTransition
from hedgerow.plugin.component import Component, JobOffer
from hedgerow.projects.activity import ActivityEntry, Actor
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.validation import check_storable

OPEN_STATUSES = tuple(status for status in JobStatus if not status.is_over)
CANCEL = JobTransition(activity="job_cancelled", before=OPEN_STATUSES, after=JobStatus.CANCELLED)
PAUSE = JobTransition(
    activity="job_paused",
    before=(JobStatus.WAITING, JobStatus.RUNNING),
    after=JobStatus.PAUSED,
)
RESUME = JobTransition(
    activity="job_resumed",
    before=(JobStatus.PAUSED, JobStatus.FAILED),
    after=JobStatus.WAITING,
)
REPLAY = "replay"
# Checks of the jobs that Hedgerow offers for every component.
PAYLOAD_CHECKS = {REPLAY: check_replay_payload}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    type: str
    payload: Mapping[str, Any]


class Jobs:
    def __init__(self, store: JobStore, activity: ActivityStore) -> None:
        self._store = store
        self._activity = activity

    async def start(
        self,
        record: Record,
        component: Component | None,
        request: JobRequest | None,
        actor: Actor,
        now: datetime,
    ) -> Job | None:
        """Store a job and return it. Without a request nothing runs, and None is returned."""
        if request is None:
            entry = _build_entry("job_triggered", record, component, None, actor)
            await self._activity.record(entry, now)
            return None
        offer = _find_offer(component, request)
        _check_source(record, offer)
        job = Job(
            id=JobId(str(uuid4())),
            record_id=record.id,
            type=offer.type,
            payload=_parse_payload(offer, request.payload, now),
            status=JobStatus.WAITING,
            error="",
            requested_by=actor.email or actor.name,
            created_at=now,
            updated_at=now,
        )
        await self._store.add_job(
            record.project_id, job, _build_entry("job_triggered", record, component, job, actor)
        )
        return job

    async def stop(
        self,
        record: Record,
        component: Component | None,
        request: JobRequest,
        actor: Actor,
        now: datetime,
    ) -> None:
        """Cancel the jobs of the requested type that have not ended."""
        offer = _find_offer(component, request)
        for job in await self._store.open_jobs(record.id, offer.type):
            await self.cancel(record, component, job.id, actor, now)

    async def list_jobs(
        self, record_id: RecordId, *, limit: int, offset: int
    ) -> tuple[list[Job], int]:
        return await self._store.jobs(record_id, limit=limit, offset=offset)

    async def find(self, record_id: RecordId, id: JobId) -> Job:
        job = await self._store.job(record_id, id)
        if job is None:
            raise NotFound
        return job

    async def cancel(
        self, record: Record, component: Component | None, id: JobId, actor: Actor, now: datetime
    ) -> Job:
        """Cancel a job. A job that has ended stays as it is."""
        return await self._change_status(CANCEL, record, component, id, actor, now)

    async def pause(
        self, record: Record, component: Component | None, id: JobId, actor: Actor, now: datetime
    ) -> Job:
        """Pause a job. A job that has ended stays as it is."""
        return await self._change_status(PAUSE, record, component, id, actor, now)

    async def resume(
        self, record: Record, component: Component | None, id: JobId, actor: Actor, now: datetime
    ) -> Job:
        """Continue a job that was paused or has failed. Any other job stays as it is."""
        return await self._change_status(RESUME, record, component, id, actor, now)

    async def _change_status(
        self,
        transition: JobTransition,
        record: Record,
        component: Component | None,
        id: JobId,
        actor: Actor,
        now: datetime,
    ) -> Job:
        job = await self.find(record.id, id)
        entry = _build_entry(transition.activity, record, component, job, actor)
        changed = await self._store.change_status(record.id, id, transition, entry, now)
        if changed is None:
            raise NotFound
        return changed


def _find_offer(component: Component | None, request: JobRequest) -> JobOffer:
    check_storable([request.type, dict(request.payload)], "job")
    offers = component.jobs if component else ()
    for offer in offers:
        if offer.type == request.type:
            return offer
    offered = ", ".join(offer.type for offer in offers) or "none"
    raise Invalid(
        f'Unknown job "{truncate(request.type)}". Jobs of this component: {offered}.', attr="job"
    )


def _check_source(record: Record, offer: JobOffer) -> None:
    if offer.type == REPLAY and is_of_activity_log(record.config):
        raise Invalid(
            "This destination receives the activity log, and a replay sends stored events. Change "
            "its event_source to events first.",
            attr="job",
        )


def _parse_payload(offer: JobOffer, payload: Mapping[str, Any], now: datetime) -> Mapping[str, Any]:
    fields_by_key = {field.key: field for field in offer.payload}
    for key in payload:
        if key not in fields_by_key:
            raise Invalid(f"Unknown job field: {key}", attr="job")
    for key, field in fields_by_key.items():
        if field.required and payload.get(key) in (None, ""):
            raise Invalid(f"Missing required job field: {key}", attr="job")
    parsed = {
        key: field.default
        if payload.get(key) is None
        else parse_value(field.type, (), payload[key], f"job__payload__{key}")
        for key, field in fields_by_key.items()
    }
    if check := offer.check or PAYLOAD_CHECKS.get(offer.type):
        check(parsed, now)
    return parsed


def _build_entry(
    activity: str, record: Record, component: Component | None, job: Job | None, actor: Actor
) -> ActivityEntry:
    trigger = job and {"job_type": job.type, "job_id": job.id, "payload": dict(job.payload)}
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(record.id),
        item_name=record.name or (component.name if component else ""),
        activity=activity,
        actor=actor,
        project_id=record.project_id,
        detail={"trigger": trigger},
    )
