"""Readers wait for the events accepted before, and for nothing else."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hedgerow.ingestion.backpressure import AdmissionControl
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.store import UNKNOWN_PROJECT, InboxBacklog
from hedgerow.projects.model import ProjectId

ONE, TWO = ProjectId(1), ProjectId(2)
LONG_S = 30.0
LAST = 10**9


async def finishes_after(waiting: Coroutine[Any, Any, Any], *steps: Any) -> bool:
    """Return whether the coroutine finishes after these steps. It must not finish before."""
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


async def test_distinct_id_without_pending_events_is_processed() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob", "ann"])
    assert not progress.is_processed(ONE, ["ann"])
    assert progress.is_processed(ONE, ["cleo"])
    assert progress.is_processed(TWO, ["ann"])
    progress.mark_processed({ONE: 2})
    assert progress.is_processed(ONE, ["bob"])
    assert not progress.is_processed(ONE, ["ann"])
    progress.mark_processed({ONE: 1})
    assert progress.is_processed(ONE, ["ann"])
    assert progress.waiting == 3
    progress.mark_stored({ONE: 3})
    assert progress.waiting == 0


async def test_person_reader_waits_for_the_last_event_of_the_person() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob", "ann"])
    wait = progress.wait_until_processed(ONE, ["ann"], until=LAST, timeout_s=LONG_S)
    assert not await finishes_after(wait, lambda: progress.mark_processed({ONE: 2}))
    wait = progress.wait_until_processed(ONE, ["ann"], until=LAST, timeout_s=LONG_S)
    assert await finishes_after(wait, lambda: progress.mark_processed({ONE: 1}))


async def test_event_may_have_two_distinct_ids() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    progress.add_name(ONE, "before")
    assert not progress.is_processed(ONE, ["before"])
    progress.mark_processed({ONE: 1})
    assert progress.is_processed(ONE, ["before"])


async def test_listing_waits_only_for_events_accepted_before_it() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    wait = progress.wait_until_stored(ONE, timeout_s=LONG_S)
    assert await finishes_after(
        wait, lambda: progress.accept(ONE, ["bob"]), lambda: progress.mark_stored({ONE: 1})
    )


async def test_wait_ends_at_the_timeout() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    await asyncio.wait_for(progress.wait_until_stored(ONE, timeout_s=0.01), LONG_S)


async def test_restored_events_may_belong_to_any_person() -> None:
    progress = Progress()
    progress.restore(InboxBacklog(unprocessed={ONE: 2}, unstored={ONE: 3}))
    assert (progress.accepted, progress.processed, progress.waiting) == (5, 3, 5)
    assert not progress.is_processed(ONE, ["ann"])
    progress.mark_processed({ONE: 2})
    assert progress.is_processed(ONE, ["ann"])


async def test_readers_wait_for_restored_events_of_their_person_only() -> None:
    progress = Progress()
    progress.restore(InboxBacklog(unprocessed={ONE: 9, TWO: 1}, unstored={ONE: 3}))
    assert progress.has_unknown_names
    progress.accept(ONE, ["cleo"])
    waits = [
        asyncio.create_task(progress.wait_until_processed(ONE, [name], until=13, timeout_s=LONG_S))
        for name in ("ann", "bob", "cleo")
    ]
    await asyncio.sleep(0)
    progress.restore_names({ONE: {"ann": 4, "cleo": 2}, TWO: {"bob": 1}})
    assert not progress.has_unknown_names
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [wait.done() for wait in waits] == [False, True, False]
    assert progress.is_processed(ONE, ["bob"])
    assert not progress.is_processed(TWO, ["bob"])
    progress.mark_processed({ONE: 4})
    assert progress.is_processed(ONE, ["ann"])
    assert not progress.is_processed(ONE, ["cleo"])
    assert await asyncio.wait_for(waits[0], LONG_S)
    progress.mark_processed({ONE: 6, TWO: 1})
    assert progress.is_processed(TWO, ["bob"])
    assert progress.is_processed(ONE, ["cleo"])
    assert await asyncio.wait_for(waits[2], LONG_S)


async def test_restored_events_make_readers_time_out_until_they_are_processed() -> None:
    progress = Progress()
    progress.restore(InboxBacklog(unprocessed={ONE: 1_000_000}))
    for _ in range(2):
        wait = progress.wait_until_processed(ONE, ["ann"], until=LAST, timeout_s=0)
        assert not await wait
        assert not progress.is_processed(ONE, ["ann"])


async def test_reader_of_all_persons_waits_for_all_events() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob"])
    wait = progress.wait_until_all_processed(ONE, timeout_s=LONG_S)
    assert not await finishes_after(wait, lambda: progress.mark_processed({ONE: 1}))
    wait = progress.wait_until_all_processed(ONE, timeout_s=LONG_S)
    assert await finishes_after(
        wait, lambda: progress.accept(TWO, ["c"]), lambda: progress.mark_processed({ONE: 1})
    )


async def test_reader_wakes_the_poller() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    poller = asyncio.create_task(progress.wait_for_readers(idle_s=LONG_S))
    reading = progress.wait_until_stored(ONE, timeout_s=LONG_S)
    assert await finishes_after(
        reading, lambda: progress.mark_processed({ONE: 1}), lambda: progress.mark_stored({ONE: 1})
    )
    assert poller.done()
    await asyncio.wait_for(progress.wait_for_readers(idle_s=0), LONG_S)


async def test_new_work_wakes_workers() -> None:
    progress = Progress()
    processing = progress.wait_for_unprocessed(1, idle_s=LONG_S, linger_s=LONG_S)
    assert await finishes_after(processing, lambda: progress.accept(ONE, ["ann"]))
    storing = progress.wait_for_unstored(1, idle_s=LONG_S, linger_s=LONG_S)
    assert await finishes_after(storing, lambda: progress.mark_processed({ONE: 1}))


async def test_workers_linger_for_more_unless_a_reader_waits() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    await asyncio.wait_for(progress.wait_for_unprocessed(100, idle_s=LONG_S, linger_s=0.01), LONG_S)
    lingering = progress.wait_for_unprocessed(3, idle_s=LONG_S, linger_s=LONG_S)
    assert not await finishes_after(lingering, lambda: progress.accept(ONE, ["bob"]))
    lingering = progress.wait_for_unprocessed(3, idle_s=LONG_S, linger_s=LONG_S)
    assert await finishes_after(lingering, lambda: progress.accept(ONE, ["cleo"]))
    lingering = progress.wait_for_unprocessed(99, idle_s=LONG_S, linger_s=LONG_S)
    reading = asyncio.create_task(progress.wait_until_stored(ONE, timeout_s=LONG_S))
    await asyncio.sleep(0)
    await asyncio.wait_for(lingering, LONG_S)
    reading.cancel()


async def test_requests_are_rejected_if_the_inbox_or_the_disk_is_full() -> None:
    progress, free = Progress(), [100]
    admission = AdmissionControl(progress, lambda: free[0], max_waiting=2, min_free_bytes=50)
    await admission.refresh()
    assert admission.rejection_reason(ONE) is None
    progress.accept(ONE, ["ann", "bob"])
    assert "wait" in (admission.rejection_reason(ONE) or "")
    progress.mark_processed({ONE: 1})
    progress.mark_stored({ONE: 1})
    assert admission.rejection_reason(ONE) is None
    free[0] = 49
    assert admission.rejection_reason(ONE) is None
    await admission.refresh()
    assert "disk" in (admission.rejection_reason(ONE) or "")


async def test_observation_covers_events_accepted_before_it() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob"])
    observed = progress.list_unstored()
    progress.accept(ONE, ["cleo"])  # during the observation
    progress.observe(observed, InboxBacklog(unstored={ONE: 2}))
    assert progress.is_processed(ONE, ["ann"])
    assert not progress.is_processed(ONE, ["cleo"])
    assert (progress.processed, progress.stored, progress.waiting) == (2, 0, 3)
    progress.observe(progress.list_unstored(), InboxBacklog())
    assert (progress.processed, progress.stored, progress.waiting) == (3, 3, 0)


async def test_events_of_other_processes_count_towards_the_inbox_limit() -> None:
    progress = Progress()
    admission = AdmissionControl(progress, lambda: 100, max_waiting=10, min_free_bytes=50)
    progress.observe({}, InboxBacklog(unprocessed={TWO: 7}, unstored={TWO: 3}))
    assert "wait" in (admission.rejection_reason(ONE) or "")
    progress.observe({}, InboxBacklog(unprocessed={TWO: 7}, unstored={TWO: 2}))
    assert admission.rejection_reason(ONE) is None


async def test_readers_do_not_wait_for_other_projects() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann"])
    progress.accept(TWO, ["ann", "bob"])
    reading = progress.wait_until_stored(ONE, timeout_s=LONG_S)
    assert await finishes_after(
        reading, lambda: progress.mark_processed({ONE: 1}), lambda: progress.mark_stored({ONE: 1})
    )
    assert progress.is_all_processed(ONE)
    assert progress.is_all_stored(ONE)
    assert not progress.is_all_stored(TWO)
    assert not progress.is_all_stored(None)
    assert (progress.count_waiting(ONE), progress.count_waiting(TWO)) == (0, 2)


async def test_readers_wait_for_stored_events_of_unknown_projects() -> None:
    progress = Progress()
    progress.restore(InboxBacklog(unstored={UNKNOWN_PROJECT: 2}))
    progress.accept(ONE, ["ann"])
    progress.mark_processed({ONE: 1})
    reading = progress.wait_until_stored(ONE, timeout_s=LONG_S)
    assert await finishes_after(
        reading,
        lambda: progress.mark_stored({ONE: 1}),
        lambda: progress.mark_stored({UNKNOWN_PROJECT: 2}),
    )


async def test_observed_events_of_unknown_projects_may_be_of_any() -> None:
    progress = Progress()
    progress.accept(ONE, ["ann", "bob"])
    progress.observe(progress.list_unstored(), InboxBacklog(unprocessed={UNKNOWN_PROJECT: 1}))
    assert (progress.count_waiting(ONE), progress.waiting) == (1, 1)
