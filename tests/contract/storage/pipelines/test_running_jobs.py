"""Running jobs on a real database: one process holds a job, and each step is atomic."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from hedgerow.pipelines.deliveries.model import NewDelivery
from hedgerow.pipelines.jobs.jobs import CANCEL, PAUSE, RESUME
from hedgerow.pipelines.jobs.running import CRASH_DELAYS_S, MAX_CRASHES, JobEnd, JobStep
from hedgerow.pipelines.model import Job, JobStatus, Record, RecordId
from hedgerow.pipelines.store import JobTransition
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.deliveries.retention import BATCH_SIZE
from hedgerow.storage.pipelines.replay import SqlReplayQueue
from hedgerow.storage.pipelines.running_jobs import MAX_FINISHED_JOBS, SqlRunningJobStore
from hedgerow.storage.tables import delivery_batches, pipeline_jobs
from tests.contract.storage.conftest import (
    DEFAULT_PROJECT,
    LATER,
    NOW,
    Stores,
    edit_record,
    run_sql,
)
from tests.contract.storage.deliveries.test_queue import PERIODS, event, report
from tests.contract.storage.pipelines.test_jobs import ENTRY, add_jobs, build_job

REPLAY = ("replay",)
FIRST_DELAY, SECOND_DELAY = (timedelta(seconds=delay) for delay in CRASH_DELAYS_S)


async def waiting_job(stores: Stores, id: str = "j1", minute: int = 0, **record: Any) -> Job:
    job = build_job(await stores.new_record(**{"enabled": True, **record}), id, minute)
    await add_jobs(stores, job)
    return job


def step(*numbers: int, record: int = 0, **fields: Any) -> JobStep:
    created = [
        NewDelivery(event=event(number), record_ids=[RecordId(record)]) for number in numbers
    ]
    given: dict[str, Any] = {"cursor": {"at": len(numbers)}, "done": len(numbers)}
    return JobStep(**{**given, "deliveries": created, **fields})


async def switch_status(stores: Stores, job: Job, switch: JobTransition) -> Job:
    result = await stores.jobs.change_status(job.record_id, job.id, switch, ENTRY, LATER)
    assert result is not None
    return result


async def queued(stores: Stores) -> int:
    return int(await stores.fetch_scalar(select(func.sum(delivery_batches.c.number))) or 0)


async def test_job_is_acquired_and_saved_by_one_process(
    stores: Stores, other_stores: Stores
) -> None:
    job = await waiting_job(stores)
    ours, theirs = SqlRunningJobStore(stores.database), SqlRunningJobStore(other_stores.database)
    taken = await ours.acquire(REPLAY, LATER)
    assert taken is not None
    assert (taken.id, taken.status, taken.started_at) == (job.id, JobStatus.RUNNING, LATER)
    if stores.database.engine_name == "postgresql":  # SQLite has one process
        assert await theirs.acquire(REPLAY, LATER) is None
    assert not await theirs.save(job.id, step(1, record=job.record_id), 1.0, LATER)
    assert await queued(stores) == 0
    assert await ours.save(job.id, step(1, 2, record=job.record_id, total=9), 7.5, LATER)
    assert await queued(stores) == 2
    now, record = await ours.current(job.id)
    assert (now.cursor, now.done, now.total, now.rate) == ({"at": 2}, 2, 9, 7.5)
    assert record.id == job.record_id


@pytest.mark.parametrize(
    "expires_at", [NOW, NOW + timedelta(days=3650)], ids=["expired", "from before a set clock"]
)
async def test_invalid_lease_of_a_job_is_taken_over(
    stores: Stores, other_stores: Stores, expires_at: datetime
) -> None:
    job = await waiting_job(stores)
    dead, next_one = SqlRunningJobStore(stores.database), SqlRunningJobStore(other_stores.database)
    await dead.acquire(REPLAY, LATER)
    await dead.save(job.id, step(1, record=job.record_id), 1.0, LATER)
    then = expires_at.isoformat()
    run_sql(stores.location, "UPDATE pipeline_jobs SET expires_at = :then", then=then)
    waiting = await next_one.list_waiting(REPLAY, LATER)
    assert (waiting.projects, waiting.needs_recovery) == ([], True)
    await next_one.recover(LATER)
    # The service answers others first.
    assert await next_one.acquire(REPLAY, LATER) is None
    taken = await next_one.acquire(REPLAY, LATER + FIRST_DELAY)
    assert taken is not None
    assert (taken.id, taken.cursor, taken.done) == (job.id, {"at": 1}, 1)
    assert not await dead.save(job.id, step(2, record=job.record_id), 1.0, LATER)
    assert await dead.list_held(REPLAY) == set()
    assert await next_one.list_held(REPLAY) == {job.id}


@pytest.mark.parametrize("switch", [PAUSE, CANCEL], ids=["pause", "cancel"])
async def test_paused_or_cancelled_job_is_not_acquired(
    stores: Stores, switch: JobTransition
) -> None:
    job = await waiting_job(stores)
    running = SqlRunningJobStore(stores.database)
    await running.acquire(REPLAY, LATER)
    assert (await switch_status(stores, job, switch)).status is switch.after
    assert not await running.save(job.id, step(1, record=job.record_id), 1.0, LATER)
    await running.release({job.id: 0.0}, LATER)
    assert await running.acquire(REPLAY, LATER) is None
    assert await queued(stores) == 0


async def test_paused_or_failed_job_resumes_at_its_cursor(stores: Stores) -> None:
    job = await waiting_job(stores)
    running = SqlRunningJobStore(stores.database)
    for stop in ("pause", "fail"):
        taken = await running.acquire(REPLAY, LATER)
        assert taken is not None
        await running.save(job.id, step(1, 2, record=job.record_id), 1.0, LATER)
        if stop == "pause":
            await switch_status(stores, job, PAUSE)
        else:
            failed = JobEnd(status=JobStatus.FAILED, error="why", logs=(), entry=None)
            await running.finish(job.id, failed, LATER)
            now = await stores.jobs.job(job.record_id, job.id)
            assert now is not None
            assert (now.status, now.error, now.ended_at) == (JobStatus.FAILED, "why", LATER)
        resumed = await switch_status(stores, job, RESUME)
        assert (resumed.status, resumed.error, resumed.done) == (JobStatus.WAITING, "", 2)
        assert (resumed.cursor, resumed.ended_at) == ({"at": 2}, None)


async def test_replay_waits_until_its_record_is_enabled(stores: Stores) -> None:
    job = await waiting_job(stores, enabled=False)
    running = SqlRunningJobStore(stores.database)
    assert await running.has_open()
    assert await running.acquire(REPLAY, LATER) is None
    record = (await running.current(job.id))[1]
    await edit_record(stores, record, enabled=True)
    assert await running.acquire(REPLAY, LATER) is not None
    await edit_record(stores, record, enabled=False)
    assert await running.list_held(REPLAY) == set()


async def test_jobs_of_a_deleted_record_are_cancelled(stores: Stores) -> None:
    job = await waiting_job(stores)
    running = SqlRunningJobStore(stores.database)
    record: Record = (await running.current(job.id))[1]
    await edit_record(stores, record, deleted=True)
    assert (await running.list_waiting(REPLAY, LATER)).needs_recovery
    await running.recover(LATER)
    now = (await running.current(job.id))[0]
    assert (now.status, now.error) == (JobStatus.CANCELLED, "The record was deleted.")
    assert not await running.has_open()


async def test_one_job_per_record_and_type_runs_at_a_time(stores: Stores) -> None:
    job = await waiting_job(stores)
    record = await SqlRunningJobStore(stores.database).current(job.id)
    await add_jobs(stores, build_job(record[1], "j2", 1))
    await waiting_job(stores, "of another record", 2)
    running = SqlRunningJobStore(stores.database)
    taken = [await running.acquire(REPLAY, LATER + timedelta(minutes=n)) for n in range(3)]
    assert [each and each.id for each in taken] == ["j1", "of another record", None]


class Processes:
    """Processes that take over jobs of each other after they have died."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.alive = SqlRunningJobStore(stores.database)

    async def crash(self, now: datetime) -> None:
        """Let the lease of the dead process expire."""
        self.alive = SqlRunningJobStore(self._stores.database)
        run_sql(self._stores.location, "UPDATE pipeline_jobs SET expires_at = NULL")
        if self._stores.database.engine_name == "postgresql":
            old = (NOW - timedelta(days=1)).isoformat()
            run_sql(self._stores.location, "UPDATE pipeline_jobs SET expires_at = :old", old=old)
        await self.alive.recover(now)


async def test_deaths_of_processes_are_counted_until_a_step(stores: Stores) -> None:
    job = await waiting_job(stores)
    processes = Processes(stores)
    now = LATER
    for crashes in range(MAX_CRASHES + 1):
        taken = await processes.alive.acquire(REPLAY, now)
        assert taken is not None
        assert taken.crashes == crashes
        if crashes < MAX_CRASHES:
            await processes.crash(now)
            delay = (FIRST_DELAY, SECOND_DELAY, timedelta())[crashes]
            if delay:
                early = now + delay - timedelta(seconds=1)
                assert await processes.alive.acquire(REPLAY, early) is None
            now += delay
    await processes.alive.save(job.id, step(1, record=job.record_id), 1.0, now)
    assert (await processes.alive.current(job.id))[0].crashes == 0
    await processes.crash(now)
    # A user who resumes it gives it another chance.
    run_sql(stores.location, "UPDATE pipeline_jobs SET status = 'failed'")
    resumed = await switch_status(stores, job, RESUME)
    assert resumed.crashes == 0
    assert await processes.alive.acquire(REPLAY, now) is not None


async def test_released_job_continues_at_once_and_has_not_crashed(stores: Stores) -> None:
    job = await waiting_job(stores)
    processes = Processes(stores)
    await processes.alive.acquire(REPLAY, LATER)
    await processes.crash(LATER)
    await processes.alive.acquire(REPLAY, LATER + FIRST_DELAY)
    await processes.alive.release({job.id: 12.5}, LATER)
    taken = await processes.alive.acquire(REPLAY, LATER)
    assert taken is not None
    assert (taken.crashes, taken.stalled_s) == (0, 12.5)
    await processes.alive.save(job.id, step(1, record=job.record_id), 1.0, LATER)
    assert (await processes.alive.current(job.id))[0].stalled_s == 0


async def test_postponed_job_waits_and_shows_why(stores: Stores) -> None:
    job = await waiting_job(stores)
    running = SqlRunningJobStore(stores.database)
    await running.acquire(REPLAY, LATER)
    await running.postpone(job.id, "The disk is full.", 30, LATER)
    now = (await running.current(job.id))[0]
    assert (now.status, now.error) == (JobStatus.WAITING, "The disk is full.")
    assert (await running.list_waiting(REPLAY, LATER)).projects == []
    assert await running.acquire(REPLAY, LATER + timedelta(seconds=29)) is None
    # Unless the clock has been set back by more than any wait.
    assert await running.acquire(REPLAY, LATER - timedelta(days=1)) is not None
    await running.postpone(job.id, "The disk is full.", 30, LATER)
    taken = await running.acquire(REPLAY, LATER + timedelta(seconds=30))
    assert taken is not None
    assert taken.error == ""


async def test_projects_with_waiting_jobs_are_listed_oldest_first(stores: Stores) -> None:
    other = (await stores.new_project()).id
    await waiting_job(stores, "of the first", minute=5)
    record = await stores.new_record(enabled=True, project_id=other)
    await add_jobs(stores, build_job(record, "of the other", 1), project=other)
    running = SqlRunningJobStore(stores.database)
    listed = await running.list_waiting(REPLAY, LATER)
    assert (listed.projects, listed.needs_recovery) == ([other, DEFAULT_PROJECT], False)
    taken = await running.acquire(REPLAY, LATER, DEFAULT_PROJECT)
    assert taken is not None
    assert taken.id == "of the first"
    assert (await running.list_waiting(REPLAY, LATER)).projects == [other]
    assert await running.acquire(REPLAY, LATER, DEFAULT_PROJECT) is None


async def test_replayed_deliveries_are_no_longer_dead(stores: Stores) -> None:
    job = await waiting_job(stores)
    running = SqlRunningJobStore(stores.database)
    await running.acquire(REPLAY, LATER)
    await running.save(job.id, step(1, 2, record=job.record_id), 1.0, LATER)
    store = SqlDeliveryStore(stores.database)
    await store.expire_old(PERIODS, LATER + timedelta(days=8))
    await running.save(job.id, step(2, record=job.record_id), 1.0, LATER)
    rows = run_sql(stores.location, "SELECT uuid, status FROM deliveries")
    assert [tuple(row) for row in rows] == [(event(1).uuid, "dead")]
    (waiting,) = await store.due(job.record_id, 10, 0)
    assert waiting.event == event(2)


async def test_a_replay_reads_again_what_it_read_before_a_deletion(stores: Stores) -> None:
    job = await waiting_job(stores)
    running = SqlRunningJobStore(stores.database)
    await running.acquire(REPLAY, LATER)
    assert await running.save(job.id, step(1, record=job.record_id), 1.0, LATER)
    await SqlDeliveryStore(stores.database).delete_copies(DEFAULT_PROJECT, [], ["someone"])
    assert not await running.save(job.id, step(2, record=job.record_id), 1.0, LATER)
    assert await running.list_held(REPLAY) == set()
    taken = await running.acquire(REPLAY, LATER)
    assert taken is not None
    assert (taken.id, taken.cursor, taken.done) == (job.id, {"at": 1}, 1)
    assert await queued(stores) == 1


async def test_only_the_newest_finished_jobs_are_kept(stores: Stores) -> None:
    job = await waiting_job(stores)
    _, record = await SqlRunningJobStore(stores.database).current(job.id)
    await add_jobs(
        stores, *(build_job(record, f"old {n:03}", -n - 1) for n in range(MAX_FINISHED_JOBS + 5))
    )
    run_sql(stores.location, "UPDATE pipeline_jobs SET status = 'done' WHERE id LIKE 'old%'")
    running = SqlRunningJobStore(stores.database)
    await running.acquire(REPLAY, LATER)
    await running.finish(
        job.id, JobEnd(status=JobStatus.DONE, error="", logs=(), entry=None), LATER
    )
    assert (
        await stores.fetch_scalar(select(func.count()).select_from(pipeline_jobs))
        == MAX_FINISHED_JOBS
    )
    assert await stores.jobs.job(job.record_id, job.id) is not None


async def test_delivered_events_are_found_by_uuid(stores: Stores) -> None:
    record = await stores.new_record(enabled=True)
    records, queues = SqlDeliveryStore(stores.database), SqlReplayQueue(stores.database)
    await records.save_report(report(record.id, delivered_events=[event(1), event(3)]), NOW)
    events = [event(number) for number in range(5)]
    assert await queues.delivered(record.id, events) == {event(1).uuid, event(3).uuid}
    other = await stores.new_record(enabled=True)
    assert await queues.delivered(other.id, events) == set()
    later = NOW + timedelta(days=50)
    for _ in range(BATCH_SIZE):
        await records.save_report(report(record.id, delivered_events=[event(1)]), NOW)
    await records.save_report(report(record.id, delivered_events=[event(2)]), later)
    await records.expire_old(PERIODS, NOW + timedelta(days=91))
    assert await queues.delivered(record.id, events) == {event(2).uuid}


async def test_queue_length_and_queued_uuids_are_bounded(stores: Stores) -> None:
    job = await waiting_job(stores)
    running, queues = SqlRunningJobStore(stores.database), SqlReplayQueue(stores.database)
    await running.acquire(REPLAY, LATER)
    assert await queues.newest() == 0
    await running.save(job.id, step(1, 2, 3, record=job.record_id), 1.0, LATER)
    newest = await queues.newest()
    await running.save(job.id, step(4, record=job.record_id), 1.0, LATER)
    assert await queues.length(job.record_id, 3) == 3
    assert await queues.length(job.record_id, 100) == 4
    found = await queues.queued(job.record_id, newest)
    assert sorted(found) == [event(number).uuid for number in (1, 2, 3)]
