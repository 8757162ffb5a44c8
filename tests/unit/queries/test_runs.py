import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from hedgerow.errors import Conflict, Invalid, Throttled
from hedgerow.projects.model import ProjectId
from hedgerow.queries.model import Answered
from hedgerow.queries.runs import KEPT_FOR, MAX_KEPT_BYTES, MAX_OF_PROJECT, MAX_RUNNING, Runs

PROJECT = ProjectId(1)


class Now:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


def answer(size: int = 2) -> Answered:
    return Answered(
        results=msgspec.Raw(b"x" * size), query={}, timezone="UTC", is_cached=False, cache_key="k"
    )


async def gives(size: int = 2) -> Answered:
    return answer(size)


async def fails() -> Answered:
    raise Invalid("No such column.")


async def breaks() -> Answered:
    raise ZeroDivisionError("secret of ours")


async def never() -> Answered:
    await asyncio.Event().wait()
    raise AssertionError


async def test_an_answer_waits_for_its_asker_and_is_forgotten_then() -> None:
    now = Now()
    runs = Runs(now)
    run = runs.start(PROJECT, "a", gives(), is_kept=True)
    assert not run.status().complete
    assert await run.answer() == answer()
    found = runs.find(PROJECT, "a")
    assert found is run
    assert run.status().results == answer()
    assert runs.find(ProjectId(2), "a") is None
    now.time += KEPT_FOR + KEPT_FOR / 10
    assert runs.find(PROJECT, "a") is None


async def test_who_waited_for_an_answer_leaves_none_behind() -> None:
    runs = Runs(Now())
    await runs.start(PROJECT, "a", gives(), is_kept=False).answer()
    await asyncio.sleep(0)
    assert runs.find(PROJECT, "a") is None


async def test_what_went_wrong_is_told_and_defects_are_not() -> None:
    runs = Runs(Now())
    wrong = runs.start(PROJECT, "a", fails(), is_kept=True)
    with pytest.raises(Invalid):
        await wrong.answer()
    assert wrong.status().error_message == "No such column."
    broken = runs.start(PROJECT, "b", breaks(), is_kept=True)
    with pytest.raises(ZeroDivisionError):
        await broken.answer()
    assert broken.status().error_message == "A server error occurred."


async def test_a_cancelled_query_is_an_error_for_who_waits() -> None:
    runs = Runs(Now())
    run = runs.start(PROJECT, "a", never(), is_kept=True)
    runs.cancel(run)
    with pytest.raises(Invalid, match="cancelled"):
        await run.answer()
    assert run.status().error


async def test_all_are_cancelled_in_the_end() -> None:
    runs = Runs(Now())
    begun = [runs.start(PROJECT, str(n), never(), is_kept=True) for n in range(3)]
    await runs.end()
    assert all(run.task.cancelled() for run in begun)


async def test_an_id_is_that_of_one_query_at_a_time() -> None:
    runs = Runs(Now())
    first = runs.start(PROJECT, "a", never(), is_kept=True)
    with pytest.raises(Conflict):
        runs.start(PROJECT, "a", gives(), is_kept=True)
    runs.cancel(first)
    await asyncio.wait({first.task})
    assert await runs.start(PROJECT, "a", gives(), is_kept=True).answer() == answer()


async def test_only_so_many_are_under_way() -> None:
    runs = Runs(Now())
    begun = [runs.start(PROJECT, str(n), never(), is_kept=True) for n in range(MAX_OF_PROJECT)]
    with pytest.raises(Throttled):
        runs.start(PROJECT, "one more", gives(), is_kept=True)
    other = ProjectId(2)
    more = range(MAX_RUNNING - MAX_OF_PROJECT)
    begun += [runs.start(other, str(n), never(), is_kept=True) for n in more]
    with pytest.raises(Throttled):
        runs.start(other, "one more", gives(), is_kept=True)
    for run in begun:
        runs.cancel(run)


async def test_answers_that_nobody_comes_for_take_a_bounded_memory() -> None:
    runs = Runs(Now())
    for number in range(4):
        await runs.start(PROJECT, str(number), gives(MAX_KEPT_BYTES // 3), is_kept=True).answer()
    assert [n for n in range(4) if runs.find(PROJECT, str(n))] == [1, 2, 3]
