"""Who reads waits for what was accepted before, and for nothing else."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.room import Room
from hedgerow.projects.model import ProjectId

ONE, TWO = ProjectId(1), ProjectId(2)
LONG_S = 30.0


async def is_done_after(waiting: Coroutine[Any, Any, None], *steps: Any) -> bool:
    """Whether somebody who waits goes on after these steps and not before."""
    task = asyncio.create_task(waiting)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    for step in steps:
        step()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    done = task.done()
    task.cancel()
    return done


async def test_somebody_without_events_on_their_way_is_settled() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob", "ann"])
    assert not progress.is_settled((ONE, "ann"))
    assert progress.is_settled((ONE, "cleo"))
    assert progress.is_settled((TWO, "ann"))
    progress.settle(2)
    assert progress.is_settled((ONE, "bob"))
    assert not progress.is_settled((ONE, "ann"))
    progress.settle(1)
    assert progress.is_settled((ONE, "ann"))
    assert progress.waiting == 3
    progress.store(3)
    assert progress.waiting == 0


async def test_who_reads_a_person_waits_until_their_last_event_is_settled() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob", "ann"])
    wait = progress.wait_until_settled((ONE, "ann"), at_most_s=LONG_S)
    assert not await is_done_after(wait, lambda: progress.settle(2))
    wait = progress.wait_until_settled((ONE, "ann"), at_most_s=LONG_S)
    assert await is_done_after(wait, lambda: progress.settle(1))


async def test_an_event_may_be_about_two() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    progress.also(ONE, "before")
    assert not progress.is_settled((ONE, "before"))
    progress.settle(1)
    assert progress.is_settled((ONE, "before"))


async def test_who_lists_waits_for_what_was_accepted_before_and_not_for_what_comes_after() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    wait = progress.wait_until_stored(at_most_s=LONG_S)
    assert await is_done_after(
        wait, lambda: progress.accept(ONE, ["bob"]), lambda: progress.store(1)
    )


async def test_waiting_ends_after_a_while() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    await asyncio.wait_for(progress.wait_until_stored(at_most_s=0.01), LONG_S)


async def test_what_a_process_before_left_behind_may_be_anybodys() -> None:
    progress = Progress()
    progress.begin(unsettled=2, unstored=3)
    assert (progress.accepted, progress.settled, progress.waiting) == (5, 3, 5)
    assert not progress.is_settled((ONE, "ann"))
    progress.settle(2)
    assert progress.is_settled((ONE, "ann"))


async def test_who_waited_in_vain_for_what_was_left_behind_waited_for_all() -> None:
    """Or everybody would wait, for as long as it takes to work off a large inbox."""
    progress = Progress()
    progress.begin(unsettled=1_000_000, unstored=0)
    progress.accept(ONE, ["bob"])
    await progress.wait_until_settled((ONE, "bob"), at_most_s=0)
    assert not progress.is_settled((ONE, "ann"))
    await progress.wait_until_settled((ONE, "ann"), at_most_s=0)
    assert progress.is_settled((ONE, "ann"))
    assert not progress.is_settled((ONE, "bob"))


async def test_who_reads_everybody_waits_for_all() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob"])
    wait = progress.wait_until_all_settled(at_most_s=LONG_S)
    assert not await is_done_after(wait, lambda: progress.settle(1))
    wait = progress.wait_until_all_settled(at_most_s=LONG_S)
    assert await is_done_after(
        wait, lambda: progress.accept(TWO, ["c"]), lambda: progress.settle(1)
    )


async def test_who_looks_is_woken_by_who_reads() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    looking = asyncio.create_task(progress.wait_for_readers(idle_s=LONG_S))
    reading = progress.wait_until_stored(at_most_s=LONG_S)
    assert await is_done_after(reading, lambda: progress.settle(1), lambda: progress.store(1))
    assert looking.done()
    await asyncio.wait_for(progress.wait_for_readers(idle_s=0), LONG_S)


async def test_workers_are_woken_by_what_there_is_to_do() -> None:
    progress = Progress()
    settling = progress.wait_for_unsettled(1, idle_s=LONG_S, linger_s=LONG_S)
    assert await is_done_after(settling, lambda: progress.accept(ONE, ["ann"]))
    storing = progress.wait_for_unstored(1, idle_s=LONG_S, linger_s=LONG_S)
    assert await is_done_after(storing, lambda: progress.settle(1))


async def test_workers_linger_for_more_unless_somebody_wants_to_read() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    await asyncio.wait_for(progress.wait_for_unsettled(100, idle_s=LONG_S, linger_s=0.01), LONG_S)
    lingering = progress.wait_for_unsettled(3, idle_s=LONG_S, linger_s=LONG_S)
    assert not await is_done_after(lingering, lambda: progress.accept(ONE, ["bob"]))
    lingering = progress.wait_for_unsettled(3, idle_s=LONG_S, linger_s=LONG_S)
    assert await is_done_after(lingering, lambda: progress.accept(ONE, ["cleo"]))
    lingering = progress.wait_for_unsettled(99, idle_s=LONG_S, linger_s=LONG_S)
    reading = asyncio.create_task(progress.wait_until_stored(at_most_s=LONG_S))
    await asyncio.sleep(0)
    await asyncio.wait_for(lingering, LONG_S)
    reading.cancel()


async def test_room_is_lacking_when_too_much_waits_or_the_disk_is_full() -> None:
    progress, free = Progress(), [100]
    room = Room(progress, lambda: free[0], max_waiting=2, min_free_bytes=50)
    await room.look()
    assert room.lack() is None
    progress.accept(ONE, ["ann", "bob"])
    assert "wait" in (room.lack() or "")
    progress.settle(1)
    progress.store(1)
    assert room.lack() is None
    free[0] = 49
    assert room.lack() is None
    await room.look()
    assert "disk" in (room.lack() or "")


async def test_what_others_work_on_counts_as_far_as_was_looked_at() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob"])
    looked_at = progress.accepted
    progress.accept(ONE, ["cleo"])  # while somebody looks
    progress.observe(looked_at, unsettled=0, unstored=2)
    assert progress.is_settled((ONE, "ann"))
    assert not progress.is_settled((ONE, "cleo"))
    assert (progress.settled, progress.stored, progress.waiting) == (2, 0, 3)
    progress.observe(progress.accepted, unsettled=0, unstored=0)
    assert (progress.settled, progress.stored, progress.waiting) == (3, 3, 0)


async def test_room_is_lacking_when_all_processes_together_have_too_much_waiting() -> None:
    progress = Progress()
    room = Room(progress, lambda: 100, max_waiting=10, min_free_bytes=50)
    progress.observe(0, unsettled=7, unstored=3)
    assert "wait" in (room.lack() or "")
    progress.observe(0, unsettled=7, unstored=2)
    assert room.lack() is None
