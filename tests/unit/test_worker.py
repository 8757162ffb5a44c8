import asyncio
import contextlib
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from hedgerow import worker
from hedgerow.errors import Unavailable
from hedgerow.worker import MAX_PAUSE_S, MENDED_S, Chore, Failing, work
from tests.unit.fake_time import FakeTime

AWAY = Unavailable("The database does not answer.")
BROKEN = ValueError("a defect")


class Script:
    """What a chore does on each turn: fail with an error, or take some seconds. Then it is done."""

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
def _worker_time(monkeypatch: pytest.MonkeyPatch, fake_time: FakeTime) -> None:
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=fake_time.monotonic))


async def worked(chores: Sequence[Chore], *until: Script) -> list[EventDict]:
    """Work until the scripts are played, then stop; gives back what was logged meanwhile."""
    with capture_logs() as lines:
        working = asyncio.create_task(work(chores))
        async with asyncio.timeout(10):
            for script in until:
                await script.done.wait()
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    return lines


def about(pauses_s: list[float]) -> object:
    return pytest.approx(pauses_s, abs=0.001)


def chore(script: Script, *, every_s: float = 1.0, backs_off: bool = True) -> Chore:
    return Chore(name="sweep", every_s=every_s, run=script.run, backs_off=backs_off)


@pytest.mark.parametrize("every_s", [0.5, 20.0, 3600.0])
async def test_a_chore_that_works_runs_as_often_as_it_says(
    fake_time: FakeTime, every_s: float
) -> None:
    script = Script(fake_time, 0.0, 0.0)
    assert await worked([chore(script, every_s=every_s)], script) == []
    assert fake_time.slept[:2] == about([every_s, every_s])


async def test_the_time_a_chore_takes_is_part_of_its_interval(fake_time: FakeTime) -> None:
    script = Script(fake_time, 0.25, 5.0)
    await worked([chore(script)], script)
    assert fake_time.slept[:2] == about([0.75, 0.0])


async def test_a_chore_that_raises_does_not_stop_the_others(fake_time: FakeTime) -> None:
    failing = Script(fake_time, *[BROKEN] * 5)
    working = Script(fake_time, *[0.0] * 5)
    await worked([chore(failing), chore(working)], failing, working)
    assert failing.ran >= 6
    assert working.ran >= 6


async def test_a_failing_chore_waits_twice_as_long_each_time_up_to_a_limit(
    fake_time: FakeTime,
) -> None:
    script = Script(fake_time, *[AWAY] * 8)
    await worked([chore(script)], script)
    assert fake_time.slept[:8] == about([2.0, 4.0, 8.0, 16.0, *[MAX_PAUSE_S] * 4])


async def test_after_a_success_a_chore_is_back_to_its_interval(fake_time: FakeTime) -> None:
    script = Script(fake_time, AWAY, AWAY, 0.0, 0.0)
    await worked([chore(script)], script)
    assert fake_time.slept[:4] == about([2.0, 4.0, 1.0, 1.0])


async def test_a_chore_that_does_not_back_off_keeps_its_pace(fake_time: FakeTime) -> None:
    script = Script(fake_time, *[AWAY] * 4)
    await worked([chore(script, backs_off=False)], script)
    assert fake_time.slept[:4] == about([1.0] * 4)


@pytest.mark.parametrize("times", [1, 3])
async def test_waiting_for_a_database_is_said_once_and_so_is_its_return(
    fake_time: FakeTime, times: int
) -> None:
    script = Script(fake_time, *[AWAY] * times, 0.0)
    lines = await worked([chore(script)], script)
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("warning", "chore has to wait"),
        ("info", "chore works again"),
    ]
    assert lines[0]["chore"] == "sweep"
    assert lines[0]["reason"] == "The database does not answer."
    assert lines[1]["failures"] == times


async def test_a_defect_is_an_error_with_its_traceback(fake_time: FakeTime) -> None:
    script = Script(fake_time, BROKEN)
    lines = await worked([chore(script)], script)
    assert lines[0]["log_level"] == "error"
    assert lines[0]["exc_info"] is BROKEN


async def test_a_lasting_defect_is_not_told_at_the_pace_of_the_chore(fake_time: FakeTime) -> None:
    """Twice a second for a night would bury everything else in the log."""
    script = Script(fake_time, *[BROKEN] * 100)
    lines = await worked([chore(script, every_s=0.5, backs_off=False)], script)
    errors = [line for line in lines if line["log_level"] == "error"]
    assert 1 <= len(errors) <= 10


async def test_cancelling_ends_all_chores(fake_time: FakeTime) -> None:
    script = Script(fake_time)
    await worked([chore(script)], script)
    left = [task for task in asyncio.all_tasks() if task.get_name() == "sweep"]
    assert left == []


async def test_a_chore_that_is_cancelled_from_within_is_tried_again(fake_time: FakeTime) -> None:
    script = Script(fake_time, asyncio.CancelledError(), 0.0)
    lines = await worked([Chore(name="deliver", every_s=1, run=script.run)], script)
    assert [line["event"] for line in lines] == ["chore failed", "chore works again"]
    assert script.ran >= 3


async def test_whoever_watches_is_told_what_fails(fake_time: FakeTime) -> None:
    failing = Failing()
    seen: list[int] = []

    async def look() -> None:
        seen.append(failing.number())

    bad = Script(fake_time, BROKEN, AWAY)
    chores = [
        Chore(name="fails", every_s=1, run=bad.run),
        Chore(name="looks", every_s=1, run=look),
    ]
    working = asyncio.create_task(work(chores, failing))
    async with asyncio.timeout(10):
        await bad.done.wait()
    await asyncio.sleep(1)
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    assert 1 in seen
    assert failing.number() == 0
    failing.ended(chores[0], failed=True)
    fake_time.advance(MENDED_S + 1)
    assert failing.number() == 1, "it is not tried again yet"
    failing.began(chores[0])
    assert failing.number() == 1
    fake_time.advance(MENDED_S + 1)
    assert failing.number() == 0, "it goes on"
