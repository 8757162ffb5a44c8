"""The delivery loop: one lane per enabled destination, so that a slow one delays no other.

A round of a lane loads due deliveries, sends them with no transaction open, decides what follows
and stores it. A round that is interrupted is repeated: events are delivered at least once. Lanes of
different projects take turns to load and to store; none holds a place while it sends.
"""

import asyncio
import contextlib
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hedgerow.errors import Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.lib.workers.fair_queue import Places
from hedgerow.pipelines.deliveries.model import Delivery, DeliveryReport, LogLevel, LogLine
from hedgerow.pipelines.deliveries.notifications import build_notification
from hedgerow.pipelines.deliveries.retry import (
    DeadDelivery,
    DeliveryAttempt,
    PauseState,
    RetryAt,
    RetryPolicy,
    decide_next,
)
from hedgerow.pipelines.deliveries.round_memory import RoundMemory
from hedgerow.pipelines.destinations.attempt import OutboundClients, attempt_delivery
from hedgerow.pipelines.destinations.registry import Destination, DestinationRegistry
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.records.audit import SCOPE
from hedgerow.pipelines.store import DeliveryStore, TakeBytes
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome
from hedgerow.projects.activity import SYSTEM, ActivityEntry
from hedgerow.projects.model import ProjectId

POLL_INTERVAL_S = 0.5
LEASE_RETRY_S = 2.0
LEASE_RENEW_INTERVAL_S = 2.0
ERROR_PAUSE_S = 5.0
RELEASE_TIMEOUT_S = 2.0
# How many lanes load deliveries or store outcomes at the same time.
PLACES = 8
# Concurrent requests to one destination.
CONCURRENCY = 16
# Events in one round.
ROUND_SIZE = 200
MAX_ROUND_SIZE = 2000
MAX_LOG_LINES = 20


class Deliverer:
    """The lanes of one worker. A delivery older than `max_age_ms` becomes a dead letter. `on_error`
    receives unexpected exceptions of a lane."""

    def __init__(  # noqa: PLR0913 - dependencies, all named
        self,
        destinations: DestinationRegistry,
        store: DeliveryStore,
        clients: OutboundClients,
        clock: Clock,
        *,
        max_age_ms: int,
        sends_notifications: bool = False,
        on_error: Callable[[RecordId, Exception], None],
        memory: RoundMemory | None = None,
    ) -> None:
        self._memory = memory or RoundMemory()
        self._destinations = destinations
        self._store = store
        self._clients = clients
        self._clock = clock
        self._max_age_ms = max_age_ms
        self._sends_notifications = sends_notifications
        self._on_error = on_error
        # Counted since this process started.
        self.totals: dict[RecordId, DeliveryTotals] = {}
        self._lanes: dict[RecordId, asyncio.Task[None]] = {}
        self._woken: dict[RecordId, asyncio.Event] = defaultdict(asyncio.Event)
        # The lanes that wait until they have something to do.
        self._idle: set[RecordId] = set()
        self._places: Places[ProjectId] = Places(PLACES)
        # Each record as of its last round.
        self._last_records: dict[RecordId, Record] = {}

    async def run(self) -> None:
        """Start and end lanes as destinations are enabled and disabled, until cancelled."""
        try:
            while True:
                with contextlib.suppress(Unavailable):  # lanes continue with the records they have
                    await self._destinations.refresh()
                for id in self._destinations.enabled:
                    if id not in self._lanes:
                        self._lanes[id] = asyncio.create_task(self._run_lane(id), name=f"lane {id}")
                for id in [id for id, lane in self._lanes.items() if lane.done()]:
                    self._lanes.pop(id).result()
                    self._woken.pop(id, None)
                    self._last_records.pop(id, None)
                with contextlib.suppress(Unavailable):
                    self.wake(await self._find_work())
                await asyncio.sleep(POLL_INTERVAL_S)
        finally:
            await self._close()

    async def _find_work(self) -> set[RecordId]:
        """Return the idle lanes that have something to do, with one query for all of them. An
        operator who edits a paused record wants to see at once whether that helped."""
        idle, enabled = set(self._idle), self._destinations.enabled
        changed = {
            id
            for id in idle
            if id not in enabled
            or enabled[id].record != self._last_records.get(id, enabled[id].record)
        }
        return changed | await self._store.find_due(sorted(idle), _to_ms(self._clock()))

    async def renew_leases(self) -> None:
        """Renew the leases of all queues of this worker, so that a slow request loses none."""
        await self._store.renew()

    def wake(self, records: Iterable[RecordId]) -> None:
        """Start the next round of these destinations now, because they have new deliveries."""
        for id in records:
            if id in self._lanes:
                self._woken[id].set()

    async def _close(self) -> None:
        lanes = list(self._lanes.values())
        self._lanes.clear()
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
        with contextlib.suppress(Unavailable, TimeoutError):  # leases expire
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._store.release()

    async def _run_lane(self, id: RecordId) -> None:
        await self._wait(id, math.inf)
        while (destination := self._destinations.enabled.get(id)) is not None:
            try:
                pause_s = await self._run_round(destination)
            except Unavailable:
                pause_s = LEASE_RETRY_S
            except Exception as error:  # noqa: BLE001 - an error in one lane stops no other
                self._on_error(id, error)
                pause_s = ERROR_PAUSE_S
            if pause_s:
                await self._wait(id, pause_s)

    async def _wait(self, id: RecordId, pause_s: float) -> None:
        """Wait until the lane is woken, or for a time. `inf` is for a lane without work."""
        woken = self._woken[id]
        is_idle = pause_s == math.inf
        if is_idle:
            self._idle.add(id)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if is_idle else pause_s):
                    await woken.wait()
        finally:
            woken.clear()
            self._idle.discard(id)

    async def _run_round(self, destination: Destination) -> float:
        """Send due deliveries and return the seconds to wait before the next round."""
        id, now = destination.record.id, self._clock()
        if not await self._store.acquire(id):
            return LEASE_RETRY_S
        pause_state = await self._store.pause_state(id)
        if destination.problem:
            await self._report_problem(destination, pause_state, now)
            return math.inf
        was_changed = self._last_records.get(id, destination.record) != destination.record
        self._last_records[id] = destination.record
        if pause_state.remaining_pause_ms(_to_ms(now)) and not was_changed:
            return math.inf
        size = destination.batch_size
        limit = (
            size
            if pause_state.is_paused
            else min(max(ROUND_SIZE, size * CONCURRENCY), MAX_ROUND_SIZE)
        )
        with self._memory.open_round(destination.record.project_id) as reservation:
            return await self._send_due(destination, pause_state, limit, reservation.take)

    async def _send_due(
        self, destination: Destination, pause_state: PauseState, limit: int, take: TakeBytes
    ) -> float:
        """Load deliveries, as far as there is memory for them, and send them."""
        id, now = destination.record.id, self._clock()
        project_id = destination.record.project_id
        find = self._store.due_in_order if destination.keeps_order else self._store.due
        async with self._places.hold(project_id):
            deliveries = await find(id, limit, _to_ms(now), take)
        if not deliveries:
            return math.inf
        if not pause_state.is_paused:
            if linger_s := _linger_s(destination, deliveries, now):
                return min(POLL_INTERVAL_S, linger_s)
            deliveries = _drop_partial_batch(destination, deliveries, now)
        delivery_round = DeliveryRound(
            destination,
            pause_state,
            self._clients,
            self._clock,
            self._max_age_ms,
            is_current=lambda: self._destinations.enabled.get(id) is destination,
        )
        report = await delivery_round.run(deliveries)
        if self._sends_notifications and report.entry is not None:
            report.notification = _build_notification(destination, report, self._clock())
        async with self._places.hold(project_id):
            await self._store.save_report(report, self._clock())
        self._count(destination, report)
        return 0

    def _count(self, destination: Destination, report: DeliveryReport) -> None:
        record = destination.record
        totals = self.totals.setdefault(record.id, DeliveryTotals(project_id=record.project_id))
        totals.delivered += len(report.delivered)
        totals.retried += len(report.retried)
        totals.dead += len(report.dead)

    async def _report_problem(
        self, destination: Destination, pause_state: PauseState, now: datetime
    ) -> None:
        if pause_state.error != destination.problem:
            report = DeliveryReport(
                record_id=destination.record.id,
                pause_state=PauseState(error=destination.problem),
                logs=[LogLine(level=LogLevel.ERROR, message=destination.problem)],
            )
            await self._store.save_report(report, now)


@dataclass(slots=True, kw_only=True)
class DeliveryTotals:
    project_id: ProjectId
    delivered: int = 0
    retried: int = 0
    dead: int = 0


class DeliveryRound:
    """Deliveries of one destination, sent concurrently and reported together.

    Deliveries that are left when the destination is no longer `is_current`, because its record was
    edited or disabled, stay untouched.
    """

    def __init__(
        self,
        destination: Destination,
        pause_state: PauseState,
        clients: OutboundClients,
        clock: Clock,
        max_age_ms: int,
        *,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._destination = destination
        self._before = self._pause_state = pause_state
        self._clients = clients
        self._clock = clock
        self._max_age_ms = max_age_ms
        self._is_current = is_current
        self._report = DeliveryReport(record_id=destination.record.id, pause_state=pause_state)

    async def run(self, deliveries: Sequence[Delivery]) -> DeliveryReport:
        waiting = _split_batches(self._destination, deliveries)
        waiting.reverse()

        async def send_some() -> None:
            while waiting:
                for batch in waiting.pop():
                    if not self._can_continue() or not await self._send(batch):
                        break

        await asyncio.gather(*(send_some() for _ in range(min(CONCURRENCY, len(waiting)))))
        self._report.pause_state = self._pause_state
        self._report_pause_change()
        return self._report

    def _can_continue(self) -> bool:
        """False after an edit of the record, or if this round paused the destination."""
        is_paused = self._pause_state.is_paused and not self._before.is_paused
        return self._is_current() and not is_paused

    async def _send(self, batch: Sequence[Delivery]) -> bool:
        """Send a batch and return whether none of it must be retried. A batch whose events are all
        rejected is sent again in halves, to find the events that cause it."""
        outcomes = await self._attempt(batch)
        if len(batch) > 1 and all(map(_is_event_rejected, outcomes)):
            half = len(batch) // 2
            if not await self._send(batch[:half]) and self._destination.keeps_order:
                return False
            return self._can_continue() and await self._send(batch[half:])
        self._decide(batch, outcomes)
        return not any(delivery.id in self._report.retried for delivery in batch)

    async def _attempt(self, batch: Sequence[Delivery]) -> Sequence[Outcome]:
        began = time.monotonic()
        outcomes = await attempt_delivery(
            self._destination.target,
            [delivery.event for delivery in batch],
            self._clients,
            self._clock(),
        )
        self._report.record_latency((time.monotonic() - began) * 1000)
        return outcomes

    def _decide(self, batch: Sequence[Delivery], outcomes: Sequence[Outcome]) -> None:
        now_ms = _to_ms(self._clock())
        worst = _find_worst(outcomes)
        if (
            isinstance(worst, Delivered)
            or self._before.is_paused
            or not self._pause_state.is_paused
        ):
            self._pause_state = self._pause_state.next_state(worst, now_ms)
        policy = RetryPolicy(now_ms=now_ms, jitter=random.random(), max_age_ms=self._max_age_ms)  # noqa: S311
        for delivery, outcome in zip(batch, outcomes, strict=True):
            attempt = DeliveryAttempt(
                attempts=delivery.attempts,
                created_ms=delivery.created_ms,
                is_probe=self._before.is_paused,
            )
            self._record(delivery, decide_next(outcome, attempt, policy))

    def _record(self, delivery: Delivery, decision: object) -> None:
        match decision:
            case RetryAt(reason=reason):
                self._report.retried[delivery.id] = decision
                self._log(LogLevel.WARNING, f"Will be retried: {reason}", delivery)
            case DeadDelivery(reason=reason):
                self._report.dead[delivery.id] = decision
                self._log(LogLevel.ERROR, f"Not delivered: {reason}", delivery)
            case _:
                self._report.delivered.append(delivery.id)
                self._report.delivered_events.append(delivery.event)

    def _log(self, level: LogLevel, message: str, delivery: Delivery) -> None:
        if len(self._report.logs) < MAX_LOG_LINES:
            self._report.logs.append(
                LogLine(level=level, message=message, uuid=delivery.event.uuid)
            )

    def _report_pause_change(self) -> None:
        was, is_paused = self._before.is_paused, self._pause_state.is_paused
        if was == is_paused:
            return
        error = self._pause_state.error if is_paused else ""
        self._report.logs.append(
            LogLine(level=LogLevel.ERROR, message=error)
            if is_paused
            else LogLine(level=LogLevel.INFO, message="The destination works again.")
        )
        record = self._destination.record
        self._report.entry = ActivityEntry(
            scope=SCOPE,
            item_id=str(record.id),
            item_name=self._destination.name,
            activity="paused" if is_paused else "resumed",
            actor=SYSTEM,
            project_id=record.project_id,
            detail={"reason": error} if is_paused else {},
        )


def _is_event_rejected(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.event_rejected


def _find_worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome that says most about the destination's health."""
    failed = [each for each in outcomes if isinstance(each, Failed)]
    return min(failed, key=_is_event_rejected, default=Delivered())


def _build_notification(destination: Destination, report: DeliveryReport, now: datetime) -> str:
    kind = "destination.paused" if report.pause_state.is_paused else "destination.resumed"
    return build_notification(
        kind, destination.record, destination.name, report.pause_state.error, now
    )


def _split_batches(
    destination: Destination, deliveries: Sequence[Delivery]
) -> list[list[Sequence[Delivery]]]:
    """Return lists of batches. A list is sent in order until one of its batches must be retried."""
    size = destination.batch_size
    if not destination.keeps_order:
        return [[deliveries[at : at + size]] for at in range(0, len(deliveries), size)]
    # All events of a distinct id are in one list, which keeps their order.
    by_sender: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in sorted(deliveries, key=lambda each: each.id):
        by_sender[hash(delivery.event.distinct_id) % CONCURRENCY].append(delivery)
    return [
        [some[at : at + size] for at in range(0, len(some), size)] for some in by_sender.values()
    ]


def _linger_s(destination: Destination, deliveries: Sequence[Delivery], now: datetime) -> float:
    """Return how long a batch that is not full waits for more events."""
    if len(deliveries) >= destination.batch_size or any(
        delivery.attempts for delivery in deliveries
    ):
        return 0
    waited_ms = _to_ms(now) - min(delivery.created_ms for delivery in deliveries)
    # A delivery from the future was stored before the clock was set back.
    return max(0, destination.batch_ms - waited_ms) / 1000 if waited_ms >= 0 else 0


def _drop_partial_batch(
    destination: Destination, deliveries: Sequence[Delivery], now: datetime
) -> Sequence[Delivery]:
    """Leave out the last, partial batch while it may still wait for more events."""
    rest = len(deliveries) % destination.batch_size
    if destination.keeps_order or rest == len(deliveries) or not rest:
        return deliveries
    is_due = not _linger_s(destination, deliveries[-rest:], now)
    return deliveries if is_due else deliveries[:-rest]


def _to_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
