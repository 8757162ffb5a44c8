"""Jobs of pipeline records: stored, listed newest first, cancelled once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hedgerow.pipelines.jobs.jobs import CANCEL
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record, RecordId
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, LATER, NOW, Stores, run_sql

ENTRY = ActivityEntry(
    scope="PluginConfig",
    item_id="1",
    item_name="",
    activity="job_cancelled",
    actor=ACTOR,
    project_id=DEFAULT_PROJECT,
)


def build_job(record: Record, id: str, minute: int = 0, **payload: Any) -> Job:
    return Job(
        id=JobId(id),
        record_id=record.id,
        type="replay",
        payload=payload,
        status=JobStatus.WAITING,
        error="",
        requested_by="a key's label",
        created_at=NOW + timedelta(minutes=minute),
        updated_at=NOW + timedelta(minutes=minute),
    )


async def add_jobs(stores: Stores, *jobs: Job, project: ProjectId = DEFAULT_PROJECT) -> None:
    for job in jobs:
        await stores.jobs.add_job(project, job, ENTRY)


async def cancel(stores: Stores, job: Job) -> Job | None:
    return await stores.jobs.change_status(job.record_id, job.id, CANCEL, ENTRY, LATER)


async def test_job_round_trips(stores: Stores) -> None:
    job = build_job(await stores.new_record(), "j1", date_from="2026-01-01", ü=["🪝", None, 1.5])
    await add_jobs(stores, job)
    assert await stores.jobs.job(job.record_id, job.id) == job
    assert await stores.jobs.jobs(job.record_id, limit=10, offset=0) == ([job], 1)


async def test_job_is_audited_in_its_transaction(stores: Stores) -> None:
    record = await stores.new_record()
    job = build_job(record, "j1")
    await add_jobs(stores, job)
    before = await stores.count_entries()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await add_jobs(stores, job)
    assert await stores.count_entries() == before


async def test_jobs_are_listed_by_record_newest_first(stores: Stores) -> None:
    record, other = await stores.new_record(), await stores.new_record()
    old, new, same = build_job(record, "b", 1), build_job(record, "a", 3), build_job(record, "c", 3)
    await add_jobs(stores, new, old, same, build_job(other, "d", 9))
    assert await stores.jobs.jobs(record.id, limit=10, offset=0) == ([same, new, old], 3)
    assert await stores.jobs.jobs(record.id, limit=1, offset=1) == ([new], 3)
    assert await stores.jobs.jobs(record.id, limit=10, offset=3) == ([], 3)
    assert await stores.jobs.job(record.id, JobId("d")) is None


async def test_concurrent_cancellations_take_effect_once(stores: Stores) -> None:
    job = build_job(await stores.new_record(), "j1")
    await add_jobs(stores, job)
    before = await stores.count_entries()
    results = await asyncio.gather(*(cancel(stores, job) for _ in range(10)))
    assert {result.status for result in results if result} == {JobStatus.CANCELLED}
    assert len([result for result in results if result]) == 10
    assert await stores.count_entries() == before + 1


@pytest.mark.parametrize("status", [status for status in JobStatus if status.is_over])
async def test_finished_job_cannot_be_changed(stores: Stores, status: JobStatus) -> None:
    job = build_job(await stores.new_record(), "j1")
    await add_jobs(stores, job)
    run_sql(stores.location, "UPDATE pipeline_jobs SET status = :status", status=status.value)
    before = await stores.jobs.job(job.record_id, job.id), await stores.count_entries()
    result = await cancel(stores, job)
    assert result is not None
    assert (result, await stores.count_entries()) == before
    assert (result.status, result.updated_at) == (status, job.updated_at)


async def test_running_job_can_be_cancelled(stores: Stores) -> None:
    job = build_job(await stores.new_record(), "j1")
    await add_jobs(stores, job)
    run_sql(stores.location, "UPDATE pipeline_jobs SET status = 'running'")
    result = await cancel(stores, job)
    assert result is not None
    assert (result.status, result.updated_at) == (JobStatus.CANCELLED, LATER)


async def test_job_of_another_record_is_not_found(stores: Stores) -> None:
    job = build_job(await stores.new_record(), "j1")
    await add_jobs(stores, job)
    elsewhere = RecordId(job.record_id + 1)
    before = await stores.count_entries()
    assert await stores.jobs.change_status(elsewhere, job.id, CANCEL, ENTRY, LATER) is None
    assert await stores.jobs.job(job.record_id, job.id) == job
    assert await stores.count_entries() == before
