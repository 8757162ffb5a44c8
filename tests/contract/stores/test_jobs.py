"""Jobs of pipeline records: stored, listed newest first, cancelled once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hedgerow.pipelines.jobs import CANCEL
from hedgerow.pipelines.model import Job, JobId, JobStatus, Record, RecordId
from hedgerow.projects.activity import Entry
from tests.contract.stores.conftest import DEFAULT_PROJECT, LATER, NOW, SOMEBODY, Stores, run_sql

TOLD = Entry(
    scope="PluginConfig",
    item_id="1",
    item_name="",
    activity="job_cancelled",
    actor=SOMEBODY,
    project_id=DEFAULT_PROJECT,
)


def a_job(record: Record, id: str, minute: int = 0, **payload: Any) -> Job:
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


async def stored(stores: Stores, *jobs: Job) -> None:
    for job in jobs:
        await stores.jobs.add_job(DEFAULT_PROJECT, job, TOLD)


async def cancelled(stores: Stores, job: Job) -> Job | None:
    return await stores.jobs.switch_job(job.record_id, job.id, CANCEL, TOLD, LATER)


async def test_a_job_reads_back_as_it_was_stored(stores: Stores) -> None:
    job = a_job(await stores.new_record(), "j1", date_from="2026-01-01", ü=["🪝", None, 1.5])
    await stored(stores, job)
    assert await stores.jobs.job(job.record_id, job.id) == job
    assert await stores.jobs.jobs(job.record_id, limit=10, offset=0) == ([job], 1)


async def test_a_job_is_told_of_in_the_transaction_that_stores_it(stores: Stores) -> None:
    record = await stores.new_record()
    job = a_job(record, "j1")
    await stored(stores, job)
    before = await stores.entry_count()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stored(stores, job)
    assert await stores.entry_count() == before


async def test_jobs_are_listed_newest_first_and_by_their_record(stores: Stores) -> None:
    record, other = await stores.new_record(), await stores.new_record()
    old, new, same = a_job(record, "b", 1), a_job(record, "a", 3), a_job(record, "c", 3)
    await stored(stores, new, old, same, a_job(other, "d", 9))
    assert await stores.jobs.jobs(record.id, limit=10, offset=0) == ([same, new, old], 3)
    assert await stores.jobs.jobs(record.id, limit=1, offset=1) == ([new], 3)
    assert await stores.jobs.jobs(record.id, limit=10, offset=3) == ([], 3)
    assert await stores.jobs.job(record.id, JobId("d")) is None


async def test_a_job_that_is_cancelled_ten_times_is_cancelled_once(stores: Stores) -> None:
    job = a_job(await stores.new_record(), "j1")
    await stored(stores, job)
    before = await stores.entry_count()
    answers = await asyncio.gather(*(cancelled(stores, job) for _ in range(10)))
    assert {answer.status for answer in answers if answer} == {JobStatus.CANCELLED}
    assert len([answer for answer in answers if answer]) == 10
    assert await stores.entry_count() == before + 1


@pytest.mark.parametrize("status", [status for status in JobStatus if status.is_over])
async def test_a_job_that_is_over_stays_as_it_is(stores: Stores, status: JobStatus) -> None:
    job = a_job(await stores.new_record(), "j1")
    await stored(stores, job)
    run_sql(stores.place, "UPDATE pipeline_jobs SET status = :status", status=status.value)
    before = await stores.jobs.job(job.record_id, job.id), await stores.entry_count()
    answer = await cancelled(stores, job)
    assert answer is not None
    assert (answer, await stores.entry_count()) == before
    assert (answer.status, answer.updated_at) == (status, job.updated_at)


async def test_a_running_job_can_be_cancelled(stores: Stores) -> None:
    job = a_job(await stores.new_record(), "j1")
    await stored(stores, job)
    run_sql(stores.place, "UPDATE pipeline_jobs SET status = 'running'")
    answer = await cancelled(stores, job)
    assert answer is not None
    assert (answer.status, answer.updated_at) == (JobStatus.CANCELLED, LATER)


async def test_a_job_of_another_record_is_not_there(stores: Stores) -> None:
    job = a_job(await stores.new_record(), "j1")
    await stored(stores, job)
    elsewhere = RecordId(job.record_id + 1)
    before = await stores.entry_count()
    assert await stores.jobs.switch_job(elsewhere, job.id, CANCEL, TOLD, LATER) is None
    assert await stores.jobs.job(job.record_id, job.id) == job
    assert await stores.entry_count() == before
