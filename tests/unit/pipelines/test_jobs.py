from datetime import datetime, timedelta
from typing import Any

import pytest

from hedgerow.errors import Invalid, NotFound
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.jobs import Jobs, JobWish
from hedgerow.pipelines.model import Job, JobId, JobStatus, RecordId
from hedgerow.pipelines.store import JobSwitch
from hedgerow.projects.activity import Entry, Recorded
from hedgerow.projects.model import ProjectId
from hedgerow.projects.store import ActivityQuery
from tests.unit.fake_time import START
from tests.unit.pipelines.world import BAR, HOOK, PROJECT, RECORD, SOMEBODY

LATER = START + timedelta(hours=1)


class ListOfJobs:
    """Both stores that jobs need, made of lists."""

    def __init__(self) -> None:
        self.kept: list[Job] = []
        self.told: list[Entry] = []

    async def add_job(self, project_id: ProjectId, job: Job, entry: Entry) -> None:
        assert project_id == PROJECT
        self.kept.append(job)
        self.told.append(entry)

    async def jobs(self, record_id: RecordId, *, limit: int, offset: int) -> tuple[list[Job], int]:
        mine = [job for job in self.kept if job.record_id == record_id]
        return mine[offset : offset + limit], len(mine)

    async def job(self, record_id: RecordId, id: JobId) -> Job | None:
        return next((job for job in self.kept if (job.record_id, job.id) == (record_id, id)), None)

    async def switch_job(
        self, record_id: RecordId, id: JobId, switch: JobSwitch, entry: Entry, now: datetime
    ) -> Job | None:
        self.told.append(entry)
        return await self.job(record_id, id)

    async def record(self, entry: Entry, now: datetime) -> None:
        self.told.append(entry)

    async def activity(self, query: ActivityQuery) -> tuple[list[Recorded], int]:
        raise AssertionError("jobs do not read the trail")


@pytest.fixture
def store() -> ListOfJobs:
    return ListOfJobs()


@pytest.fixture
def jobs(store: ListOfJobs) -> Jobs:
    return Jobs(store, store)


async def start(
    jobs: Jobs, type: str | None = None, component: Component | None = HOOK, **payload: Any
) -> Job | None:
    wish = None if type is None else JobWish(type=type, payload=payload)
    return await jobs.start(RECORD, component, wish, SOMEBODY, START)


async def test_a_job_waits_with_its_payload_and_defaults(jobs: Jobs, store: ListOfJobs) -> None:
    job = await start(jobs, "replay", since="yesterday")
    assert job is not None
    assert store.kept == [job]
    assert (job.type, job.status, job.requested_by) == ("replay", JobStatus.WAITING, SOMEBODY.name)
    assert job.payload == {"since": "yesterday", "until": "now"}
    [entry] = store.told
    assert (entry.activity, entry.item_id, entry.item_name) == ("job_triggered", "1", "Mine")
    assert entry.detail == {
        "trigger": {"job_type": "replay", "job_id": job.id, "payload": dict(job.payload)}
    }


async def test_every_job_has_an_id_of_its_own(jobs: Jobs) -> None:
    started = [await start(jobs, "test") for _ in range(20)]
    assert len({job.id for job in started if job}) == 20


async def test_without_a_wish_the_default_job_starts(jobs: Jobs) -> None:
    job = await start(jobs)
    assert job is not None
    assert job.type == "test"


@pytest.mark.parametrize("component", [BAR, None])
async def test_without_a_wish_or_a_default_nothing_starts_and_that_is_told(
    jobs: Jobs, store: ListOfJobs, component: Component | None
) -> None:
    assert await start(jobs, component=component) is None
    assert store.kept == []
    assert [(entry.activity, entry.detail) for entry in store.told] == [
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
async def test_a_job_that_cannot_be_is_refused_and_not_stored(
    jobs: Jobs,
    store: ListOfJobs,
    component: Component | None,
    type: str,
    payload: dict[str, Any],
    says: str,
) -> None:
    with pytest.raises(Invalid) as raised:
        await start(jobs, type, component, **payload)
    assert says in raised.value.detail
    assert raised.value.attr == "job"
    assert (store.kept, store.told) == ([], [])


@pytest.mark.parametrize("since", [5, ["a"], {"a": 1}, True, "a\x00b", "\ud800"])
async def test_a_payload_that_breaks_its_declared_type_is_refused(jobs: Jobs, since: Any) -> None:
    with pytest.raises(Invalid):
        await start(jobs, "replay", since=since)


async def test_a_job_is_cancelled_by_whoever_says_so(jobs: Jobs, store: ListOfJobs) -> None:
    job = await start(jobs, "test")
    assert job is not None
    await jobs.cancel(RECORD, HOOK, job.id, SOMEBODY, LATER)
    assert store.told[-1].activity == "job_cancelled"
    assert store.told[-1].actor == SOMEBODY


async def test_an_unknown_job_is_not_found(jobs: Jobs, store: ListOfJobs) -> None:
    with pytest.raises(NotFound):
        await jobs.find(RECORD.id, JobId("none"))
    with pytest.raises(NotFound):
        await jobs.cancel(RECORD, HOOK, JobId("none"), SOMEBODY, LATER)
    assert store.told == []


def test_a_job_is_over_when_nobody_will_touch_it_again() -> None:
    assert [status.value for status in JobStatus if not status.is_over] == [
        "waiting",
        "running",
        "paused",
    ]
