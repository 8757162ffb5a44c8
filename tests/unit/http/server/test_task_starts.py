"""How many handlers start in one iteration of the event loop, if they run after the slice."""

import asyncio
from functools import partial

import pytest

from hedgerow.http.server.request_queues import MAX_STARTED_TASKS, RequestQueues


@pytest.mark.parametrize("name", ["api", "probes"])
def test_handlers_in_tasks_start_in_several_iterations(name: str) -> None:
    """Their time is not part of the slice: all at once they would stop the event loop."""

    async def count_starts() -> list[int]:
        queues, started, counts = RequestQueues(), list[int](), list[int]()
        for number in range(3 * MAX_STARTED_TASKS):
            queues.add(getattr(queues, name), "sender", partial(started.append, number))
        for _ in range(4):
            await asyncio.sleep(0)
            counts.append(len(started))
        return counts

    counts = asyncio.run(count_starts())
    assert counts == [MAX_STARTED_TASKS * times for times in (1, 2, 3, 3)]


def test_a_waiting_api_request_does_not_hold_up_flags() -> None:
    async def count_flags() -> int:
        queues, started = RequestQueues(), list[int]()
        for number in range(20):
            queues.add(queues.api, "flood", lambda: None)
            queues.add(queues.flags, number, partial(started.append, number))
        await asyncio.sleep(0)
        return len(started)

    assert asyncio.run(count_flags()) == 20
