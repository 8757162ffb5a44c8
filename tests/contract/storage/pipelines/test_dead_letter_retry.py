"""The job that retries dead letters: those of its start, each once, also after a restart."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Executable, update

from hedgerow.pipelines.builtin.destinations.webhook import COMPONENT
from hedgerow.pipelines.deliveries.model import DeliveryStatus
from hedgerow.pipelines.deliveries.retry import DeadDelivery
from hedgerow.pipelines.jobs import dead_letter_retry
from hedgerow.pipelines.jobs.dead_letter_retry import DeadLetterRetry
from hedgerow.pipelines.jobs.running import JobContext, JobStep
from hedgerow.pipelines.model import Job, Record, RecordId
from hedgerow.pipelines.store import DeliveryQuery
from hedgerow.storage.deliveries.history import SqlDeliveryHistory
from hedgerow.storage.pipelines.dead_letters import SqlDeadLetterQueue
from hedgerow.storage.tables import deliveries, destination_states
from tests.contract.storage.conftest import NOW, Stores
from tests.contract.storage.deliveries.test_queue import NOW_MS, event, queue, report
from tests.contract.storage.pipelines.test_jobs import build_job


async def execute(stores: Stores, statement: Executable) -> None:
    await stores.database.write(lambda connection: connection.execute(statement).close())


async def build_dead_letters(stores: Stores, errors: Sequence[str]) -> Record:
    """Return a paused destination with a dead letter for each error."""
    records, id = await queue(stores, *(event(number) for number in range(len(errors))))
    record = await stores.new_record()
    due = await records.due(id, len(errors), NOW_MS)
    dead = {
        each.id: DeadDelivery(since_ms=NOW_MS, attempts=25, reason=error)
        for each, error in zip(due, errors, strict=True)
    }
    await records.save_report(report(id, dead=dead), NOW)
    return replace(record, id=id)


async def run_job(stores: Stores, record: Record, job: Job, steps: list[JobStep]) -> None:
    async def save(step: JobStep, rate: float) -> bool:
        steps.append(step)
        return True

    woken: list[RecordId] = []
    context = JobContext(job, record, COMPONENT, {"headers": {}, "secret": ""}, save)
    await DeadLetterRetry(SqlDeadLetterQueue(stores.database), woken.extend, lambda: NOW).run(
        context
    )


async def count(stores: Stores, record: Record, *statuses: DeliveryStatus, error: str = "") -> int:
    query = DeliveryQuery(record_id=record.id, statuses=statuses, error=error)
    _, number = await SqlDeliveryHistory(stores.database).deliveries(query, limit=1, offset=0)
    return number


async def test_dead_letters_with_one_reason_are_retried_in_steps(
    stores: Stores, monkeypatch: Any
) -> None:
    monkeypatch.setattr(dead_letter_retry, "STEP_SIZE", 2)
    record = await build_dead_letters(stores, ["refused", "lost", "refused", "refused"])
    trail = SqlDeliveryHistory(stores.database)
    reasons = await trail.reasons(DeliveryQuery(record_id=record.id), 9)
    assert [(each.error, each.count) for each in reasons] == [("refused", 3), ("lost", 1)]
    steps: list[JobStep] = []
    await run_job(stores, record, build_job(record, "j1", error="refused"), steps)
    assert [(step.done, step.total) for step in steps] == [(0, 3), (2, 3), (3, 3), (3, 3)]
    assert await count(stores, record, DeliveryStatus.RETRYING) == 3
    assert await count(stores, record, DeliveryStatus.DEAD) == 1


async def test_job_that_continues_retries_none_twice(stores: Stores, monkeypatch: Any) -> None:
    monkeypatch.setattr(dead_letter_retry, "STEP_SIZE", 1)
    record = await build_dead_letters(stores, ["a", "b"])
    steps: list[JobStep] = []
    job = build_job(record, "j1")
    await run_job(stores, record, job, steps)
    # The first one fails again, and the job continues after its first step.
    again = update(deliveries).where(deliveries.c.uuid == event(0).uuid).values(status="dead")
    await execute(stores, again)
    first = steps[1]
    await run_job(
        stores, record, replace(job, cursor=first.cursor, done=first.done, total=first.total), steps
    )
    assert steps[-1].done == 1
    assert await count(stores, record, DeliveryStatus.DEAD) == 1


async def test_retry_ends_a_pause(stores: Stores) -> None:
    record = await build_dead_letters(stores, ["a"])
    paused = destination_states.update().values(error="Paused", failures=9, paused_until_ms=2**50)
    await execute(stores, paused)
    await run_job(stores, record, build_job(record, "j1"), [])
    found = await stores.database.read(
        lambda connection: connection.execute(
            destination_states.select().where(destination_states.c.record_id == record.id)
        ).one()
    )
    assert (found.failures, found.paused_until_ms) == (9, 0)
