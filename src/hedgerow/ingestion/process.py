"""Process captured events in two steps: transform them and update their persons, then store them.

Each step ends in a durable row and can be repeated from any point. An event that cannot be
processed becomes a dead letter and does not block other events.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from hedgerow.definitions.learn import DefinitionLearner
from hedgerow.errors import Unavailable
from hedgerow.events.model import Event, EventKey
from hedgerow.events.store import EventStore
from hedgerow.ingestion.behavior_stage import BehaviorStage
from hedgerow.ingestion.deduplication import Deduplicator, ProcessedEvents, row_keys
from hedgerow.ingestion.fan_out import FanOut
from hedgerow.ingestion.inbox_watch import POLL_INTERVAL_S, InboxWatch
from hedgerow.ingestion.model import CapturedEvent, InboxRow, ProcessedRow
from hedgerow.ingestion.persons.changes import PersonBatchResult
from hedgerow.ingestion.persons.enrich import LocateIp
from hedgerow.ingestion.persons.loaded_state import LoadedState
from hedgerow.ingestion.persons.process import process_batch
from hedgerow.ingestion.poison_isolation import BatchBisector, IsDataError, OnDeadLetter
from hedgerow.ingestion.progress import Progress
from hedgerow.ingestion.schema_stage import CheckedRows, SchemaStage
from hedgerow.ingestion.store import (
    BACKLOG_BATCH_EVENTS,
    PROCESS_BATCH_EVENTS,
    STORE_BATCH_EVENTS,
    InboxStore,
    ProcessingResult,
)
from hedgerow.ingestion.transform_stage import TransformStage
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.pipelines.deliveries.routing import RoutingStage
from hedgerow.projects.model import ProjectId

FLAG_CALLED = "$feature_flag_called"
T = TypeVar("T")

# How long to wait for a full batch: large transactions and event store blocks are cheaper.
PROCESS_LINGER_S = 0.05
STORE_LINGER_S = 0.5
# A worker of several processes the bucket of another one whose first event does not change for this
# time.
STALLED_S = 0.5
# How many buckets one of several workers processes before it looks whether a reader waits.
BUCKETS_PER_TURN = 4
# How many buckets a worker processes at the same time, and how many it stores: it mostly waits for
# the database and for the event store.
CONCURRENT_BUCKETS = 4
# Under load a worker pauses for this multiple of its working time, so that requests are answered.
PAUSE_FACTOR = 4
MAX_PAUSE_S = 2.0
# A pause ends when no event has arrived for this time.
QUIET_S = 0.25
# With more waiting events than this it does not pause, and its batches are larger: requests must
# not fill the inbox.
MAX_PAUSE_BACKLOG = 5_000
# One of several workers takes so many events of a bucket: other projects wait in other buckets,
# whose turn comes after it.
SHARED_BATCH_EVENTS = 250
# A stopping worker does not wait for a hanging database: leases expire.
RELEASE_TIMEOUT_S = 2.0
MAX_FLAG_TEXT_CHARS = 400


class Processor:
    """One worker. The only worker tracks progress by counting. One of several has a `watch`, looks
    for work in the database, and estimates the progress (`poll_backlog`). `idle_s` is the longest
    wait for new events."""

    def __init__(  # noqa: PLR0913 - collaborators, all named
        self,
        *,
        inbox: InboxStore,
        events: EventStore,
        progress: Progress,
        watch: InboxWatch | None,
        idle_s: float,
        locate_ip: LocateIp,
        transform_stage: TransformStage,
        schema_stage: SchemaStage,
        learner: DefinitionLearner,
        routing: RoutingStage,
        is_data_error: IsDataError,
        on_dead_letter: OnDeadLetter,
        clock: Clock,
    ) -> None:
        self._inbox = inbox
        self._events = events
        self._progress = progress
        self._watch = watch
        self._is_only_worker = watch is None
        self._idle_s = idle_s
        self._locate_ip = locate_ip
        self._transform_stage = transform_stage
        self._schema_stage = schema_stage
        self._learner = learner
        self._behavior_stage = BehaviorStage()
        self._rejected_count = 0
        self._fan_out = FanOut(inbox, routing, progress, self._mark_stored, clock)
        self._clock = clock
        self._process_bisector = BatchBisector(
            "process",
            PROCESS_BATCH_EVENTS,
            is_data_error,
            on_dead_letter,
            self._dead_letter_unprocessed,
        )
        self._store_bisector = BatchBisector(
            "store",
            STORE_BATCH_EVENTS,
            is_data_error,
            on_dead_letter,
            self._dead_letter_processed,
        )
        self._deduplicator = Deduplicator(events, is_only_worker=self._is_only_worker)
        # Events that this process has processed and stored.
        self.processed = self.stored = 0
        self._appends = 0
        # Of several workers: the bucket to begin with, when this worker looked for events, and the
        # first rows of buckets that it found then, with the time when it found them first.
        self._next_bucket = secrets.randbelow(inbox.bucket_count)
        self._looked_at = 0.0
        self._first_rows: dict[tuple[int, int], float] = {}
        self._has_unstored = asyncio.Event()
        # Of several workers: since when processed events wait, and the last reader they know of.
        self._unstored_since: float | None = None
        self._announcement = 0

    @property
    def dead_lettered(self) -> int:
        """The number of events that became dead letters in this process."""
        bisectors = self._process_bisector, self._store_bisector
        return self._rejected_count + sum(each.dead_letter_count for each in bisectors)

    async def _dead_letter_unprocessed(self, bucket: int, row: InboxRow, reason: str) -> bool:
        return await self._inbox.dead_letter_unprocessed(bucket, row, reason, self._clock())

    async def _dead_letter_processed(self, bucket: int, row: ProcessedRow, reason: str) -> bool:
        await self._inbox.dead_letter_processed(bucket, row, reason, self._clock())
        self._mark_stored([row])
        return True

    async def start(self) -> None:
        """Take over the backlog that the previous process left."""
        if not self._is_only_worker:
            return
        self._deduplicator.mark_processed(await self._inbox.list_pending_keys())
        self._progress.restore(await self._inbox.count_backlog())

    async def stop(self) -> None:
        """Release the leases, so that other workers continue without delay. The event store may
        still be writing a batch; it recognizes the same batch of another worker."""
        if self._is_only_worker:
            return
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._inbox.release_leases()

    async def process(self) -> None:
        """Wait for captured events, then process one batch of each bucket."""
        if self._progress.has_unknown_names:
            self._progress.restore_names(await self._inbox.list_unprocessed_names())
        if not self._process_bisector.is_isolating:
            await self._wait_for_unprocessed()
        accepted, processed, started = self._progress.accepted, self.processed, time.monotonic()
        if self._watch is None:
            await self._process_buckets([0])
        else:
            await self._process_shared_buckets(self._watch)
        is_falling_behind = self._progress.accepted - accepted > self.processed - processed
        if is_falling_behind and self._progress.waiting < MAX_PAUSE_BACKLOG:
            # More events arrive than are processed. Requests take precedence.
            await self._pause(PAUSE_FACTOR * (time.monotonic() - started))

    async def _wait_for_unprocessed(self) -> None:
        if self._is_only_worker:
            await self._progress.wait_for_unprocessed(
                PROCESS_BATCH_EVENTS, idle_s=self._idle_s, linger_s=PROCESS_LINGER_S
            )
        else:
            await self._progress.wait_for_readers(idle_s=self._idle_s)

    async def _process_shared_buckets(self, watch: InboxWatch) -> None:
        """Process the buckets that readers of this process wait for. If it is time to look, process
        those of this worker, too, a few at a time: as soon as a reader waits, the rest has its turn
        later."""
        if urgent := watch.take_urgent_buckets():
            await self._process_buckets(urgent)
        now, is_hurried = time.monotonic(), watch.has_inbox_readers
        if now - self._looked_at < (POLL_INTERVAL_S if is_hurried else self._idle_s):
            return
        self._looked_at = now
        work = await self._inbox.find_work()
        if work.has_unstored:
            self._has_unstored.set()
        self._process_bisector.forget_other_buckets(work.unprocessed)
        rest = self._select_buckets(work.unprocessed, now, is_hurried=is_hurried)
        for start in range(0, len(rest), BUCKETS_PER_TURN):
            if watch.urgent_buckets:
                self._looked_at = 0.0
                break
            part = rest[start : start + BUCKETS_PER_TURN]
            # Before, so that those that fail do not stop the others.
            self._next_bucket = (part[-1] + 1) % self._inbox.bucket_count
            await self._process_buckets(part)

    def _select_buckets(
        self, buckets: Mapping[int, int], now: float, *, is_hurried: bool
    ) -> Sequence[int]:
        """Return the buckets to process, beginning with the one whose turn it is: those of this
        worker, and those that their worker makes no progress with. All if a reader waits for all
        events. `buckets` has the first row of each."""
        self._first_rows = {row: self._first_rows.get(row, now) for row in buckets.items()}
        chosen = [
            bucket
            for (bucket, _), since in self._first_rows.items()
            if is_hurried or self._inbox.is_assigned(bucket) or now - since >= STALLED_S
        ]
        count = self._inbox.bucket_count
        return sorted(chosen, key=lambda bucket: (bucket - self._next_bucket) % count)

    async def _process_buckets(self, buckets: Sequence[int]) -> None:
        """Process one batch of each bucket, all at the same time: a worker mostly waits for the
        database."""
        max_events = SHARED_BATCH_EVENTS
        if self._is_only_worker:
            is_behind = self._progress.waiting >= MAX_PAUSE_BACKLOG
            max_events = BACKLOG_BATCH_EVENTS if is_behind else PROCESS_BATCH_EVENTS
        fetches = (self._inbox.fetch_unprocessed(bucket, max_events) for bucket in buckets)
        fetched = await _gather(fetches, CONCURRENT_BUCKETS)
        found = {
            bucket: self._process_bisector.select_rows(bucket, rows)
            for bucket, rows in zip(buckets, fetched, strict=True)
        }
        all_rows = [row for rows in found.values() for row in rows]
        if not all_rows:
            return
        # All are queries to other systems.
        duplicates, *_ = await asyncio.gather(
            self._deduplicator.look_up(all_rows),
            self._transform_stage.refresh(all_rows),
            self._schema_stage.refresh(all_rows),
        )
        # An event is processed before the same event of another bucket, which is then a duplicate.
        keys = row_keys(all_rows)
        at_once = CONCURRENT_BUCKETS if len(set(keys)) == len(keys) else 1
        work = (
            self._process_bucket(bucket, rows, duplicates) for bucket, rows in found.items() if rows
        )
        await _gather(work, at_once)

    async def _process_bucket(
        self, bucket: int, rows: Sequence[InboxRow], duplicates: ProcessedEvents
    ) -> None:
        # Without those that wait for a later batch.
        done: list[InboxRow] = []
        work = partial(self._process_rows, bucket, duplicates, done)
        if await self._process_bisector.run(bucket, rows, work):
            numbers = _count_by_project(done or rows)
            self.processed += numbers.total()
            if self._watch is None:
                self._progress.mark_processed(numbers)
            else:
                self._watch.notify_processed(bucket)

    async def _pause(self, pause_s: float) -> None:
        """Wait, but not longer than more events arrive, and not while a reader waits."""
        deadline = time.monotonic() + min(pause_s, MAX_PAUSE_S)
        while (left_s := deadline - time.monotonic()) > 0:
            accepted = self._progress.accepted
            if await self._progress.wait_for_readers(idle_s=min(left_s, QUIET_S)):
                return
            if self._progress.accepted == accepted:
                return

    async def _process_rows(
        self,
        bucket: int,
        duplicates: ProcessedEvents,
        done: list[InboxRow],
        rows: Sequence[InboxRow],
    ) -> bool:
        """Process rows, as far as their projects have time left in this batch, and add those to
        `done`."""
        transformed = await self._transform_stage.apply(rows, duplicates)
        checked = await self._schema_stage.apply(rows, transformed, duplicates)
        results: dict[ProjectId, PersonBatchResult] = {}
        process = partial(self._process_project, duplicates, checked, results)
        if not await self._inbox.process(bucket, checked.rows, process, self._clock()):
            return False
        done += checked.rows
        # Without dropped events and duplicates: they are never stored, so nothing would remove
        # them.
        self._deduplicator.mark_processed(
            (project_id, event.uuid)
            for project_id, result in results.items()
            for event in result.events
            if event is not None
        )
        for project_id, result in results.items():
            self._learner.observe(project_id, result.seen)
        self._rejected_count += sum(map(len, checked.rejected.values()))
        return True

    async def store(self) -> None:
        """Wait for processed events, then store one batch of each bucket."""
        if self._is_only_worker and not self._store_bisector.is_isolating:
            await self._progress.wait_for_unstored(
                STORE_BATCH_EVENTS, idle_s=self._idle_s, linger_s=STORE_LINGER_S
            )
        if not self._is_only_worker:
            await self._wait_for_unstored()
        buckets = await self._inbox.unstored_buckets()
        self._store_bisector.forget_other_buckets(buckets)
        if not self._is_only_worker and not await self._is_due(buckets):
            return
        await _gather(map(self._store_bucket, buckets), CONCURRENT_BUCKETS)

    async def _store_bucket(self, bucket: int) -> None:
        rows = self._store_bisector.select_rows(bucket, await self._inbox.fetch_processed(bucket))
        if not rows:
            return
        # Outside the bisector: if destinations cannot be read, no event is at fault.
        await self._fan_out.refresh()
        await self._store_bisector.run(bucket, rows, partial(self._store, bucket))

    async def _wait_for_unstored(self) -> None:
        """One of several workers: wait until `process` finds processed events, but not longer than
        needed to count the workers from time to time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STORE_LINGER_S):
                await self._has_unstored.wait()
        self._has_unstored.clear()

    async def _is_due(self, buckets: Sequence[int]) -> bool:
        """Return whether one of several workers stores the processed events now: they have waited
        for some time, or a reader of any process waits for them."""
        if not buckets:
            self._unstored_since = None
            return False
        now = time.monotonic()
        if self._unstored_since is None:
            self._unstored_since = now
        announcement = await self._inbox.fetch_reader_announcement()
        is_due = (
            self._store_bisector.is_isolating
            or announcement != self._announcement
            or now - self._unstored_since >= STORE_LINGER_S
        )
        self._announcement = announcement
        if is_due:
            self._unstored_since = None
        return is_due

    async def _store(self, bucket: int, rows: Sequence[ProcessedRow]) -> bool:
        # The process may have been frozen since it fetched the rows.
        if not self._inbox.is_held(bucket):
            return False
        await self._append([event for row in rows for event in row.events])
        await self._fan_out.run(rows)
        return True

    def _mark_stored(self, rows: Sequence[ProcessedRow]) -> None:
        self._deduplicator.mark_stored(_event_keys(rows))
        numbers = _count_by_project(rows)
        self.stored += numbers.total()
        if self._is_only_worker:
            self._progress.mark_stored(numbers)

    async def work_off_routing(self) -> None:
        """Create deliveries that the filters of a project have delayed."""
        await self._fan_out.work_off()

    async def _append(self, events: Sequence[Event]) -> None:
        self._appends += 1
        try:
            await self._events.append(events)
        finally:
            self._appends -= 1

    async def renew_leases(self) -> None:
        """Renew the leases while a slow append runs."""
        if self._appends:
            await self._inbox.renew_leases()

    async def poll_backlog(self) -> None:
        """Observe the progress of all workers. Pauses longer when counting a large backlog is
        slow."""
        accepted, started = self._progress.list_unstored(), time.monotonic()
        self._progress.observe(accepted, await self._inbox.count_backlog())
        await asyncio.sleep(min(PAUSE_FACTOR * (time.monotonic() - started), MAX_PAUSE_S))

    def _process_project(
        self,
        duplicates: ProcessedEvents,
        checked: CheckedRows,
        results: dict[ProjectId, PersonBatchResult],
        project_id: ProjectId,
        captured: Sequence[CapturedEvent],
        state: LoadedState,
    ) -> ProcessingResult:
        """Process the events of one project, within the transaction of the inbox. It may run again,
        so `results` gets its last result."""
        new = duplicates.drop_duplicates(project_id, captured)
        result = process_batch(project_id, state, new, self._locate_ip)
        results[project_id] = result
        return ProcessingResult(
            events=[event for event in result.events if event is not None],
            changes=result.changes,
            warnings=[*result.warnings, *checked.warnings.get(project_id, ())],
            flag_calls=Counter(
                _read_flag_call(event.properties) for event in new if event.event == FLAG_CALLED
            ),
            transformation_counts=checked.counts.get(project_id, ()),
            rejected=checked.rejected.get(project_id, ()),
            occurrences=self._behavior_stage.find_occurrences(state.behaviors, result),
        )


async def _gather(work: Iterable[Awaitable[T]], at_once: int) -> list[T]:
    """Do all of it, some at the same time, then raise the first error."""
    free = asyncio.Semaphore(at_once)

    async def run(each: Awaitable[T]) -> T:
        async with free:
            return await each

    ended = await asyncio.gather(*map(run, work), return_exceptions=True)
    for each in ended:
        if isinstance(each, BaseException):
            raise each
    return cast(list[T], ended)


def _count_by_project(rows: Sequence[InboxRow] | Sequence[ProcessedRow]) -> Counter[ProjectId]:
    numbers: Counter[ProjectId] = Counter()
    for row in rows:
        numbers[row.project_id] += row.number
    return numbers


def _event_keys(rows: Iterable[ProcessedRow]) -> Iterator[EventKey]:
    return ((event.project_id, event.uuid) for row in rows for event in row.events)


def _read_flag_call(properties: Mapping[str, Any]) -> tuple[str, str]:
    """Return the flag's key and its value."""
    response = properties.get("$feature_flag_response")
    flag = properties.get("$feature_flag")
    return _truncate_text(flag), _truncate_text(response)


def _truncate_text(value: Any) -> str:
    return (value if isinstance(value, str) else jsonio.encode(value).decode())[
        :MAX_FLAG_TEXT_CHARS
    ]
