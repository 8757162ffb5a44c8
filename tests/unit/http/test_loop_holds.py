"""Holds of the event loop are metrics and log lines."""

import asyncio
import time

import uvloop
from structlog.testing import capture_logs

from hedgerow.http.loop_holds import count_loop_holds
from hedgerow.http.server.metrics import Metrics


async def _hold() -> None:
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass


def test_holds_are_counted_and_logged_once_a_minute() -> None:
    metrics = Metrics(tuple)

    async def run() -> None:
        async with count_loop_holds(metrics):
            for _ in range(2):
                await asyncio.sleep(0.1)
                await asyncio.create_task(_hold())
            await asyncio.sleep(0.1)

    with capture_logs() as logs, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    families = {each.name: each for each in metrics.collect()}
    [holds] = families["hedgerow_event_loop_holds"].samples
    [seconds] = families["hedgerow_event_loop_hold_seconds"].samples
    assert holds.value == 2
    assert 0.2 < seconds.value < 1
    [line] = logs
    assert line["event"] == "the event loop was held"
    assert line["handler"] == holds.labels["handler"]
    assert line["stack"][-1].endswith("_hold")
