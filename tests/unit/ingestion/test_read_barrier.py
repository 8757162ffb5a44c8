"""Readers wait for earlier events; the timeout starts once the event store is open."""

import asyncio

import pytest

from hedgerow.errors import OperatorError, Unavailable
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.read_barrier import (
    MAX_WAITING_PER_PROJECT,
    FreshEvaluationData,
    ReadBarrier,
)
from hedgerow.lib.stale_reads import watch_reads
from hedgerow.projects.model import ProjectId
from tests.unit.flags.stores import FakeEvaluationDataStore

ONE, TWO = ProjectId(1), ProjectId(2)
LONG_S = 30.0


class Engine:
    def __init__(self, failure: Exception | None = None) -> None:
        self.loaded = asyncio.Event()
        self.loads = 0
        self._failure = failure

    async def load(self) -> None:
        self.loads += 1
        if self._failure:
            raise self._failure
        await self.loaded.wait()


async def test_timeout_starts_after_the_engine_is_loaded() -> None:
    progress, engine = Progress(), Engine()
    progress.accept(ONE, ["ann"])
    reading = asyncio.create_task(
        ReadBarrier(progress, engine.load, timeout_s=0.01).wait_until_stored()
    )
    await asyncio.sleep(0.05)
    assert not reading.done()
    engine.loaded.set()
    await asyncio.wait_for(reading, LONG_S)


async def test_engine_is_not_loaded_without_pending_events() -> None:
    progress, engine = Progress(), Engine()
    await ReadBarrier(progress, engine.load, timeout_s=LONG_S).wait_until_stored()
    await ReadBarrier(progress, engine.load, timeout_s=LONG_S).wait_until_processed(ONE)
    progress.accept(ONE, ["ann"])
    await ReadBarrier(progress, engine.load, timeout_s=0).wait_until_stored()
    assert engine.loads == 0


@pytest.mark.parametrize("failure", [OperatorError("broken"), Unavailable("unavailable")])
async def test_engine_that_fails_to_load_does_not_block_readers(failure: Exception) -> None:
    progress, engine = Progress(), Engine(failure)
    progress.accept(ONE, ["ann"])
    await asyncio.wait_for(
        ReadBarrier(progress, engine.load, timeout_s=0.01).wait_until_stored(), LONG_S
    )
    assert engine.loads == 1


async def test_reader_that_waited_in_vain_is_reported_as_stale() -> None:
    progress, reads = Progress(), watch_reads()
    barrier = ReadBarrier(progress, Engine(Unavailable("no disk")).load, timeout_s=0.01)
    for wait in (barrier.wait_until_stored, barrier.wait_until_processed):
        await wait(ONE)
        assert not reads.are_stale
    progress.accept(ONE, ["ann"])
    for wait in (barrier.wait_until_stored, barrier.wait_until_processed):
        reads.are_stale = False
        await wait(ONE)
        assert reads.are_stale


async def test_evaluation_data_is_loaded_after_the_events_are_processed() -> None:
    progress, stored = Progress(), FakeEvaluationDataStore()
    fresh = FreshEvaluationData(stored, progress, None, timeout_s=LONG_S)
    progress.accept(ONE, ["ann"])
    loading = asyncio.create_task(fresh.load(ONE, "ann", {}))
    assert (await fresh.load(ONE, "bob", {})).properties == {}
    await asyncio.sleep(0)
    assert not loading.done()
    stored.put("ann", plan="pro")
    progress.mark_processed({ONE: 1})
    assert (await asyncio.wait_for(loading, LONG_S)).properties == {"plan": "pro"}


async def test_cancelled_load_reads_nothing() -> None:
    progress, stored = Progress(), FakeEvaluationDataStore()
    progress.accept(ONE, ["ann"])
    loading = asyncio.create_task(
        FreshEvaluationData(stored, progress, None, timeout_s=LONG_S).load(ONE, "ann", {})
    )
    await asyncio.sleep(0)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert stored.calls == []


async def test_evaluation_data_includes_events_of_other_ids_of_the_person() -> None:
    progress, stored = Progress(), FakeEvaluationDataStore()
    fresh = FreshEvaluationData(stored, progress, None, timeout_s=LONG_S)
    stored.put("ann", "before")
    progress.accept(ONE, ["before"])
    loading = asyncio.create_task(fresh.load(ONE, "ann", {}))
    await asyncio.sleep(0.01)
    assert not loading.done()
    # Merged meanwhile, and the other one has an accepted event, too.
    progress.accept(ONE, ["third"])
    stored.put("ann", "before", "third", plan="pro")
    progress.mark_processed({ONE: 1})
    assert (await asyncio.wait_for(loading, LONG_S)).properties == {"plan": "pro"}


async def test_a_project_cannot_fill_the_queue_with_waiting_evaluations() -> None:
    progress, stored = Progress(), FakeEvaluationDataStore()
    fresh = FreshEvaluationData(stored, progress, None, timeout_s=LONG_S)
    progress.accept(ONE, ["ann"])
    progress.accept(TWO, ["bob"])
    waiting = [
        asyncio.create_task(fresh.load(ONE, "ann", {})) for _ in range(MAX_WAITING_PER_PROJECT)
    ]
    await asyncio.sleep(0.01)
    assert not any(each.done() for each in waiting)
    assert (await asyncio.wait_for(fresh.load(ONE, "ann", {}), LONG_S)).is_stale
    other = asyncio.create_task(fresh.load(TWO, "bob", {}))
    await asyncio.sleep(0.01)
    assert not other.done()
    progress.mark_processed({ONE: 1, TWO: 1})
    assert not any(each.is_stale for each in await asyncio.gather(*waiting, other))
    assert not (await fresh.load(ONE, "ann", {})).is_stale
