import asyncio
import contextlib
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from hedgerow.app import periodic_tasks
from hedgerow.app.periodic_tasks import (
    MAX_BACKOFF_S,
    RECOVERED_AFTER_S,
    PeriodicTask,
    TaskHealth,
    run_tasks,
)
from hedgerow.errors import Unavailable
from tests.unit.fake_time import FakeTime

UNAVAILABLE = Unavailable("The database does not answer.")
BROKEN = ValueError("a defect")


class Script:
    """A task that in each run fails with an error or takes some seconds, and then is done."""

    def __init__(self, time: FakeTime, *turns: BaseException | float) -> None:
        self._time = time
        self._turns = list(turns)
        self.ran = 0
        self.done = asyncio.Event()

    async def run(self) -> None:
        self.ran += 1
        if not self._turns:
            self.done.set()
            return
        turn = self._turns.pop(0)
        if isinstance(turn, BaseException):
            raise turn
        self._time.advance(turn)


@pytest.fixture(autouse=True)
def _use_fake_time(monkeypatch: pytest.MonkeyPatch, fake_time: FakeTime) -> None:
    monkeypatch.setattr(periodic_tasks, "time", SimpleNamespace(monotonic=fake_time.monotonic))


async def run_until_done(tasks: Sequence[PeriodicTask], *until: Script) -> list[EventDict]:
    """Run the tasks until the scripts are done, and return the log lines."""
    with capture_logs() as lines:
        running = asyncio.create_task(run_tasks(tasks))
        async with asyncio.timeout(10):
            for script in until:
                await script.done.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    return lines


def approximately(pauses_s: list[float]) -> object:
    return pytest.approx(pauses_s, abs=0.001)


def task(script: Script, *, interval_s: float = 1.0, has_backoff: bool = True) -> PeriodicTask:
    return PeriodicTask(
        name="sweep", interval_s=interval_s, run=script.run, has_backoff=has_backoff
    )


@pytest.mark.parametrize("interval_s", [0.5, 20.0, 3600.0])
async def test_task_runs_at_its_interval(fake_time: FakeTime, interval_s: float) -> None:
    script = Script(fake_time, 0.0, 0.0)
    assert await run_until_done([task(script, interval_s=interval_s)], script) == []
    assert fake_time.slept[:2] == approximately([interval_s, interval_s])


async def test_run_time_counts_towards_the_interval(fake_time: FakeTime) -> None:
    script = Script(fake_time, 0.25, 5.0)
    await run_until_done([task(script)], script)
    assert fake_time.slept[:2] == approximately([0.75, 0.0])


async def test_failing_task_does_not_stop_others(fake_time: FakeTime) -> None:
    failing = Script(fake_time, *[BROKEN] * 5)
    running = Script(fake_time, *[0.0] * 5)
    await run_until_done([task(failing), task(running)], failing, running)
    assert failing.ran >= 6
    assert running.ran >= 6


async def test_backoff_doubles_up_to_a_limit(
    fake_time: FakeTime,
) -> None:
    script = Script(fake_time, *[UNAVAILABLE] * 8)
    await run_until_done([task(script)], script)
    assert fake_time.slept[:8] == approximately([2.0, 4.0, 8.0, 16.0, *[MAX_BACKOFF_S] * 4])


async def test_success_resets_the_backoff(fake_time: FakeTime) -> None:
    script = Script(fake_time, UNAVAILABLE, UNAVAILABLE, 0.0, 0.0)
    await run_until_done([task(script)], script)
    assert fake_time.slept[:4] == approximately([2.0, 4.0, 1.0, 1.0])


async def test_task_without_backoff_keeps_its_interval(fake_time: FakeTime) -> None:
    script = Script(fake_time, *[UNAVAILABLE] * 4)
    await run_until_done([task(script, has_backoff=False)], script)
    assert fake_time.slept[:4] == approximately([1.0] * 4)


@pytest.mark.parametrize("times", [1, 3])
async def test_waiting_and_recovery_are_each_logged_once(fake_time: FakeTime, times: int) -> None:
    script = Script(fake_time, *[UNAVAILABLE] * times, 0.0)
    lines = await run_until_done([task(script)], script)
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("warning", "background task is waiting"),
        ("info", "background task recovered"),
    ]
    assert lines[0]["task"] == "sweep"
    assert lines[0]["reason"] == "The database does not answer."
    assert lines[1]["failures"] == times


async def test_unexpected_error_is_logged_with_traceback(fake_time: FakeTime) -> None:
    script = Script(fake_time, BROKEN)
    lines = await run_until_done([task(script)], script)
    assert lines[0]["log_level"] == "error"
    assert lines[0]["exc_info"] is BROKEN


async def test_repeated_failures_are_logged_at_a_falling_rate(fake_time: FakeTime) -> None:
    """A log line for each run would hide everything else in the log."""
    script = Script(fake_time, *[BROKEN] * 100)
    lines = await run_until_done([task(script, interval_s=0.5, has_backoff=False)], script)
    errors = [line for line in lines if line["log_level"] == "error"]
    assert 1 <= len(errors) <= 10


async def test_cancelling_ends_all_tasks(fake_time: FakeTime) -> None:
    script = Script(fake_time)
    await run_until_done([task(script)], script)
    left = [each for each in asyncio.all_tasks() if each.get_name() == "sweep"]
    assert left == []


async def test_task_cancelled_from_within_runs_again(fake_time: FakeTime) -> None:
    script = Script(fake_time, asyncio.CancelledError(), 0.0)
    lines = await run_until_done(
        [PeriodicTask(name="deliver", interval_s=1, run=script.run)], script
    )
    assert [line["event"] for line in lines] == [
        "background task failed",
        "background task recovered",
    ]
    assert script.ran >= 3


async def test_health_counts_failing_tasks(fake_time: FakeTime) -> None:
    health = TaskHealth()
    counts: list[int] = []

    async def record_count() -> None:
        counts.append(health.failing_count())

    bad = Script(fake_time, BROKEN, UNAVAILABLE)
    tasks = [
        PeriodicTask(name="fails", interval_s=1, run=bad.run),
        PeriodicTask(name="counts", interval_s=1, run=record_count),
    ]
    with capture_logs():
        running = asyncio.create_task(run_tasks(tasks, health))
        async with asyncio.timeout(10):
            await bad.done.wait()
        await asyncio.sleep(1)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert 1 in counts
    assert health.failing_count() == 0
    health.record_end(tasks[0], failed=True)
    fake_time.advance(RECOVERED_AFTER_S + 1)
    assert health.failing_count() == 1, "the next run has not started"
    health.record_start(tasks[0])
    assert health.failing_count() == 1
    fake_time.advance(RECOVERED_AFTER_S + 1)
    assert health.failing_count() == 0, "the run has lasted long enough"
