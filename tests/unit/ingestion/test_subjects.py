"""Who asks for somebody whose events are on their way waits for them, and may go away meanwhile."""

import asyncio

import pytest

from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.subjects import FreshSubjects
from hedgerow.projects.model import ProjectId
from tests.unit.flags.stores import ListSubjects

ONE = ProjectId(1)
LONG_S = 30.0


async def test_somebody_is_read_once_their_events_are_settled() -> None:
    progress, stored = Progress(), ListSubjects()
    fresh = FreshSubjects(stored, progress, at_most_s=LONG_S)
    progress.accept(ONE, ["ann"])
    waiting = asyncio.create_task(fresh.subject(ONE, "ann", {}))
    assert (await fresh.subject(ONE, "bob", {})).properties == {}
    await asyncio.sleep(0)
    assert not waiting.done()
    stored.put("ann", plan="pro")
    progress.settle(1)
    assert (await asyncio.wait_for(waiting, LONG_S)).properties == {"plan": "pro"}


async def test_nobody_is_read_for_who_goes_away() -> None:
    progress, stored = Progress(), ListSubjects()
    progress.accept(ONE, ["ann"])
    waiting = asyncio.create_task(
        FreshSubjects(stored, progress, at_most_s=LONG_S).subject(ONE, "ann", {})
    )
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert stored.calls == []
