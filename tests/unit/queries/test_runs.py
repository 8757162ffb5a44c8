import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from hedgerow.errors import Conflict, Invalid, Throttled
from hedgerow.projects.model import ProjectId
from hedgerow.queries.model import QueryResponse
from hedgerow.queries.runs import (
    MAX_RETAINED_BYTES,
    MAX_RUNNING,
    RESULT_RETENTION,
    QueryRuns,
)

PROJECT = ProjectId(1)


class Now:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


def make_response(size: int = 2) -> QueryResponse:
    return QueryResponse(
        results=msgspec.Raw(b"x" * size), query={}, timezone="UTC", is_cached=False, cache_key="k"
    )


async def succeed(size: int = 2) -> QueryResponse:
    return make_response(size)


async def fail() -> QueryResponse:
    raise Invalid("No such column.")


async def crash() -> QueryResponse:
    raise ZeroDivisionError("secret of ours")


async def block() -> QueryResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def test_retained_response_expires() -> None:
    now = Now()
    runs = QueryRuns(now)
    run = runs.start(PROJECT, "a", succeed(), is_retained=True)
    assert not run.status().complete
    assert await run.wait() == make_response()
    found = runs.find(PROJECT, "a")
    assert found is run
    assert run.status().results == make_response()
    assert runs.find(ProjectId(2), "a") is None
    now.time += RESULT_RETENTION + RESULT_RETENTION / 10
    assert runs.find(PROJECT, "a") is None


async def test_blocking_query_retains_no_response() -> None:
    runs = QueryRuns(Now())
    await runs.start(PROJECT, "a", succeed(), is_retained=False).wait()
    await asyncio.sleep(0)
    assert runs.find(PROJECT, "a") is None


async def test_status_shows_errors_but_hides_defects() -> None:
    runs = QueryRuns(Now())
    wrong = runs.start(PROJECT, "a", fail(), is_retained=True)
    with pytest.raises(Invalid):
        await wrong.wait()
    assert wrong.status().error_message == "No such column."
    broken = runs.start(PROJECT, "b", crash(), is_retained=True)
    with pytest.raises(ZeroDivisionError):
        await broken.wait()
    assert broken.status().error_message == "A server error occurred."


async def test_waiting_for_a_cancelled_query_fails() -> None:
    runs = QueryRuns(Now())
    run = runs.start(PROJECT, "a", block(), is_retained=True)
    runs.cancel(run)
    with pytest.raises(Invalid, match="cancelled"):
        await run.wait()
    assert run.status().error


async def test_stop_cancels_all_queries() -> None:
    runs = QueryRuns(Now())
    begun = [runs.start(PROJECT, str(n), block(), is_retained=True) for n in range(3)]
    await runs.stop()
    assert all(run.task.cancelled() for run in begun)


async def test_id_identifies_one_running_query() -> None:
    runs = QueryRuns(Now())
    first = runs.start(PROJECT, "a", block(), is_retained=True)
    with pytest.raises(Conflict):
        runs.start(PROJECT, "a", succeed(), is_retained=True)
    runs.cancel(first)
    await asyncio.wait({first.task})
    assert await runs.start(PROJECT, "a", succeed(), is_retained=True).wait() == make_response()


async def test_running_queries_are_limited() -> None:
    runs = QueryRuns(Now())
    half = range(MAX_RUNNING // 2)
    begun = [runs.start(PROJECT, str(n), block(), is_retained=True) for n in half]
    with pytest.raises(Throttled):
        runs.start(PROJECT, "one more", succeed(), is_retained=True)
    # Each further project finds a place.
    for other in range(2, 6):
        begun.append(runs.start(ProjectId(other), "a", block(), is_retained=True))
    with pytest.raises(Throttled):
        runs.start(PROJECT, "one more", succeed(), is_retained=True)
    for run in begun:
        runs.cancel(run)


async def test_retained_responses_are_bounded_in_memory() -> None:
    runs = QueryRuns(Now())
    for number in range(4):
        await runs.start(
            PROJECT, str(number), succeed(MAX_RETAINED_BYTES // 3), is_retained=True
        ).wait()
    assert [n for n in range(4) if runs.find(PROJECT, str(n))] == [1, 2, 3]
