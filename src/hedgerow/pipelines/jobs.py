"""Jobs of records: asked for, stored, looked at, paused, cancelled. job_runner.py runs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.errors import Invalid, NotFound
from hedgerow.lib.text import cut_short
from hedgerow.pipelines.audit import SCOPE
from hedgerow.pipelines.component import Component, JobOffer
from hedgerow.pipelines.config import checked_value
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record, RecordId
from hedgerow.pipelines.store import JobStore, JobSwitch
from hedgerow.projects.activity import Actor, Entry
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.text import check_storable

OPEN = tuple(status for status in JobStatus if not status.is_over)
CANCEL = JobSwitch(activity="job_cancelled", before=OPEN, after=JobStatus.CANCELLED)
PAUSE = JobSwitch(
    activity="job_paused",
    before=(JobStatus.WAITING, JobStatus.RUNNING),
    after=JobStatus.PAUSED,
)
RESUME = JobSwitch(
    activity="job_resumed",
    before=(JobStatus.PAUSED, JobStatus.FAILED),
    after=JobStatus.WAITING,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWish:
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
        wish: JobWish | None,
        actor: Actor,
        now: datetime,
    ) -> Job | None:
        """The stored job; None when nothing was named and the component has no default job."""
        offer = _offer(component, wish)
        if offer is None:
            entry = _entry("job_triggered", record, component, None, actor)
            await self._activity.record(entry, now)
            return None
        payload = wish.payload if wish else {}
        job = Job(
            id=JobId(str(uuid4())),
            record_id=record.id,
            type=offer.type,
            payload=_checked(offer, payload, now),
            status=JobStatus.WAITING,
            error="",
            requested_by=actor.name,
            created_at=now,
            updated_at=now,
        )
        await self._store.add_job(
            record.project_id, job, _entry("job_triggered", record, component, job, actor)
        )
        return job

    async def listing(
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
        """The cancelled job. One that is over stays as it is."""
        return await self._switch(CANCEL, record, component, id, actor, now)

    async def pause(
        self, record: Record, component: Component | None, id: JobId, actor: Actor, now: datetime
    ) -> Job:
        """Put aside. One that is over stays as it is."""
        return await self._switch(PAUSE, record, component, id, actor, now)

    async def resume(
        self, record: Record, component: Component | None, id: JobId, actor: Actor, now: datetime
    ) -> Job:
        """To go on where it was paused or has failed. Any other stays as it is."""
        return await self._switch(RESUME, record, component, id, actor, now)

    async def _switch(
        self,
        switch: JobSwitch,
        record: Record,
        component: Component | None,
        id: JobId,
        actor: Actor,
        now: datetime,
    ) -> Job:
        job = await self.find(record.id, id)
        entry = _entry(switch.activity, record, component, job, actor)
        switched = await self._store.switch_job(record.id, id, switch, entry, now)
        if switched is None:
            raise NotFound
        return switched


def _offer(component: Component | None, wish: JobWish | None) -> JobOffer | None:
    if wish is None:
        return component.default_job if component else None
    check_storable([wish.type, dict(wish.payload)], "job")
    offers = component.jobs if component else ()
    for offer in offers:
        if offer.type == wish.type:
            return offer
    known = ", ".join(offer.type for offer in offers) or "none"
    raise Invalid(
        f'Unknown job "{cut_short(wish.type)}". Jobs of this component: {known}.', attr="job"
    )


def _checked(offer: JobOffer, payload: Mapping[str, Any], now: datetime) -> Mapping[str, Any]:
    known = {field.key: field for field in offer.payload}
    for key in payload:
        if key not in known:
            raise Invalid(f"Unknown job field: {key}", attr="job")
    for key, field in known.items():
        if field.required and payload.get(key) in (None, ""):
            raise Invalid(f"Missing required job field: {key}", attr="job")
    checked = {
        key: field.default
        if payload.get(key) is None
        else checked_value(field.type, (), payload[key], f"job__payload__{key}")
        for key, field in known.items()
    }
    if offer.check is not None:
        offer.check(checked, now)
    return checked


def _entry(
    verb: str, record: Record, component: Component | None, job: Job | None, actor: Actor
) -> Entry:
    trigger = job and {"job_type": job.type, "job_id": job.id, "payload": dict(job.payload)}
    return Entry(
        scope=SCOPE,
        item_id=str(record.id),
        item_name=record.name or (component.name if component else ""),
        activity=verb,
        actor=actor,
        project_id=record.project_id,
        detail={"trigger": trigger},
    )
