"""The loop that runs jobs, on a real database: whatever a job does, it ends that job alone."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.lib.clock import utc_now
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.pipelines import job_runner
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.job_runner import JobRunner
from hedgerow.pipelines.model import ComponentId, Family, Job, JobId, JobProblem, JobStatus
from hedgerow.pipelines.records import Records
from hedgerow.pipelines.running import Held, Step
from hedgerow.pipelines.sending import CannotSend
from hedgerow.storage.running_jobs import RunningJobRecords
from tests.contract.stores.conftest import Stores
from tests.contract.stores.test_jobs import a_job, stored

ODD = ComponentId(1000)


def runner_on(stores: Stores, work: Callable[[Held], Awaitable[None]]) -> JobRunner:
    catalogue = Catalogue()
    component = Component(
        key="test/odd", family=Family.DESTINATION, name="Odd", description="", version="1"
    )
    catalogue.add({component.key: ODD}, [component], [])
    records = Records(stores.pipelines, catalogue, SealingKeys([new_sealing_key()]))
    return JobRunner(
        RunningJobRecords(stores.database), records, {"replay": work}, utc_now, lambda *_: None
    )


async def made(stores: Stores, *ids: str) -> list[Job]:
    jobs = [
        a_job(await stores.new_record(enabled=True, component_id=ODD), id, minute)
        for minute, id in enumerate(ids)
    ]
    await stored(stores, *jobs)
    return jobs


async def until_over(stores: Stores, jobs: list[Job], *runners: JobRunner) -> dict[str, Job]:
    running = [asyncio.create_task(runner.run()) for runner in runners]
    found: dict[str, Job] = {}
    async with asyncio.timeout(60):
        while len(found) < len(jobs):
            for job in jobs:
                now = await stores.jobs.job(job.record_id, job.id)
                assert now is not None
                if now.status.is_over:
                    found[job.id] = now
            await asyncio.sleep(0.05)
    for task in running:
        assert not task.done()
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return found


async def test_a_job_that_breaks_breaks_no_other(stores: Stores) -> None:
    async def work(held: Held) -> None:
        match held.job.id:
            case "exits":
                sys.exit(3)
            case "raises":
                raise KeyError("x")
            case "is cancelled":
                raise asyncio.CancelledError
            case "says why":
                raise JobProblem("The source is empty.")
            case "has no answer":
                raise CannotSend("Nobody listens.")
        await held.save(Step(cursor={"n": 1}, done=5, total=5, details={"a": 1}))

    jobs = await made(
        stores, "exits", "raises", "is cancelled", "says why", "has no answer", "works"
    )
    found = await until_over(stores, jobs, runner_on(stores, work))
    assert {id: job.error for id, job in found.items()} == {
        "exits": "The component failed: SystemExit",
        "raises": "The component failed: KeyError",
        "is cancelled": "The component failed: CancelledError",
        "says why": "The source is empty.",
        "has no answer": "Nobody listens.",
        "works": "",
    }
    good = found["works"]
    assert (good.status, good.done, good.details) == (JobStatus.DONE, 5, {"a": 1})
    assert good.started_at is not None
    entries = await stores.entries(scope="PluginConfig")
    ends = [each.entry.activity for each in entries if each.entry.activity.startswith("job_")]
    assert ends.count("job_failed") == 5
    assert ends.count("job_done") == 1


async def test_a_job_goes_on_when_what_it_needs_is_back(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "RETRY_S", 0.01)
    cursors: list[Any] = []

    async def work(held: Held) -> None:
        cursors.append(held.job.cursor)
        await held.save(Step(cursor=len(cursors), done=len(cursors)))
        if len(cursors) < 3:
            raise Unavailable("The database is away.")

    jobs = await made(stores, "j")
    found = await until_over(stores, jobs, runner_on(stores, work))
    assert (found["j"].status, cursors) == (JobStatus.DONE, [None, 1, 2])


async def test_who_stops_leaves_its_jobs_to_others(stores: Stores, other_stores: Stores) -> None:
    began: list[JobId] = []

    async def work(held: Held) -> None:
        began.append(held.job.id)
        if held.job.cursor is None:
            await held.save(Step(cursor=1, done=1))
            await asyncio.sleep(60)

    jobs = await made(stores, "j")
    first = asyncio.create_task(runner_on(stores, work).run())
    async with asyncio.timeout(30):
        while (await RunningJobRecords(stores.database).current(jobs[0].id))[0].done < 1:
            await asyncio.sleep(0.02)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    found = await until_over(other_stores, jobs, runner_on(other_stores, work))
    assert (found["j"].status, began) == (JobStatus.DONE, ["j", "j"])


async def test_many_jobs_take_turns(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "AT_ONCE", 1)
    monkeypatch.setattr(job_runner, "SLICE_S", 0.1)
    monkeypatch.setattr(job_runner, "LOOK_S", 0.02)
    is_done = asyncio.Event()

    async def work(held: Held) -> None:
        if held.job.id == "long":
            await is_done.wait()
        is_done.set()

    jobs = await made(stores, "long", "short")
    found = await until_over(stores, jobs, runner_on(stores, work))
    ends = {id: job.ended_at for id, job in found.items()}
    assert ends["short"] is not None
    assert ends["long"] is not None
    assert ends["short"] <= ends["long"]
