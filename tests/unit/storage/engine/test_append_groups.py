"""Rows that arrive together share an insert; a failing request does not affect the others."""

import asyncio

import pytest
from sqlalchemy import Column, Integer, MetaData, Table

from hedgerow.errors import Unavailable
from hedgerow.storage.engine.append_groups import MAX_GROUP_ROWS, AppendGroups
from hedgerow.storage.engine.database import PreparedInsert, Rows

TO = PreparedInsert(table=Table("t", MetaData(), Column("a", Integer)), columns=("a",))
OTHER = PreparedInsert(table=Table("o", MetaData(), Column("a", Integer)), columns=("a",))
BAD = (-1,)


class Inserts:
    """Records the inserted rows. While `is_open` is not set, inserts wait."""

    def __init__(self) -> None:
        self.groups: list[list[tuple[int, ...]]] = []
        self.is_open = asyncio.Event()
        self.is_available = True

    async def insert(self, _: PreparedInsert, rows: Rows) -> None:
        await self.is_open.wait()
        if not self.is_available:
            raise Unavailable("The database does not answer.")
        if BAD in rows:
            raise ValueError("bad row")
        self.groups.append(list(rows))


async def _append_all(
    inserts: Inserts, requests: list[Rows], to: PreparedInsert = TO
) -> list[BaseException | None]:
    """Append the first request, and the others while it is being inserted."""
    groups = AppendGroups(inserts.insert, max_running=1)
    tasks = []
    for rows in requests:
        tasks.append(asyncio.create_task(groups.append(to, rows)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    inserts.is_open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_requests_that_wait_share_an_insert() -> None:
    inserts = Inserts()
    await _append_all(inserts, [[(0,)], [(1,)], [(2,), (3,)]])
    assert inserts.groups == [[(0,)], [(1,), (2,), (3,)]]


async def test_only_the_request_with_a_bad_row_fails() -> None:
    inserts = Inserts()
    results = await _append_all(inserts, [[(0,)], [(1,)], [(2,), BAD], [(3,)]])
    assert [type(result) for result in results] == [type(None)] * 2 + [ValueError, type(None)]
    assert inserts.groups == [[(0,)], [(1,)], [(3,)]]


async def test_a_database_that_does_not_answer_fails_all_that_wait() -> None:
    inserts = Inserts()
    inserts.is_available = False
    results = await _append_all(inserts, [[(0,)], [(1,)], [(2,)]])
    assert [type(result) for result in results] == [Unavailable] * 3


async def test_a_group_has_a_maximum_of_rows() -> None:
    inserts = Inserts()
    await _append_all(inserts, [[(0,)], [(1,)] * (MAX_GROUP_ROWS - 1), [(2,)], [(3,)]])
    assert [len(group) for group in inserts.groups] == [1, MAX_GROUP_ROWS, 1]


async def test_rows_of_a_cancelled_caller_are_inserted() -> None:
    inserts = Inserts()
    groups = AppendGroups(inserts.insert, max_running=1)
    caller = asyncio.create_task(groups.append(TO, [(1,)]))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    inserts.is_open.set()
    await groups.append(OTHER, [(2,)])
    assert inserts.groups == [[(1,)], [(2,)]]
