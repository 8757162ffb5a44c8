"""How often a query waits for the events that were accepted before it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import pytest

from hedgerow.events.query.executor import QueryExecutor
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.events.store import EventReader, QueryLimits, QueryResult, Shape
from hedgerow.queries.cache import Freshness
from hedgerow.queries.hogql_query import HogQLQueryRunner
from hedgerow.queries.queries import Queries, Refresh
from tests.unit.projects.factories import make_project

T = TypeVar("T")

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
NONE = cast(Any, None)
QUERY = {"kind": "HogQLQuery", "query": "select count() from events"}


class OneNumber(EventReader):
    @property
    def reads_typed_columns(self) -> bool:
        return True

    async def read(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        limits: QueryLimits,
        tables: Mapping[str, bytes] = {},
    ) -> QueryResult:
        return QueryResult(types=["UInt64"], rows=[[1]])

    async def read_shaped(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        limits: QueryLimits,
        shape: Shape[T],
        tables: Mapping[str, bytes] = {},
    ) -> T:
        return shape(await self.read(sql, parameters, limits, tables))


class Waits:
    """An executor, and what it has waited for."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.executor = QueryExecutor(
            OneNumber(), NONE, QueryLimiter(), self._wait_for_events, self._wait_for_replicas, NONE
        )

    async def _wait_for_events(self, _: object) -> None:
        self.seen.append("events")

    async def _wait_for_replicas(self) -> None:
        self.seen.append("replicas")


@pytest.fixture
def waits() -> Waits:
    return Waits()


async def _run_query(waits: Waits) -> None:
    async def fetch_state(_: object) -> int:
        return 0

    queries = Queries(
        HogQLQueryRunner(waits.executor),
        NONE,
        Freshness(max_age=timedelta(0)),
        fetch_state,
        waits.executor.pass_barriers,
        lambda: NOW,
    )
    await queries.execute(make_project(), QUERY, Refresh.FORCE_BLOCKING, "")


async def test_query_waits_once(waits: Waits) -> None:
    await _run_query(waits)
    assert waits.seen == ["events", "replicas"]


async def test_query_of_a_reader_that_has_waited_does_not_wait(waits: Waits) -> None:
    async with waits.executor.pass_barriers(make_project().id):
        await _run_query(waits)
    assert waits.seen == ["events", "replicas"]


async def test_each_read_waits_for_itself(waits: Waits) -> None:
    async with waits.executor.pass_barriers(make_project().id):
        pass
    await waits.executor.build_context(make_project(), NOW)
    await waits.executor.build_context(make_project(), NOW, ["a filter"])
    assert waits.seen == ["events", "replicas", "events", "events", "replicas"]
