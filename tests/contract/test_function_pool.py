"""Functions in worker processes: results, errors, limits."""

import asyncio
import os
import time
from collections.abc import Iterator
from functools import partial

import pytest

from hedgerow.errors import Invalid
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import parse_select
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolLimits
from hedgerow.lib.workers.process import WorkerDied
from hedgerow.projects.validation import validate_text

LIMITS = PoolLimits(
    max_processes=1,
    max_waiting=2,
    max_waiting_per_sender=2,
    timeout_s=2.0,
    max_memory_bytes=1 << 30,
)


@pytest.fixture
def pool() -> Iterator[FunctionPool]:
    pool = FunctionPool(LIMITS)
    yield pool
    pool.close()


async def test_function_runs_in_another_process(pool: FunctionPool) -> None:
    assert await pool.run(os.getpid, "a") != os.getpid()
    assert await pool.run(partial(divmod, 7, 2), "a") == (3, 1)


async def test_errors_keep_their_details(pool: FunctionPool) -> None:
    with pytest.raises(Invalid) as refused:
        await pool.run(partial(validate_text, "name", "", 10), "a")
    error = refused.value
    assert (error.detail, error.attr, error.code) == (
        "This field may not be blank.",
        "name",
        "blank",
    )
    with pytest.raises(HogQLError) as positioned:
        await pool.run(partial(parse_select, "select\n (("), "a")
    assert positioned.value.detail == "Expected ), but the query ends at line 2, column 4."
    with pytest.raises(ZeroDivisionError):
        await pool.run(partial(divmod, 1, 0), "a")


async def test_limits_end_the_function(pool: FunctionPool) -> None:
    with pytest.raises(WorkerDied) as slow:
        await pool.run(partial(time.sleep, 60), "a")
    assert slow.value.timed_out
    with pytest.raises(WorkerDied) as large:
        await pool.run(partial(bytes, 4 << 30), "a")
    assert large.value.out_of_memory
    assert await pool.run(partial(divmod, 7, 2), "a") == (3, 1)


async def test_a_cancelled_call_ends_its_function(pool: FunctionPool) -> None:
    await pool.run(os.getpid, "a")
    calling = asyncio.create_task(pool.run(partial(time.sleep, 60), "a"))
    await asyncio.sleep(0.2)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await pool.run(partial(divmod, 7, 2), "a") == (3, 1)
