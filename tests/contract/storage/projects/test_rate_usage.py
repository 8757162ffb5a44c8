"""Processes exchange what they used of shared rate limits. PostgreSQL only."""

import pytest
from sqlalchemy import func, select, text, update

from hedgerow.storage.projects.rate_usage import SqlUsageExchange
from hedgerow.storage.tables.ingestion import rate_usage
from tests.contract.storage.conftest import Stores


@pytest.fixture
def pair(stores: Stores) -> tuple[SqlUsageExchange, SqlUsageExchange]:
    if stores.database.engine_name == "sqlite":
        pytest.skip("a single process uses SQLite")
    return SqlUsageExchange(stores.database), SqlUsageExchange(stores.database)


async def test_each_process_gets_what_the_other_used_since(
    pair: tuple[SqlUsageExchange, SqlUsageExchange],
) -> None:
    one, two = pair
    assert await two.exchange({}) == {}
    assert await one.exchange({"a": 3.0, "b": 1.0}) == {}
    assert await two.exchange({"a": 5.0}) == {"a": 3.0, "b": 1.0}
    assert await one.exchange({"a": 2.0}) == {"a": 5.0}
    assert await two.exchange({}) == {"a": 2.0, "b": 0.0}
    assert await two.exchange({}) == {"a": 0.0, "b": 0.0}


async def test_use_before_the_start_does_not_count(
    pair: tuple[SqlUsageExchange, SqlUsageExchange],
) -> None:
    one, two = pair
    await one.exchange({"a": 100.0})
    assert await two.exchange({}) == {}
    await one.exchange({"a": 1.0})
    assert await two.exchange({}) == {"a": 1.0}


async def test_old_rows_are_deleted_and_begin_again(
    stores: Stores, pair: tuple[SqlUsageExchange, SqlUsageExchange]
) -> None:
    one, two = pair
    await two.exchange({})
    await one.exchange({"a": 100.0})
    assert await two.exchange({}) == {"a": 100.0}
    old = text("clock_timestamp() - interval '2 minutes'")
    await stores.database.write(
        lambda connection: connection.execute(update(rate_usage).values(updated_at=old))
    )
    await two.exchange({"b": 1.0})
    assert await stores.fetch_scalar(select(func.count()).select_from(rate_usage)) == 1
    await one.exchange({"a": 7.0})
    assert await two.exchange({}) == {"a": 7.0}
