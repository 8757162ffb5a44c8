from datetime import datetime, timedelta
from typing import Any

import pytest

from hedgerow.errors import Invalid, NotFound
from hedgerow.pipelines.jobs.jobs import JobRequest, Jobs
from hedgerow.pipelines.model import Job, JobId, JobStatus, RecordId
from hedgerow.pipelines.store import JobTransition
from hedgerow.plugin.component import Component
from hedgerow.projects.activity import ActivityEntry, RecordedActivity
from hedgerow.projects.model import ProjectId
from hedgerow.projects.store import ActivityQuery
from tests.unit.fake_time import START
from tests.unit.pipelines.sample_components import ACTOR, BAR, HOOK, PROJECT, RECORD

LATER = START + timedelta(hours=1)


class FakeJobStore:
    """The job store and the activity log, in memory."""

    def __init__(self) -> None:
        self.stored_jobs: list[Job] = []
        self.entries: list[ActivityEntry] = []

    async def add_job(self, project_id: ProjectId, job: Job, entry: ActivityEntry) -> None:
        assert project_id == PROJECT
        self.stored_jobs.append(job)
        self.entries.append(entry)

    async def jobs(self, record_id: RecordId, *, limit: int, offset: int) -> tuple[list[Job], int]:
        mine = [job for job in self.stored_jobs if job.record_id == record_id]
        return mine[offset : offset + limit], len(mine)

    async def job(self, record_id: RecordId, id: JobId) -> Job | None:
        return next(
            (job for job in self.stored_jobs if (job.record_id, job.id) == (record_id, id)), None
        )

    async def open_jobs(self, record_id: RecordId, type: str) -> list[Job]:
        raise AssertionError("unexpected call of open_jobs")

    async def change_status(
        self,
        record_id: RecordId,
        id: JobId,
        switch: JobTransition,
        entry: ActivityEntry,
        now: datetime,
    ) -> Job | None:
        self.entries.append(entry)
        return await self.job(record_id, id)

    async def record(self, entry: ActivityEntry, now: datetime) -> None:
        self.entries.append(entry)

    async def list_activity(self, query: ActivityQuery) -> tuple[list[RecordedActivity], int]:
        raise AssertionError("unexpected call of list_activity")


@pytest.fixture
def store() -> FakeJobStore:
    return FakeJobStore()


@pytest.fixture
def jobs(store: FakeJobStore) -> Jobs:
    return Jobs(store, store)


async def start(
    jobs: Jobs, type: str | None = None, component: Component | None = HOOK, **payload: Any
) -> Job | None:
    request = None if type is None else JobRequest(type=type, payload=payload)
    return await jobs.start(RECORD, component, request, ACTOR, START)


async def test_job_waits_with_its_payload_and_defaults(jobs: Jobs, store: FakeJobStore) -> None:
    job = await start(jobs, "replay", since="yesterday")
    assert job is not None
    assert store.stored_jobs == [job]
    assert (job.type, job.status, job.requested_by) == ("replay", JobStatus.WAITING, ACTOR.name)
    assert job.payload == {"since": "yesterday", "until": "now"}
    [entry] = store.entries
    assert (entry.activity, entry.item_id, entry.item_name) == ("job_triggered", "1", "Mine")
    assert entry.detail == {
        "trigger": {"job_type": "replay", "job_id": job.id, "payload": dict(job.payload)}
    }


async def test_every_job_has_its_own_id(jobs: Jobs) -> None:
    started = [await start(jobs, "test") for _ in range(20)]
    assert len({job.id for job in started if job}) == 20


@pytest.mark.parametrize("component", [HOOK, BAR, None])
async def test_without_a_request_nothing_starts_and_that_is_logged(
    jobs: Jobs, store: FakeJobStore, component: Component | None
) -> None:
    assert await start(jobs, component=component) is None
    assert store.stored_jobs == []
    assert [(entry.activity, entry.detail) for entry in store.entries] == [
        ("job_triggered", {"trigger": None})
    ]


@pytest.mark.parametrize(
    ("component", "type", "payload", "says"),
    [
        (HOOK, "nope", {}, 'Unknown job "nope". Jobs of this component: replay, test.'),
        (HOOK, "", {}, 'Unknown job "".'),
        (HOOK, "x" * 5000, {}, f'Unknown job "{"x" * 100}".'),
        (BAR, "test", {}, "Jobs of this component: none."),
        (None, "test", {}, "Jobs of this component: none."),
        (HOOK, "replay", {}, "Missing required job field: since"),
        (HOOK, "replay", {"since": None}, "Missing required job field: since"),
        (HOOK, "replay", {"since": ""}, "Missing required job field: since"),
        (HOOK, "replay", {"since": "a", "more": 1}, "Unknown job field: more"),
        (HOOK, "test", {"since": "a"}, "Unknown job field: since"),
    ],
)
async def test_invalid_job_is_refused_and_not_stored(
    jobs: Jobs,
    store: FakeJobStore,
    component: Component | None,
    type: str,
    payload: dict[str, Any],
    says: str,
) -> None:
    with pytest.raises(Invalid) as raised:
        await start(jobs, type, component, **payload)
    assert says in raised.value.detail
    assert raised.value.attr == "job"
    assert (store.stored_jobs, store.entries) == ([], [])


@pytest.mark.parametrize("since", [5, ["a"], {"a": 1}, True, "a\x00b", "\ud800"])
async def test_payload_that_breaks_its_declared_type_is_refused(jobs: Jobs, since: Any) -> None:
    with pytest.raises(Invalid):
        await start(jobs, "replay", since=since)


async def test_job_is_cancelled(jobs: Jobs, store: FakeJobStore) -> None:
    job = await start(jobs, "test")
    assert job is not None
    await jobs.cancel(RECORD, HOOK, job.id, ACTOR, LATER)
    assert store.entries[-1].activity == "job_cancelled"
    assert store.entries[-1].actor == ACTOR


async def test_unknown_job_is_not_found(jobs: Jobs, store: FakeJobStore) -> None:
    with pytest.raises(NotFound):
        await jobs.find(RECORD.id, JobId("none"))
    with pytest.raises(NotFound):
        await jobs.cancel(RECORD, HOOK, JobId("none"), ACTOR, LATER)
    assert store.entries == []


def test_is_over_is_true_for_final_statuses() -> None:
    assert [status.value for status in JobStatus if not status.is_over] == [
        "waiting",
        "running",
        "paused",
    ]
