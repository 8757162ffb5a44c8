"""Results of insights are kept, computed once for all who want them, and say when they are
stale."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from hedgerow.dashboards import result_store
from hedgerow.dashboards.refresher import Refresher
from hedgerow.dashboards.result_store import NewResult
from hedgerow.dashboards.results import MAX_AGE, InsightResult, InsightResults
from hedgerow.errors import Invalid, Throttled, Unavailable
from hedgerow.lib.clock import utc_now
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.cache import Freshness
from hedgerow.queries.fields import QueryFields
from hedgerow.queries.model import InsightOutput
from hedgerow.queries.queries import Queries, Refresh
from hedgerow.storage.dashboards import results as results_module
from hedgerow.storage.dashboards.results import SqlResultStore
from hedgerow.storage.deletions import SqlDeletionLog
from hedgerow.storage.engine import generations
from tests.contract.storage.conftest import LATER, NOW, Stores

Answer = Callable[[], Awaitable[int]]


def query(number: int = 0) -> dict[str, Any]:
    return {"kind": "NumberQuery", "number": number}


async def do_nothing(_: object) -> None:
    pass


class Process:
    """One of several processes. `answer` returns the number of a result."""

    def __init__(self, stores: Stores, projects: dict[ProjectId, Project], answer: Answer) -> None:
        self.errors: list[BaseException] = []
        self.now = utc_now()

        def prepare(_: Project, fields: QueryFields, now: datetime) -> Any:
            number = fields.integer("number")
            if number is None:
                raise Invalid("A number is required.", attr="query__number")

            async def run() -> InsightOutput:
                found = await answer()
                return InsightOutput(results=msgspec.Raw(b"%d" % found), hogql="", timings=[])

            return run

        async def fetch_state(_: object) -> int:
            return 0

        def pass_barriers(_: object) -> AbstractAsyncContextManager[None]:
            return nullcontext()

        freshness = Freshness(max_age=timedelta(0))
        none = cast(Any, None)
        queries = Queries(none, none, freshness, fetch_state, pass_barriers, utc_now)
        queries.register({"NumberQuery": prepare})
        self.store = SqlResultStore(stores.database)
        self.refresher = Refresher(
            self.store, queries, pass_barriers, projects.get, self.errors.append, self.clock
        )
        self.results = InsightResults(self.store, queries, self.refresher, do_nothing, self.clock)

    def clock(self) -> datetime:
        # A result that was computed after a request is newer than it.
        self.now += timedelta(microseconds=1)
        return self.now

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def loop() -> None:
            while True:
                with suppress(Unavailable):  # a periodic task tries again
                    await self.refresher.run()

        task = asyncio.create_task(loop())
        try:
            yield
        finally:
            task.cancel()
            await self.refresher.stop()
            assert self.errors == []


def read_number(result: InsightResult) -> int | None:
    return None if result.kept is None else int(msgspec.json.decode(result.kept.results))


class Counter:
    """Counts computations, and returns the count."""

    def __init__(self) -> None:
        self.count = 0
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.count += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.count


async def advance(stores: Stores, project: Project) -> None:
    await stores.database.write(lambda c: generations.advance_events(c, [project.id]))


async def test_result_is_computed_once_and_kept_until_something_changes(stores: Stores) -> None:
    project, counter = await stores.new_project(), Counter()
    process = Process(stores, {project.id: project}, counter)
    async with process.running():
        empty = await process.results.fetch_one(project, query(), Refresh.FORCE_CACHE)
        assert (empty.kept, counter.count) == (None, 0)
        waiting = [process.results.fetch_one(project, query(), Refresh.BLOCKING) for _ in range(20)]
        assert {read_number(each) for each in await asyncio.gather(*waiting)} == {1}
        kept = await process.results.fetch_one(project, query(), Refresh.BLOCKING)
        assert (read_number(kept), kept.is_cached, kept.is_stale) == (1, True, False)
        await advance(stores, project)
        old = await process.results.fetch_one(project, query(), Refresh.FORCE_CACHE)
        assert (read_number(old), old.is_cached, old.is_stale) == (1, True, True)
        new = await process.results.fetch_one(project, query(), Refresh.BLOCKING)
        assert (read_number(new), new.is_cached, new.is_stale) == (2, False, False)
        process.now += MAX_AGE
        aged = await process.results.fetch_one(project, query(), Refresh.FORCE_CACHE)
        assert (read_number(aged), aged.is_stale) == (2, True)


async def test_no_kept_result_shows_what_was_deleted(stores: Stores) -> None:
    """Not even to those who accept a stale one. Other projects keep theirs, and what is to be
    computed stays in the queue."""
    project, other = await stores.new_project(), await stores.new_project("Other")
    counter = Counter()
    process = Process(stores, {each.id: each for each in (project, other)}, counter)
    async with process.running():
        for each in (project, other):
            await process.results.fetch_one(each, query(), Refresh.BLOCKING)
        await process.results.fetch_one(project, query(1), Refresh.BLOCKING)
    await process.store.request(project.id, {"waiting": query(2)}, process.now)
    deletions = SqlDeletionLog(stores.database)
    await deletions.end(await deletions.begin(project.id, "", NOW), NOW, is_personal=False)
    for number in (0, 1):
        gone = await process.results.fetch_one(project, query(number), Refresh.FORCE_CACHE)
        assert gone.kept is None
    kept = await process.results.fetch_one(other, query(), Refresh.FORCE_CACHE)
    assert read_number(kept) == 2
    (waiting,) = (await process.store.find(project.id, ["waiting"], with_result=False)).values()
    assert waiting.wanted_at is not None
    async with process.running():
        new = await process.results.fetch_one(project, query(), Refresh.BLOCKING)
        assert (read_number(new) or 0) > 3


@pytest.mark.parametrize("has_old_result", [False, True])
async def test_what_was_deleted_during_a_computation_is_not_kept(
    stores: Stores, *, has_old_result: bool
) -> None:
    """The query may have read the data before it was deleted."""
    project, counter = await stores.new_project(), Counter()
    deletions = SqlDeletionLog(stores.database)
    is_deleted = has_old_result

    async def answer() -> int:
        nonlocal is_deleted
        if not is_deleted:
            is_deleted = True
            await deletions.end(await deletions.begin(project.id, "", NOW), NOW, is_personal=False)
        return await counter()

    process = Process(stores, {project.id: project}, answer)
    async with process.running():
        if has_old_result:
            await process.results.fetch_one(project, query(), Refresh.BLOCKING)
            is_deleted = False
        new = await process.results.fetch_one(project, query(), Refresh.FORCE_BLOCKING)
    assert read_number(new) == counter.count == (3 if has_old_result else 2)
    (row,) = (await process.store.find(project.id, [new.key], with_result=False)).values()
    assert row.wanted_at is None


async def test_forced_results_are_newer_than_their_request(stores: Stores) -> None:
    project, counter = await stores.new_project(), Counter()
    process = Process(stores, {project.id: project}, counter)
    async with process.running():
        for expected in (1, 2):
            found = await process.results.fetch_one(project, query(), Refresh.FORCE_BLOCKING)
            assert (read_number(found), found.is_cached) == (expected, False)
        started = await process.results.fetch_one(project, query(), Refresh.FORCE_ASYNC)
        assert (read_number(started), started.is_running) == (2, True)
        async with asyncio.timeout(30):
            while (
                await process.results.fetch_one(project, query(), Refresh.FORCE_CACHE)
            ).is_running:
                await asyncio.sleep(0.01)
        assert counter.count == 3


async def test_two_processes_compute_each_result_once(stores: Stores) -> None:
    project, counter = await stores.new_project(), Counter()
    processes = [Process(stores, {project.id: project}, counter) for _ in range(2)]
    async with processes[0].running(), processes[1].running():
        queries = [query(number) for number in range(10)]
        found = await asyncio.gather(
            *(each.results.fetch(project, queries, Refresh.BLOCKING) for each in processes)
        )
    assert [[read_number(each) for each in results] for results in found] == [
        [read_number(each) for each in found[0]]
    ] * 2
    assert counter.count == 10


async def test_process_that_stops_leaves_its_work_to_others(stores: Stores) -> None:
    project, counter, begun = await stores.new_project(), Counter(), asyncio.Event()

    async def hang() -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    one = Process(stores, {project.id: project}, hang)
    two = Process(stores, {project.id: project}, counter)
    async with one.running():
        await one.results.fetch_one(project, query(), Refresh.FORCE_ASYNC)
        await begun.wait()
        assert await two.store.claim([], ProjectId(0), two.now, two.now + MAX_AGE) is None
    async with two.running():
        found = await two.results.fetch_one(project, query(), Refresh.FORCE_CACHE)
        assert found.is_running
        wanted = await two.results.fetch_one(project, query(), Refresh.BLOCKING)
        assert read_number(wanted) == 1


async def test_work_is_free_again_after_the_database_was_away(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It neither stores the result nor that there is none, and the claim would last for minutes."""
    project, counter = await stores.new_project(), Counter()
    answering = stores.database.write

    async def refuse(_: Any) -> Any:
        raise Unavailable

    async def compute() -> int:
        if not counter.count:
            monkeypatch.setattr(stores.database, "write", refuse)
        return await counter()

    process = Process(stores, {project.id: project}, compute)
    async with process.running():
        await process.results.fetch_one(project, query(), Refresh.FORCE_ASYNC)
        while not counter.count:
            await asyncio.sleep(0)
        await process.refresher.wait_for_end(60)
        monkeypatch.setattr(stores.database, "write", answering)
        found = await process.results.fetch_one(project, query(), Refresh.BLOCKING)
        assert read_number(found) == 2


async def test_old_result_is_returned_with_the_error(stores: Stores) -> None:
    project, counter = await stores.new_project(), Counter()
    process = Process(stores, {project.id: project}, counter)
    async with process.running():
        await process.results.fetch_one(project, query(), Refresh.BLOCKING)
        await advance(stores, project)
        counter.error = Unavailable("The event store is away.")
        old = await process.results.fetch_one(project, query(), Refresh.BLOCKING)
        assert (read_number(old), old.is_cached, old.is_stale) == (1, True, True)
        assert isinstance(old.error, Unavailable)
        with pytest.raises(Unavailable, match="away"):
            await process.results.fetch_one(project, query(1), Refresh.BLOCKING)
        counter.error = None
        new = await process.results.fetch_one(project, query(), Refresh.BLOCKING)
        assert (new.is_stale, new.error) == (False, None)
        counter.error = ValueError("a defect")
        with pytest.raises(Invalid, match="could not be computed"):
            await process.results.fetch_one(project, query(2), Refresh.BLOCKING)
        assert [str(error) for error in process.errors] == ["a defect"]
        process.errors.clear()


async def test_invalid_query_leaves_others_alone(stores: Stores) -> None:
    project, counter = await stores.new_project(), Counter()
    process = Process(stores, {project.id: project}, counter)
    async with process.running():
        found = await process.results.fetch(
            project, [{"kind": "NumberQuery"}, query()], Refresh.BLOCKING
        )
    assert isinstance(found[0].error, Invalid)
    assert read_number(found[1]) == 1


async def test_projects_take_turns(stores: Stores) -> None:
    projects = [await stores.new_project(name) for name in "AB"]
    store = SqlResultStore(stores.database)
    for project in projects:
        await store.request(project.id, {f"{n}": query(n) for n in range(2)}, NOW)
    claimed = []
    last = ProjectId(0)
    while (found := await store.claim([], last, NOW, LATER)) is not None:
        claimed.append(found.project_id)
        last = found.project_id
    assert claimed == [projects[0].id, projects[1].id] * 2
    # A claim ends, so that another process continues.
    again = await store.claim([projects[0].id], ProjectId(0), LATER + MAX_AGE, LATER + 2 * MAX_AGE)
    assert again is not None
    assert again.project_id == projects[1].id


async def test_queue_and_results_are_bounded(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = await stores.new_project()
    store = SqlResultStore(stores.database)
    monkeypatch.setattr(results_module, "MAX_WAITING_PER_PROJECT", 3)
    await store.request(project.id, {f"{n}": query(n) for n in range(3)}, NOW)
    await store.request(project.id, {"0": query(0)}, NOW)
    with pytest.raises(Throttled):
        await store.request(project.id, {"3": query(3)}, NOW)
    monkeypatch.setattr(results_module, "MAX_PROJECT_BYTES", 25)
    for number in range(3):
        found = await store.claim([], ProjectId(0), NOW, LATER)
        assert found is not None
        await store.mark_used(project.id, [found.key], NOW + timedelta(seconds=number))
        new = NewResult(result=b"0123456789", state="", computed_at=NOW)
        await store.save(found, new, NOW)
    kept = await store.find(project.id, ["0", "1", "2"], with_result=True)
    assert sorted(kept) == ["1", "2"]
    monkeypatch.setattr(results_module, "MAX_BYTES", 10)
    await store.delete_unused(NOW)
    assert list(await store.find(project.id, ["1", "2"], with_result=False)) == ["2"]
    await store.delete_unused(NOW + result_store.RETENTION + timedelta(days=1))
    assert await store.find(project.id, ["2"], with_result=False) == {}


async def test_results_in_use_are_computed_again(stores: Stores) -> None:
    project, counter = await stores.new_project(), Counter()
    process = Process(stores, {project.id: project}, counter)
    async with process.running():
        await process.results.fetch(project, [query(1), query(2)], Refresh.BLOCKING)
        process.now += timedelta(hours=1)
        await process.refresher.request_outdated()
        assert await process.store.claim([], ProjectId(0), process.now, process.now) is None
        await advance(stores, project)
    await process.refresher.request_outdated()
    found = [
        await process.store.claim([], ProjectId(0), process.now, process.now + MAX_AGE)
        for _ in range(3)
    ]
    assert [each is not None for each in found] == [True, True, False]


async def test_state_changes_with_events_persons_and_flags(stores: Stores) -> None:
    project, other = await stores.new_project("A"), await stores.new_project("B")
    store = SqlResultStore(stores.database)
    before = [await store.fetch_state(each.id) for each in (project, other)]
    assert before[0].is_settled
    await advance(stores, project)
    after = [await store.fetch_state(each.id) for each in (project, other)]
    assert after[0].text != before[0].text
    assert after[1] == before[1]
    assert replace(after[0], text=before[0].text) == before[0]


async def test_outdated_results_are_listed_by_turns(stores: Stores) -> None:
    many, few = await stores.new_project("Many"), await stores.new_project("Few")
    store = SqlResultStore(stores.database)
    await store.request(many.id, {f"{n}": query(n) for n in range(5)}, NOW)
    await store.request(few.id, {"few": query()}, NOW)
    for number in range(6):
        at = NOW + timedelta(seconds=number)
        found = await store.claim([], ProjectId(many.id - 1 if number < 5 else 0), NOW, LATER)
        assert found is not None
        await store.mark_used(found.project_id, [found.key], NOW)
        await store.save(found, NewResult(result=b"1", state="", computed_at=at), at)
    listed = await store.list_outdated(
        used_since=NOW - timedelta(days=1), computed_before=NOW + timedelta(days=1), limit=3
    )
    assert [each[0] for each in listed] == [many.id, few.id, many.id]
