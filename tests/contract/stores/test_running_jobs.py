"""Jobs that run, on a real database: one process has one, and each step is stored whole."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from hedgerow.pipelines.deliveries import NewDelivery
from hedgerow.pipelines.jobs import CANCEL, PAUSE, RESUME
from hedgerow.pipelines.model import Job, JobStatus, Record
from hedgerow.pipelines.running import Ending, Step
from hedgerow.pipelines.store import JobSwitch
from hedgerow.storage.deliveries import DeliveryRecords
from hedgerow.storage.delivery_ages import AT_ONCE
from hedgerow.storage.replay import ReplayQueues
from hedgerow.storage.running_jobs import KEPT, RunningJobRecords
from hedgerow.storage.tables import deliveries, pipeline_jobs
from tests.contract.stores.conftest import LATER, NOW, Stores, edited, run_sql
from tests.contract.stores.test_deliveries import AGES, event, report
from tests.contract.stores.test_jobs import TOLD, a_job, stored

REPLAY = ("replay",)


async def waiting_job(stores: Stores, id: str = "j1", minute: int = 0, **record: Any) -> Job:
    job = a_job(await stores.new_record(**{"enabled": True, **record}), id, minute)
    await stored(stores, job)
    return job


def step(*numbers: int, record: int = 0, **fields: Any) -> Step:
    made = [NewDelivery(record_id=record, event=event(number)) for number in numbers]  # type: ignore[arg-type]
    given: dict[str, Any] = {"cursor": {"at": len(numbers)}, "done": len(numbers)}
    return Step(**{**given, "deliveries": made, **fields})


async def switched(stores: Stores, job: Job, switch: JobSwitch) -> Job:
    answer = await stores.jobs.switch_job(job.record_id, job.id, switch, TOLD, LATER)
    assert answer is not None
    return answer


async def queued(stores: Stores) -> int:
    return int(await stores.scalar(select(func.count()).select_from(deliveries)))


async def test_a_job_is_taken_by_one_and_saved_by_nobody_else(
    stores: Stores, other_stores: Stores
) -> None:
    job = await waiting_job(stores)
    ours, theirs = RunningJobRecords(stores.database), RunningJobRecords(other_stores.database)
    taken = await ours.take(REPLAY, LATER)
    assert taken is not None
    assert (taken.id, taken.status, taken.started_at) == (job.id, JobStatus.RUNNING, LATER)
    if stores.database.engine_name == "postgresql":  # SQLite has one process
        assert await theirs.take(REPLAY, LATER) is None
    assert not await theirs.save(job.id, step(1, record=job.record_id), 1.0, LATER)
    assert await queued(stores) == 0
    assert await ours.save(job.id, step(1, 2, record=job.record_id, total=9), 7.5, LATER)
    assert await queued(stores) == 2
    now, record = await ours.current(job.id)
    assert (now.cursor, now.done, now.total, now.rate) == ({"at": 2}, 2, 9, 7.5)
    assert record.id == job.record_id


async def test_who_died_over_a_job_loses_it(stores: Stores, other_stores: Stores) -> None:
    job = await waiting_job(stores)
    dead, next_one = RunningJobRecords(stores.database), RunningJobRecords(other_stores.database)
    await dead.take(REPLAY, LATER)
    await dead.save(job.id, step(1, record=job.record_id), 1.0, LATER)
    run_sql(stores.place, "UPDATE pipeline_jobs SET expires_at = :then", then=NOW.isoformat())
    taken = await next_one.take(REPLAY, LATER)
    assert taken is not None
    assert (taken.id, taken.cursor, taken.done) == (job.id, {"at": 1}, 1)
    assert not await dead.save(job.id, step(2, record=job.record_id), 1.0, LATER)
    assert await dead.ours(REPLAY) == set()
    assert await next_one.ours(REPLAY) == {job.id}


@pytest.mark.parametrize("switch", [PAUSE, CANCEL], ids=["pause", "cancel"])
async def test_a_job_that_somebody_stops_is_nobodys(stores: Stores, switch: JobSwitch) -> None:
    job = await waiting_job(stores)
    running = RunningJobRecords(stores.database)
    await running.take(REPLAY, LATER)
    assert (await switched(stores, job, switch)).status is switch.after
    assert not await running.save(job.id, step(1, record=job.record_id), 1.0, LATER)
    await running.give_back([job.id], LATER)
    assert await running.take(REPLAY, LATER) is None
    assert await queued(stores) == 0


async def test_a_paused_or_failed_job_goes_on_where_it_was(stores: Stores) -> None:
    job = await waiting_job(stores)
    running = RunningJobRecords(stores.database)
    for stop in ("pause", "fail"):
        taken = await running.take(REPLAY, LATER)
        assert taken is not None
        await running.save(job.id, step(1, 2, record=job.record_id), 1.0, LATER)
        if stop == "pause":
            await switched(stores, job, PAUSE)
        else:
            failed = Ending(status=JobStatus.FAILED, error="why", logs=(), entry=None)
            await running.end(job.id, failed, LATER)
            now = await stores.jobs.job(job.record_id, job.id)
            assert now is not None
            assert (now.status, now.error, now.ended_at) == (JobStatus.FAILED, "why", LATER)
        resumed = await switched(stores, job, RESUME)
        assert (resumed.status, resumed.error, resumed.done) == (JobStatus.WAITING, "", 2)
        assert (resumed.cursor, resumed.ended_at) == ({"at": 2}, None)


async def test_a_replay_waits_until_its_record_is_enabled(stores: Stores) -> None:
    job = await waiting_job(stores, enabled=False)
    running = RunningJobRecords(stores.database)
    assert await running.has_open()
    assert await running.take(REPLAY, LATER) is None
    record = (await running.current(job.id))[1]
    await edited(stores, record, enabled=True)
    assert await running.take(REPLAY, LATER) is not None
    await edited(stores, record, enabled=False)
    assert await running.ours(REPLAY) == set()


async def test_jobs_of_a_deleted_record_are_cancelled(stores: Stores) -> None:
    job = await waiting_job(stores)
    running = RunningJobRecords(stores.database)
    record: Record = (await running.current(job.id))[1]
    await edited(stores, record, deleted=True)
    assert await running.take(REPLAY, LATER) is None
    now = (await running.current(job.id))[0]
    assert (now.status, now.error) == (JobStatus.CANCELLED, "The record was deleted.")
    assert not await running.has_open()


async def test_of_one_record_one_job_of_a_type_runs_at_a_time(stores: Stores) -> None:
    job = await waiting_job(stores)
    record = await RunningJobRecords(stores.database).current(job.id)
    await stored(stores, a_job(record[1], "j2", 1))
    await waiting_job(stores, "of another record", 2)
    running = RunningJobRecords(stores.database)
    taken = [await running.take(REPLAY, LATER + timedelta(minutes=n)) for n in range(3)]
    assert [each and each.id for each in taken] == ["j1", "of another record", None]


async def test_what_a_replay_sends_again_is_no_longer_dead(stores: Stores) -> None:
    job = await waiting_job(stores)
    running = RunningJobRecords(stores.database)
    await running.take(REPLAY, LATER)
    await running.save(job.id, step(1, 2, record=job.record_id), 1.0, LATER)
    run_sql(stores.place, "UPDATE deliveries SET status = 'dead'")
    await running.save(job.id, step(2, record=job.record_id), 1.0, LATER)
    rows = run_sql(stores.place, "SELECT uuid, status FROM deliveries ORDER BY status")
    assert [tuple(row) for row in rows] == [(event(1).uuid, "dead"), (event(2).uuid, "waiting")]


async def test_only_the_newest_jobs_that_are_over_are_kept(stores: Stores) -> None:
    job = await waiting_job(stores)
    _, record = await RunningJobRecords(stores.database).current(job.id)
    await stored(stores, *(a_job(record, f"old {n:03}", -n - 1) for n in range(KEPT + 5)))
    run_sql(stores.place, "UPDATE pipeline_jobs SET status = 'done' WHERE id LIKE 'old%'")
    running = RunningJobRecords(stores.database)
    await running.take(REPLAY, LATER)
    await running.end(job.id, Ending(status=JobStatus.DONE, error="", logs=(), entry=None), LATER)
    assert await stores.scalar(select(func.count()).select_from(pipeline_jobs)) == KEPT
    assert await stores.jobs.job(job.record_id, job.id) is not None


async def test_what_was_delivered_is_known_by_its_uuid(stores: Stores) -> None:
    record = await stores.new_record(enabled=True)
    records, queues = DeliveryRecords(stores.database), ReplayQueues(stores.database)
    await records.report(report(record.id, arrived=[event(1), event(3)]), NOW)
    asked = [event(number) for number in range(5)]
    assert await queues.delivered(record.id, asked) == {event(1).uuid, event(3).uuid}
    other = await stores.new_record(enabled=True)
    assert await queues.delivered(other.id, asked) == set()
    later = NOW + timedelta(days=50)
    for _ in range(AT_ONCE):
        await records.report(report(record.id, arrived=[event(1)]), NOW)
    await records.report(report(record.id, arrived=[event(2)]), later)
    await records.forget_old(AGES, NOW + timedelta(days=91))
    assert await queues.delivered(record.id, asked) == {event(2).uuid}


async def test_a_queue_is_counted_and_known_up_to_a_number(stores: Stores) -> None:
    job = await waiting_job(stores)
    running, queues = RunningJobRecords(stores.database), ReplayQueues(stores.database)
    await running.take(REPLAY, LATER)
    assert await queues.newest(job.record_id) == 0
    await running.save(job.id, step(1, 2, 3, record=job.record_id), 1.0, LATER)
    newest = await queues.newest(job.record_id)
    await running.save(job.id, step(4, record=job.record_id), 1.0, LATER)
    assert await queues.length(job.record_id, 3) == 3
    assert await queues.length(job.record_id, 100) == 4
    found = await queues.queued(job.record_id, newest)
    assert sorted(found) == [event(number).uuid for number in (1, 2, 3)]
