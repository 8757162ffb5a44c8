"""The job runner on a real database: a failing job affects no other."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hedgerow.errors import Invalid, Unavailable
from hedgerow.lib.clock import utc_now
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import MASK
from hedgerow.pipelines.jobs import runner as job_runner
from hedgerow.pipelines.jobs.runner import JobRunner
from hedgerow.pipelines.jobs.running import JobContext, JobStep
from hedgerow.pipelines.model import ComponentId, Job, JobId, JobStatus
from hedgerow.pipelines.records.records import Records
from hedgerow.plugin.component import Component, Family, SettingField
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import JobError, JobPostponed
from hedgerow.projects.model import ProjectId
from hedgerow.storage.pipelines.running_jobs import SqlRunningJobStore
from tests.contract.storage.conftest import DEFAULT_PROJECT, Stores, run_sql
from tests.contract.storage.pipelines.test_jobs import add_jobs as store_jobs
from tests.contract.storage.pipelines.test_jobs import build_job

ODD = ComponentId(1000)


def build_runner(
    stores: Stores,
    work: Callable[[JobContext], Awaitable[None]],
    on_error: Callable[[JobId, BaseException], None] = lambda *_: None,
) -> JobRunner:
    catalogue = Catalogue()
    component = Component(
        key="test/odd",
        family=Family.DESTINATION,
        name="Odd",
        description="",
        version="1",
        settings=(SettingField(key="password", name="Password", secret=True),),
    )
    catalogue.add({component.key: ODD}, [component], [])
    records = Records(stores.pipelines, catalogue, EncryptionKeys([generate_encryption_key()]))
    return JobRunner(
        SqlRunningJobStore(stores.database),
        records,
        {"replay": work, "import": work},
        utc_now,
        on_error,
    )


async def add_jobs(stores: Stores, *ids: str, project: ProjectId = DEFAULT_PROJECT) -> list[Job]:
    jobs = [
        build_job(
            await stores.new_record(enabled=True, component_id=ODD, project_id=project), id, minute
        )
        for minute, id in enumerate(ids)
    ]
    await store_jobs(stores, *jobs, project=project)
    return jobs


async def load(stores: Stores, job: Job) -> Job:
    return (await SqlRunningJobStore(stores.database).current(job.id))[0]


async def run_until_finished(
    stores: Stores, jobs: list[Job], *runners: JobRunner
) -> dict[str, Job]:
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


async def test_failing_job_does_not_affect_others(stores: Stores) -> None:
    async def work(held: JobContext) -> None:
        match held.job.id:
            case "exits":
                sys.exit(3)
            case "raises":
                raise KeyError("x")
            case "is cancelled":
                raise asyncio.CancelledError
            case "fails":
                raise JobError("The source is empty.")
            case "times out":
                raise TransportError("No connection.")
        await held.save(JobStep(cursor={"n": 1}, done=5, total=5, details={"a": 1}))

    jobs = await add_jobs(stores, "exits", "raises", "is cancelled", "fails", "times out", "works")
    found = await run_until_finished(stores, jobs, build_runner(stores, work))
    assert {id: job.error for id, job in found.items()} == {
        "exits": "The component failed: SystemExit",
        "raises": "The component failed: KeyError",
        "is cancelled": "The component failed: CancelledError",
        "fails": "The source is empty.",
        "times out": "No connection.",
        "works": "",
    }
    good = found["works"]
    assert (good.status, good.done, good.details) == (JobStatus.DONE, 5, {"a": 1})
    assert good.started_at is not None
    entries = await stores.list_entries(scope="PluginConfig")
    ends = [each.entry.activity for each in entries if each.entry.activity.startswith("job_")]
    assert ends.count("job_failed") == 5
    assert ends.count("job_done") == 1


async def test_reasons_of_failures_hide_the_secrets_of_the_record(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a-password-that-nobody-may-see"
    monkeypatch.setattr(Records, "usable_settings", lambda *_: {"password": secret})

    async def work(held: JobContext) -> None:
        raise {
            "fails": JobError(f"Refused {secret}."),
            "times out": TransportError("." * 490 + secret),
            "is invalid": Invalid(f"{secret} is wrong.", attr="config__password"),
            "raises": KeyError(secret),
        }[held.job.id]

    logged: list[BaseException] = []
    jobs = await add_jobs(stores, "fails", "times out", "is invalid", "raises")
    runner = build_runner(stores, work, lambda _, error: logged.append(error))
    found = await run_until_finished(stores, jobs, runner)
    assert found["fails"].error == f"Refused {MASK}."
    assert found["is invalid"].error == f"password: {MASK} is wrong."
    assert found["raises"].error == "The component failed: KeyError"
    entries = await stores.list_entries(scope="PluginConfig")
    shown = str([[job.error for job in found.values()], entries, logged])
    assert "a-pass" not in shown


async def test_job_continues_when_its_dependency_is_available_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "INITIAL_RETRY_S", 0.01)
    cursors: list[Any] = []

    async def work(held: JobContext) -> None:
        cursors.append(held.job.cursor)
        await held.save(JobStep(cursor=len(cursors), done=len(cursors)))
        if len(cursors) < 3:
            raise Unavailable("The database is away.")

    jobs = await add_jobs(stores, "j")
    found = await run_until_finished(stores, jobs, build_runner(stores, work))
    assert (found["j"].status, cursors) == (JobStatus.DONE, [None, 1, 2])


async def test_stopping_worker_releases_its_jobs(stores: Stores, other_stores: Stores) -> None:
    began: list[JobId] = []

    async def work(held: JobContext) -> None:
        began.append(held.job.id)
        if held.job.cursor is None:
            await held.save(JobStep(cursor=1, done=1))
            await asyncio.sleep(60)

    jobs = await add_jobs(stores, "j")
    first = asyncio.create_task(build_runner(stores, work).run())
    async with asyncio.timeout(30):
        while (await SqlRunningJobStore(stores.database).current(jobs[0].id))[0].done < 1:
            await asyncio.sleep(0.02)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    found = await run_until_finished(other_stores, jobs, build_runner(other_stores, work))
    assert (found["j"].status, began) == (JobStatus.DONE, ["j", "j"])


async def test_many_jobs_take_turns(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "MAX_CONCURRENT_JOBS", 1)
    monkeypatch.setattr(job_runner, "TIME_SLICE_S", 0.1)
    monkeypatch.setattr(job_runner, "POLL_INTERVAL_S", 0.02)
    started: list[str] = []
    all_started = asyncio.Event()

    async def work(context: JobContext) -> None:
        """Each job waits until the other one has started, so the first must give way."""
        started.append(context.job.id)
        if {"one", "other"} <= set(started):
            all_started.set()
        await all_started.wait()

    jobs = await add_jobs(stores, "one", "other")
    found = await run_until_finished(stores, jobs, build_runner(stores, work))
    assert {job.status for job in found.values()} == {JobStatus.DONE}
    assert len(started) > len(jobs)


async def test_projects_take_turns_for_places(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project leaves half of the places free, and a crowded-out one gets a place at once."""
    monkeypatch.setattr(job_runner, "MAX_CONCURRENT_JOBS", 4)
    monkeypatch.setattr(job_runner, "CROWDING_SLICE_S", 0.0)
    monkeypatch.setattr(job_runner, "POLL_INTERVAL_S", 0.02)
    running: set[str] = set()
    most: dict[str, int] = {}
    is_over = asyncio.Event()

    async def work(context: JobContext) -> None:
        """Jobs of the first three projects end when the job of the last one has."""
        name = context.job.id
        running.add(name)
        try:
            kind = name[0]
            most[kind] = max(most.get(kind, 0), sum(each[0] == kind for each in running))
            if kind == "d":
                is_over.set()
            await is_over.wait()
        finally:
            running.discard(name)

    jobs = await add_jobs(stores, *(f"a{n}" for n in range(6)))
    for kind in "bc":
        project = (await stores.new_project(kind)).id
        jobs += await add_jobs(stores, *(f"{kind}{n}" for n in range(6)), project=project)
    runner = asyncio.create_task(build_runner(stores, work).run())
    async with asyncio.timeout(30):
        while not {"a", "b", "c"} <= most.keys():
            await asyncio.sleep(0.02)
    jobs += await add_jobs(stores, "d0", project=(await stores.new_project("d")).id)
    async with asyncio.timeout(30):
        await is_over.wait()
    runner.cancel()
    await asyncio.gather(runner, return_exceptions=True)
    assert most["a"] <= 2
    found = await run_until_finished(stores, jobs, build_runner(stores, work))
    assert {job.status for job in found.values()} == {JobStatus.DONE}


async def test_job_that_ended_its_process_three_times_is_stopped(stores: Stores) -> None:
    started: list[str] = []

    async def work(context: JobContext) -> None:
        started.append(context.job.id)

    jobs = await add_jobs(stores, "kills", "lives")
    run_sql(stores.location, "UPDATE pipeline_jobs SET crashes = 3 WHERE id = 'kills'")
    run_sql(stores.location, "UPDATE pipeline_jobs SET crashes = 2 WHERE id = 'lives'")
    found = await run_until_finished(stores, jobs, build_runner(stores, work))
    assert (found["kills"].status, started) == (JobStatus.FAILED, ["lives"])
    assert "ended 3 times" in found["kills"].error
    assert found["lives"].status is JobStatus.DONE


async def test_import_without_progress_is_stopped(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "POLL_INTERVAL_S", 0.02)
    monkeypatch.setattr(job_runner, "MAX_STALL_S", 3600.0)

    async def work(context: JobContext) -> None:
        if context.job.id == "saves":
            await context.save(JobStep(cursor=1, done=1))
            return
        await asyncio.Event().wait()

    jobs = await add_jobs(stores, "hangs", "saves")
    run_sql(stores.location, "UPDATE pipeline_jobs SET type = 'import', stalled_s = 4000")
    runner = build_runner(stores, work)
    found = await run_until_finished(stores, jobs, runner)
    assert found["hangs"].status is JobStatus.FAILED
    assert "no progress for 1 h" in found["hangs"].error


async def test_postponed_job_shows_why_it_waits_and_continues(stores: Stores) -> None:
    starts: list[JobId] = []

    async def work(context: JobContext) -> None:
        starts.append(context.job.id)
        if len(starts) == 1:
            raise JobPostponed("The disk is nearly full.", 0.2)

    jobs = await add_jobs(stores, "j")
    runner = asyncio.create_task(build_runner(stores, work).run())
    errors: set[str] = set()
    async with asyncio.timeout(30):
        while not (now := await load(stores, jobs[0])).status.is_over:
            errors.add(now.error)
            await asyncio.sleep(0.01)
    runner.cancel()
    await asyncio.gather(runner, return_exceptions=True)
    assert "The disk is nearly full." in errors
    assert (now.status, now.error, len(starts)) == (JobStatus.DONE, "", 2)
