"""The deliver loop: for each enabled destination a lane of its own, so that none waits for another.

A turn of a lane: what is due, send it with no transaction open, decide, record. A turn that is
broken off anywhere is repeated, so events arrive at least once.
"""

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hedgerow.errors import Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.pipelines.attempt import attempted
from hedgerow.pipelines.audit import SCOPE
from hedgerow.pipelines.deliveries import Delivery, LogLevel, LogLine, Report
from hedgerow.pipelines.destinations import Destination, Destinations
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.notifications import notice
from hedgerow.pipelines.retry import Dead, Health, RetryAt, Retrying, Tried, decided
from hedgerow.pipelines.sending import Failed, Outcome, Sent, WaysOut
from hedgerow.pipelines.store import DeliveryStore
from hedgerow.projects.activity import SYSTEM, Entry
from hedgerow.projects.model import ProjectId

LOOK_S = 0.5
ELSEWHERE_S = 2.0
KEEP_EVERY_S = 5.0
AFTER_DEFECT_S = 5.0
LET_GO_S = 0.5
# So many requests of one destination at a time, and so many events in one turn of its lane.
CONCURRENCY = 16
TURN = 200
MAX_TURN = 2000
LOGGED_IN_A_TURN = 20


class Deliverer:
    """One worker's lanes. `keep_ms` is how long a delivery may wait in all, `notifies` whether
    somebody is to be told of pauses; `note` hears of defects."""

    def __init__(  # noqa: PLR0913 - what it works with, all named
        self,
        destinations: Destinations,
        store: DeliveryStore,
        ways_out: WaysOut,
        clock: Clock,
        *,
        keep_ms: int,
        notifies: bool = False,
        note: Callable[[RecordId, Exception], None],
    ) -> None:
        self._destinations = destinations
        self._store = store
        self._ways_out = ways_out
        self._clock = clock
        self._keep_ms = keep_ms
        self._notifies = notifies
        self._note = note
        # What this process did.
        self.totals: dict[RecordId, Totals] = {}
        self._lanes: dict[RecordId, asyncio.Task[None]] = {}
        self._woken: dict[RecordId, asyncio.Event] = defaultdict(asyncio.Event)
        # The records as they were at their last turn.
        self._tried: dict[RecordId, Record] = {}

    async def run(self) -> None:
        """Open and close lanes as destinations come and go, until cancelled."""
        try:
            while True:
                with contextlib.suppress(Unavailable):  # lanes go on with what they know
                    await self._destinations.refresh()
                for id in self._destinations.enabled:
                    if id not in self._lanes:
                        self._lanes[id] = asyncio.create_task(self._lane(id), name=f"lane {id}")
                for id in [id for id, lane in self._lanes.items() if lane.done()]:
                    self._lanes.pop(id).result()
                    self._woken.pop(id, None)
                    self._tried.pop(id, None)
                await asyncio.sleep(LOOK_S)
        finally:
            await self._close()

    async def keep(self) -> None:
        """Whoever takes long to send something has not died over it."""
        await self._store.keep()

    def wake(self, records: Iterable[RecordId]) -> None:
        """There is something to send that was not there before."""
        for id in records:
            if id in self._lanes:
                self._woken[id].set()

    async def _close(self) -> None:
        lanes = list(self._lanes.values())
        self._lanes.clear()
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
        with contextlib.suppress(Unavailable, TimeoutError):  # leases end by themselves
            async with asyncio.timeout(LET_GO_S):
                await self._store.let_go()

    async def _lane(self, id: RecordId) -> None:
        while (destination := self._destinations.enabled.get(id)) is not None:
            try:
                pause_s = await self._turn(destination)
            except Unavailable:
                pause_s = ELSEWHERE_S
            except Exception as error:  # noqa: BLE001 - one lane's defect is not another's
                self._note(id, error)
                pause_s = AFTER_DEFECT_S
            if pause_s:
                woken = self._woken[id]
                woken.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await woken.wait()

    async def _turn(self, destination: Destination) -> float:
        """Send some of what is due. How long to wait for the next turn, unless woken."""
        id, now = destination.record.id, self._clock()
        if not await self._store.has_due(id, _ms(now)):
            return LOOK_S
        if not await self._store.take(id):
            return ELSEWHERE_S
        health = await self._store.health(id)
        if destination.problem:
            await self._tell_problem(destination, health, now)
            return LOOK_S
        was_changed = self._tried.get(id, destination.record) != destination.record
        self._tried[id] = destination.record
        # Whoever changes a record that is paused wants to see whether that helps.
        if (pause_ms := health.pause_ms(_ms(now))) and not was_changed:
            return min(LOOK_S, pause_ms / 1000)
        size = destination.batch_size
        limit = size if health.is_paused else min(max(TURN, size * CONCURRENCY), MAX_TURN)
        find = self._store.due_in_order if destination.keeps_order else self._store.due
        found = await find(id, limit, _ms(now))
        if not found:
            return LOOK_S
        if not health.is_paused:
            if linger_s := _linger_s(destination, found, now):
                return min(LOOK_S, linger_s)
            found = _full(destination, found, now)
        turn = Turn(
            destination,
            health,
            self._ways_out,
            self._clock,
            self._keep_ms,
            is_current=lambda: self._destinations.enabled.get(id) is destination,
        )
        report = await turn.taken(found)
        if self._notifies and report.entry is not None:
            report.notice = _notice(destination, report, self._clock())
        await self._store.report(report, self._clock())
        self._count(destination, report)
        return 0

    def _count(self, destination: Destination, report: Report) -> None:
        record = destination.record
        totals = self.totals.setdefault(record.id, Totals(project_id=record.project_id))
        totals.delivered += len(report.delivered)
        totals.retried += len(report.retried)
        totals.dead += len(report.dead)

    async def _tell_problem(self, destination: Destination, health: Health, now: datetime) -> None:
        if health.error != destination.problem:
            report = Report(
                record_id=destination.record.id,
                health=Health(error=destination.problem),
                logs=[LogLine(level=LogLevel.ERROR, message=destination.problem)],
            )
            await self._store.report(report, now)


@dataclass(slots=True, kw_only=True)
class Totals:
    project_id: ProjectId
    delivered: int = 0
    retried: int = 0
    dead: int = 0


class Turn:
    """Some deliveries of one destination, sent side by side and reported as one, for as long as the
    destination `is_current`: what is left when somebody changes or disables it has not been
    touched."""

    def __init__(
        self,
        destination: Destination,
        health: Health,
        ways_out: WaysOut,
        clock: Clock,
        keep_ms: int,
        *,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._destination = destination
        self._before = self._health = health
        self._ways_out = ways_out
        self._clock = clock
        self._keep_ms = keep_ms
        self._is_current = is_current
        self._report = Report(record_id=destination.record.id, health=health)

    async def taken(self, found: Sequence[Delivery]) -> Report:
        waiting = _lists(self._destination, found)
        waiting.reverse()

        async def send_some() -> None:
            while waiting:
                for batch in waiting.pop():
                    if not self._goes_on() or not await self._send(batch):
                        break

        await asyncio.gather(*(send_some() for _ in range(min(CONCURRENCY, len(waiting)))))
        self._report.health = self._health
        self._tell_pauses()
        return self._report

    def _goes_on(self) -> bool:
        """What is left when the destination gets paused has not been touched either."""
        is_paused = self._health.is_paused and not self._before.is_paused
        return self._is_current() and not is_paused

    async def _send(self, batch: Sequence[Delivery]) -> bool:
        """Whether all of it has arrived, or never will. What fails as a whole, perhaps because of
        one event in it, is sent in halves."""
        outcomes = await self._attempted(batch)
        if len(batch) > 1 and all(map(_is_events_fault, outcomes)):
            half = len(batch) // 2
            if not await self._send(batch[:half]) and self._destination.keeps_order:
                return False
            return self._goes_on() and await self._send(batch[half:])
        self._decide(batch, outcomes)
        return not any(delivery.id in self._report.retried for delivery in batch)

    async def _attempted(self, batch: Sequence[Delivery]) -> Sequence[Outcome]:
        began = time.monotonic()
        outcomes = await attempted(
            self._destination.deliver,
            [delivery.event for delivery in batch],
            self._destination.settings,
            self._ways_out.at(self._clock()),
        )
        self._report.took((time.monotonic() - began) * 1000)
        return outcomes

    def _decide(self, batch: Sequence[Delivery], outcomes: Sequence[Outcome]) -> None:
        now_ms = _ms(self._clock())
        worst = _worst(outcomes)
        if isinstance(worst, Sent) or self._before.is_paused or not self._health.is_paused:
            self._health = self._health.after(worst, now_ms)
        when = Retrying(now_ms=now_ms, jitter=random.random(), keep_ms=self._keep_ms)  # noqa: S311
        for delivery, outcome in zip(batch, outcomes, strict=True):
            tried = Tried(
                attempts=delivery.attempts,
                created_ms=delivery.created_ms,
                is_probe=self._before.is_paused,
            )
            self._note(delivery, decided(outcome, tried, when))

    def _note(self, delivery: Delivery, decision: object) -> None:
        match decision:
            case RetryAt(reason=reason):
                self._report.retried[delivery.id] = decision
                self._log(LogLevel.WARNING, f"To be tried again: {reason}", delivery)
            case Dead(reason=reason):
                self._report.dead[delivery.id] = decision
                self._log(LogLevel.ERROR, f"Not delivered: {reason}", delivery)
            case _:
                self._report.delivered.append(delivery.id)
                self._report.arrived.append(delivery.event)

    def _log(self, level: LogLevel, message: str, delivery: Delivery) -> None:
        if len(self._report.logs) < LOGGED_IN_A_TURN:
            self._report.logs.append(
                LogLine(level=level, message=message, uuid=delivery.event.uuid)
            )

    def _tell_pauses(self) -> None:
        was, is_paused = self._before.is_paused, self._health.is_paused
        if was == is_paused:
            return
        error = self._health.error if is_paused else ""
        self._report.logs.append(
            LogLine(level=LogLevel.ERROR, message=error)
            if is_paused
            else LogLine(level=LogLevel.INFO, message="It works again.")
        )
        record = self._destination.record
        self._report.entry = Entry(
            scope=SCOPE,
            item_id=str(record.id),
            item_name=self._destination.name,
            activity="paused" if is_paused else "resumed",
            actor=SYSTEM,
            project_id=record.project_id,
            detail={"reason": error} if is_paused else {},
        )


def _is_events_fault(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.is_events_fault


def _worst(outcomes: Sequence[Outcome]) -> Outcome:
    """What says most about the destination."""
    failed = [each for each in outcomes if isinstance(each, Failed)]
    return min(failed, key=_is_events_fault, default=Sent())


def _notice(destination: Destination, report: Report, now: datetime) -> str:
    kind = "destination.paused" if report.health.is_paused else "destination.resumed"
    return notice(kind, destination.record, destination.name, report.health.error, now)


def _lists(destination: Destination, found: Sequence[Delivery]) -> list[list[Sequence[Delivery]]]:
    """Lists of batches; those of one list are sent one after the other, until one has to wait."""
    size = destination.batch_size
    if not destination.keeps_order:
        return [[found[at : at + size]] for at in range(0, len(found), size)]
    # Whose events are sent by one sender, their order is kept.
    by_sender: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in sorted(found, key=lambda each: each.id):
        by_sender[hash(delivery.event.distinct_id) % CONCURRENCY].append(delivery)
    return [
        [some[at : at + size] for at in range(0, len(some), size)] for some in by_sender.values()
    ]


def _linger_s(destination: Destination, found: Sequence[Delivery], now: datetime) -> float:
    """How long a batch that is not full still waits to be."""
    if len(found) >= destination.batch_size or any(delivery.attempts for delivery in found):
        return 0
    waited_ms = _ms(now) - min(delivery.created_ms for delivery in found)
    # One that seems to come from the future was made before somebody put the clock right.
    return max(0, destination.batch_ms - max(0, waited_ms)) / 1000


def _full(destination: Destination, found: Sequence[Delivery], now: datetime) -> Sequence[Delivery]:
    """Those that fill batches. The rest may wait for others, as long as it has the time."""
    rest = len(found) % destination.batch_size
    if destination.keeps_order or rest == len(found) or not rest:
        return found
    is_ripe = not _linger_s(destination, found[-rest:], now)
    return found if is_ripe else found[:-rest]


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
