"""Who reads waits for the engine to be loaded, and only then the time runs."""

import asyncio

import pytest

from hedgerow.errors import Unavailable, Unready
from hedgerow.ingestion.arrivals import Arrivals
from hedgerow.ingestion.progress import Progress
from hedgerow.projects.model import ProjectId

ONE = ProjectId(1)
LONG_S = 30.0


class Engine:
    def __init__(self, failure: Exception | None = None) -> None:
        self.loaded = asyncio.Event()
        self.asked = 0
        self._failure = failure

    async def load(self) -> None:
        self.asked += 1
        if self._failure:
            raise self._failure
        await self.loaded.wait()


async def test_the_time_does_not_run_while_the_engine_is_loaded() -> None:
    progress, engine = Progress(), Engine()
    progress.accept(ONE, ["ann"])
    reading = asyncio.create_task(Arrivals(progress, engine.load, at_most_s=0.01).stored())
    await asyncio.sleep(0.05)
    assert not reading.done()
    engine.loaded.set()
    await asyncio.wait_for(reading, LONG_S)


async def test_the_engine_is_not_loaded_for_nothing() -> None:
    progress, engine = Progress(), Engine()
    await Arrivals(progress, engine.load, at_most_s=LONG_S).stored()
    await Arrivals(progress, engine.load, at_most_s=LONG_S).settled()
    progress.accept(ONE, ["ann"])
    await Arrivals(progress, engine.load, at_most_s=0).stored()
    assert engine.asked == 0


@pytest.mark.parametrize("failure", [Unready("broken"), Unavailable("away")])
async def test_an_engine_that_cannot_be_loaded_is_waited_for_no_longer(failure: Exception) -> None:
    progress, engine = Progress(), Engine(failure)
    progress.accept(ONE, ["ann"])
    await asyncio.wait_for(Arrivals(progress, engine.load, at_most_s=0.01).stored(), LONG_S)
    assert engine.asked == 1
