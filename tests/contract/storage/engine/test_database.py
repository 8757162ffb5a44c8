"""The guarantees of a database: one snapshot, one transaction, all rows or none."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from hedgerow.errors import NotFound, Unavailable
from hedgerow.storage.connect import open_database
from hedgerow.storage.engine.database import PreparedInsert
from hedgerow.storage.tables import generations
from hedgerow.storage.tables.ingestion import set_aside_events
from tests.contract.storage.conftest import Stores, run_sql

ROWS = PreparedInsert(table=generations, columns=("topic", "number"))
COUNT = select(func.count()).select_from(generations)


def add_topic(topic: str, then: Exception | None = None) -> Callable[[Connection], str]:
    """Build a change that adds one row, and then raises `then` if it is given."""

    def change(connection: Connection) -> str:
        connection.execute(insert(generations), {"topic": topic, "number": 1})
        if then is not None:
            raise then
        return topic

    return change


async def list_topics(stores: Stores) -> set[str]:
    """Return the topics that the test added."""
    rows = await stores.database.read(lambda c: list(c.execute(select(generations.c.topic))))
    return {topic for (topic,) in rows} - {"directory"}


async def test_write_returns_the_result_of_its_change(stores: Stores) -> None:
    assert await stores.database.write(add_topic("a")) == "a"
    assert await list_topics(stores) == {"a"}


async def test_write_is_visible_when_it_returns(stores: Stores) -> None:
    await stores.database.write(add_topic("a"))
    assert run_sql(stores.location, "SELECT topic FROM generations WHERE topic = 'a'") == [("a",)]
    run_sql(stores.location, "INSERT INTO generations VALUES ('theirs', 1)")
    assert await list_topics(stores) == {"a", "theirs"}


async def test_read_sees_one_snapshot(stores: Stores) -> None:
    def query(connection: Connection) -> tuple[Any, Any]:
        before = connection.execute(COUNT).scalar_one()
        run_sql(stores.location, "INSERT INTO generations VALUES ('concurrent', 1)")
        return before, connection.execute(COUNT).scalar_one()

    before, after = await stores.database.read(query)
    assert before == after
    assert await stores.fetch_scalar(COUNT) == before + 1


async def test_failed_read_does_not_affect_the_next(stores: Stores) -> None:
    def fail(_: Connection) -> None:
        raise NotFound

    with pytest.raises(NotFound):
        await stores.database.read(fail)
    with pytest.raises(Exception, match="no_such_table"):
        await stores.database.read(lambda c: c.exec_driver_sql("SELECT * FROM no_such_table"))
    assert await stores.fetch_scalar(COUNT) == 1


async def test_writes_of_a_read_are_rolled_back(stores: Stores) -> None:
    await asyncio.gather(stores.database.read(add_topic("sneaky")), return_exceptions=True)
    assert await list_topics(stores) == set()


async def test_of_concurrent_writes_only_the_raising_ones_fail(stores: Stores) -> None:
    failures: dict[int, Exception] = {
        n: failure
        for n in range(60)
        if (failure := (None, ValueError(n), NotFound(f"no {n}"), None, None)[n % 5]) is not None
    }
    outcomes = await asyncio.gather(
        *(stores.database.write(add_topic(f"t{n}", failures.get(n))) for n in range(60)),
        return_exceptions=True,
    )
    assert {n: outcome for n, outcome in enumerate(outcomes) if outcome != f"t{n}"} == failures
    assert await list_topics(stores) == {f"t{n}" for n in range(60) if n not in failures}


async def test_constraint_violation_fails_only_its_own_write(
    stores: Stores,
) -> None:
    await stores.database.write(add_topic("taken"))
    topics = ["taken" if n % 4 == 0 else f"t{n}" for n in range(40)]
    outcomes = await asyncio.gather(
        *(stores.database.write(add_topic(topic)) for topic in topics), return_exceptions=True
    )
    for topic, outcome in zip(topics, outcomes, strict=True):
        assert isinstance(outcome, Exception) if topic == "taken" else outcome == topic
    assert await list_topics(stores) == set(topics)


async def test_stop_iteration_in_a_change_fails_like_other_errors(stores: Stores) -> None:
    # A future does not accept StopIteration. The other writes must still be answered.
    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(
            stores.database.write(add_topic("before")),
            stores.database.write(add_topic("stops", StopIteration())),
            stores.database.write(add_topic("after")),
            return_exceptions=True,
        )
    assert outcomes[0] == "before"
    assert isinstance(outcomes[1], Exception)
    assert outcomes[2] == "after"
    assert await list_topics(stores) == {"before", "after"}


async def test_cancelled_caller_does_not_affect_others(stores: Stores) -> None:
    gone = asyncio.create_task(stores.database.write(add_topic("gone")))
    await asyncio.sleep(0)
    others = [asyncio.create_task(stores.database.write(add_topic(f"t{n}"))) for n in range(10)]
    await asyncio.sleep(0)
    gone.cancel()
    assert await asyncio.gather(*others) == [f"t{n}" for n in range(10)]
    assert await stores.database.write(add_topic("next")) == "next"


async def test_appended_rows_are_stored_unchanged(stores: Stores) -> None:
    await stores.database.append(ROWS, [("ü 🦔", 2**63 - 1), ("", -(2**63))])
    rows = await stores.database.read(lambda c: list(c.execute(select(generations))))
    assert {("ü 🦔", 2**63 - 1), ("", -(2**63))} < set(rows)


async def test_concurrent_appends_are_all_stored(stores: Stores) -> None:
    await asyncio.gather(
        *(stores.database.append(ROWS, [(f"t{n}-{m}", m) for m in range(5)]) for n in range(40))
    )
    assert await list_topics(stores) == {f"t{n}-{m}" for n in range(40) for m in range(5)}


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
async def test_invalid_row_fails_its_whole_append_and_no_other(
    stores: Stores, bad: tuple[Any, ...]
) -> None:
    await stores.database.append(ROWS, [("good", 1)])
    batches: list[list[tuple[Any, ...]]] = [[(f"t{n}-0", 0), (f"t{n}-1", 1)] for n in range(12)]
    for index in (3, 7):
        batches[index].insert(1, bad)
    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(
            *(stores.database.append(ROWS, rows) for rows in batches), return_exceptions=True
        )
        assert [n for n, outcome in enumerate(outcomes) if outcome is not None] == [3, 7]
        good = {f"t{n}-{m}" for n in range(12) for m in range(2) if n not in (3, 7)}
        assert await list_topics(stores) == good | {"good"}
        assert await stores.database.write(add_topic("still writing")) == "still writing"


async def test_concurrent_appends_and_changes_are_independent(stores: Stores) -> None:
    outcomes = await asyncio.gather(
        stores.database.append(ROWS, [("a", 1)]),
        stores.database.write(add_topic("b", ValueError("this one fails"))),
        stores.database.append(ROWS, [("c", 1), ("directory", 1)]),
        stores.database.write(add_topic("d")),
        stores.database.append(ROWS, [("e", 1)]),
        return_exceptions=True,
    )
    assert [isinstance(o, Exception) for o in outcomes] == [False, True, True, False, False]
    assert await list_topics(stores) == {"a", "d", "e"}


async def test_nothing_is_written_after_close(stores: Stores) -> None:
    database = open_database(stores.location)
    assert await database.write(add_topic("before")) == "before"
    await database.close()
    with pytest.raises(Unavailable):
        await database.write(add_topic("after"))
    with pytest.raises(Unavailable):
        await database.append(ROWS, [("after", 1)])
    assert await list_topics(stores) == {"before"}


async def test_close_waits_for_running_writes(stores: Stores) -> None:
    database = open_database(stores.location)
    writes = [asyncio.create_task(database.write(add_topic(f"t{n}"))) for n in range(5)]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    await database.close()
    assert await list_topics(stores) == {f"t{n}" for n in range(5)}
    assert await asyncio.gather(*writes) == [f"t{n}" for n in range(5)]
    gc.collect()  # an unclosed connection warns here, and not in another test


async def test_engine_reports_its_version_and_commits(stores: Stores) -> None:
    assert (await stores.database.version())[0].isdigit()
    before = stores.database.stats()
    await asyncio.gather(*(stores.database.write(add_topic(f"t{n}")) for n in range(10)))
    after = stores.database.stats()
    assert after.changes == before.changes + 10
    assert before.commits < after.commits <= before.commits + 10
    assert after.writes_waiting == 0


async def test_error_does_not_contain_parameter_values(stores: Stores) -> None:
    def change(connection: Connection) -> None:
        connection.execute(insert(set_aside_events), {"stage": "something private"})

    with pytest.raises(IntegrityError) as raised:
        await stores.database.write(change)
    _, _, of_the_statement = str(raised.value).partition("[SQL")
    assert "INSERT INTO" in of_the_statement
    assert "private" not in of_the_statement
