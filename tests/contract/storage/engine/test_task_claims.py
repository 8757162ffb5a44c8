"""One of several processes runs a periodic task."""

import asyncio

import pytest

from hedgerow.storage.engine.task_claims import TaskClaims
from tests.contract.storage.conftest import Stores, run_sql

TASK = "sweep the floor"
LONG_S = 3600.0
SHORT_S = 0.05


async def test_one_process_runs_a_task_per_interval(stores: Stores) -> None:
    runs = []

    async def work() -> None:
        runs.append(TASK)

    for _ in range(2):
        await TaskClaims(stores.database).run(TASK, LONG_S, work)
    assert len(runs) == (2 if stores.location.is_sqlite else 1)


async def test_claim_lasts_as_long_as_its_task_runs(stores: Stores) -> None:
    if stores.location.is_sqlite:
        pytest.skip("there is one process")
    claims, ended = TaskClaims(stores.database), asyncio.Event()

    def read_time() -> object:
        found = run_sql(stores.location, "SELECT claimed_at FROM task_claims")
        return found[0][0] if found else None

    async def work() -> None:
        before = read_time()
        while read_time() == before:
            await asyncio.sleep(SHORT_S)
        ended.set()

    await asyncio.wait_for(claims.run(TASK, SHORT_S, work), 60)
    assert ended.is_set()
    last = read_time()
    await asyncio.sleep(4 * SHORT_S)
    assert read_time() == last
    assert await claims.claim(TASK, SHORT_S)
