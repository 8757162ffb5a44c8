"""What a database promises to the SQL above it: one view, one transaction, all rows or none."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from hedgerow.errors import NotFound, Unavailable
from hedgerow.storage.connect import open_database
from hedgerow.storage.database import Append
from hedgerow.storage.tables import generations, set_aside_events
from tests.contract.stores.conftest import Stores, run_sql

ROWS = Append(table=generations, columns=("topic", "number"))
COUNT = select(func.count()).select_from(generations)


def adding(topic: str, then: Exception | None = None) -> Callable[[Connection], str]:
    """A change that adds one row, and fails after it when told to."""

    def change(connection: Connection) -> str:
        connection.execute(insert(generations), {"topic": topic, "number": 1})
        if then is not None:
            raise then
        return topic

    return change


async def stored(stores: Stores) -> set[str]:
    """The topics that the test itself added."""
    rows = await stores.database.read(lambda c: list(c.execute(select(generations.c.topic))))
    return {topic for (topic,) in rows} - {"directory"}


async def test_a_write_gives_back_what_its_change_returns(stores: Stores) -> None:
    assert await stores.database.write(adding("a")) == "a"
    assert await stored(stores) == {"a"}


async def test_a_write_is_seen_by_others_as_soon_as_it_returns(stores: Stores) -> None:
    await stores.database.write(adding("a"))
    assert run_sql(stores.place, "SELECT topic FROM generations WHERE topic = 'a'") == [("a",)]
    run_sql(stores.place, "INSERT INTO generations VALUES ('theirs', 1)")
    assert await stored(stores) == {"a", "theirs"}


async def test_a_read_sees_one_moment_however_long_it_takes(stores: Stores) -> None:
    def query(connection: Connection) -> tuple[Any, Any]:
        before = connection.execute(COUNT).scalar_one()
        run_sql(stores.place, "INSERT INTO generations VALUES ('meanwhile', 1)")
        return before, connection.execute(COUNT).scalar_one()

    before, after = await stores.database.read(query)
    assert before == after
    assert await stores.scalar(COUNT) == before + 1


async def test_a_read_that_fails_does_not_spoil_the_next(stores: Stores) -> None:
    def broken(_: Connection) -> None:
        raise NotFound

    with pytest.raises(NotFound):
        await stores.database.read(broken)
    with pytest.raises(Exception, match="no_such_table"):
        await stores.database.read(lambda c: c.exec_driver_sql("SELECT * FROM no_such_table"))
    assert await stores.scalar(COUNT) == 1


async def test_what_a_read_writes_is_not_kept(stores: Stores) -> None:
    await asyncio.gather(stores.database.read(adding("sneaky")), return_exceptions=True)
    assert await stored(stores) == set()


async def test_of_many_writes_at_once_exactly_those_that_raise_fail(stores: Stores) -> None:
    failures: dict[int, Exception] = {
        n: failure
        for n in range(60)
        if (failure := (None, ValueError(n), NotFound(f"no {n}"), None, None)[n % 5]) is not None
    }
    outcomes = await asyncio.gather(
        *(stores.database.write(adding(f"t{n}", failures.get(n))) for n in range(60)),
        return_exceptions=True,
    )
    assert {n: outcome for n, outcome in enumerate(outcomes) if outcome != f"t{n}"} == failures
    assert await stored(stores) == {f"t{n}" for n in range(60) if n not in failures}


async def test_of_many_writes_at_once_a_broken_constraint_fails_only_its_own(
    stores: Stores,
) -> None:
    await stores.database.write(adding("taken"))
    topics = ["taken" if n % 4 == 0 else f"t{n}" for n in range(40)]
    outcomes = await asyncio.gather(
        *(stores.database.write(adding(topic)) for topic in topics), return_exceptions=True
    )
    for topic, outcome in zip(topics, outcomes, strict=True):
        assert isinstance(outcome, Exception) if topic == "taken" else outcome == topic
    assert await stored(stores) == set(topics)


async def test_a_change_that_stops_an_iteration_fails_like_any_other(stores: Stores) -> None:
    # A future takes every exception but this one, and its neighbours must be answered all the same.
    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(
            stores.database.write(adding("before")),
            stores.database.write(adding("stops", StopIteration())),
            stores.database.write(adding("after")),
            return_exceptions=True,
        )
    assert outcomes[0] == "before"
    assert isinstance(outcomes[1], Exception)
    assert outcomes[2] == "after"
    assert await stored(stores) == {"before", "after"}


async def test_a_caller_who_goes_away_takes_nobody_with_him(stores: Stores) -> None:
    gone = asyncio.create_task(stores.database.write(adding("gone")))
    await asyncio.sleep(0)
    others = [asyncio.create_task(stores.database.write(adding(f"t{n}"))) for n in range(10)]
    await asyncio.sleep(0)
    gone.cancel()
    assert await asyncio.gather(*others) == [f"t{n}" for n in range(10)]
    assert await stores.database.write(adding("next")) == "next"


async def test_appended_rows_are_stored_as_they_came(stores: Stores) -> None:
    await stores.database.append(ROWS, [("ü 🦔", 2**63 - 1), ("", -(2**63))])
    rows = await stores.database.read(lambda c: list(c.execute(select(generations))))
    assert {("ü 🦔", 2**63 - 1), ("", -(2**63))} < set(rows)


async def test_appends_at_once_are_all_stored(stores: Stores) -> None:
    await asyncio.gather(
        *(stores.database.append(ROWS, [(f"t{n}-{m}", m) for m in range(5)]) for n in range(40))
    )
    assert await stored(stores) == {f"t{n}-{m}" for n in range(40) for m in range(5)}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(("good", 1), id="a key twice"),
        pytest.param((None, 1), id="null"),
        pytest.param(("short",), id="too few values"),
        pytest.param(("object", object()), id="a value of no type"),
        pytest.param(("huge", 2**63), id="a number too large"),
        pytest.param(("lone \ud800", 1), id="text that is no text"),
    ],
)
async def test_a_bad_row_fails_its_own_append_whole_and_no_other(
    stores: Stores, bad: tuple[Any, ...]
) -> None:
    await stores.database.append(ROWS, [("good", 1)])
    batches: list[list[tuple[Any, ...]]] = [[(f"t{n}-0", 0), (f"t{n}-1", 1)] for n in range(12)]
    for spoilt in (3, 7):
        batches[spoilt].insert(1, bad)
    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(
            *(stores.database.append(ROWS, rows) for rows in batches), return_exceptions=True
        )
        assert [n for n, outcome in enumerate(outcomes) if outcome is not None] == [3, 7]
        good = {f"t{n}-{m}" for n in range(12) for m in range(2) if n not in (3, 7)}
        assert await stored(stores) == good | {"good"}
        assert await stores.database.write(adding("still writing")) == "still writing"


async def test_appends_and_changes_at_once_do_not_disturb_each_other(stores: Stores) -> None:
    outcomes = await asyncio.gather(
        stores.database.append(ROWS, [("a", 1)]),
        stores.database.write(adding("b", ValueError("this one fails"))),
        stores.database.append(ROWS, [("c", 1), ("directory", 1)]),
        stores.database.write(adding("d")),
        stores.database.append(ROWS, [("e", 1)]),
        return_exceptions=True,
    )
    assert [isinstance(o, Exception) for o in outcomes] == [False, True, True, False, False]
    assert await stored(stores) == {"a", "d", "e"}


async def test_after_close_nothing_is_written(stores: Stores) -> None:
    database = open_database(stores.place)
    assert await database.write(adding("before")) == "before"
    await database.close()
    with pytest.raises(Unavailable):
        await database.write(adding("after"))
    with pytest.raises(Unavailable):
        await database.append(ROWS, [("after", 1)])
    assert await stored(stores) == {"before"}


async def test_close_waits_for_the_writes_under_way(stores: Stores) -> None:
    database = open_database(stores.place)
    writes = [asyncio.create_task(database.write(adding(f"t{n}"))) for n in range(5)]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    await database.close()
    assert await stored(stores) == {f"t{n}" for n in range(5)}
    assert await asyncio.gather(*writes) == [f"t{n}" for n in range(5)]
    gc.collect()  # a connection that was left open would complain here, and not in another test


async def test_the_engine_tells_its_version_and_counts_its_commits(stores: Stores) -> None:
    assert (await stores.database.version())[0].isdigit()
    before = stores.database.stats()
    await asyncio.gather(*(stores.database.write(adding(f"t{n}")) for n in range(10)))
    after = stores.database.stats()
    assert after.changes == before.changes + 10
    assert before.commits < after.commits <= before.commits + 10
    assert after.writes_waiting == 0


async def test_an_error_does_not_repeat_what_a_statement_was_given(stores: Stores) -> None:
    def change(connection: Connection) -> None:
        connection.execute(insert(set_aside_events), {"stage": "something private"})

    with pytest.raises(IntegrityError) as raised:
        await stores.database.write(change)
    _, _, of_the_statement = str(raised.value).partition("[SQL")
    assert "INSERT INTO" in of_the_statement
    assert "private" not in of_the_statement
