"""Learn stored events again after a worker died, and those from before definitions existed; and
count the volumes anew.

A living worker has a mark: the time of acceptance up to which it has saved what it learned. The
mark of a dead worker is abandoned: another one learns the events after it from the event store,
page by page, and then removes it. A migration creates the first abandoned mark, at the epoch.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import uuid4

from hedgerow.definitions.learn import DefinitionLearner
from hedgerow.definitions.model import MAX_EVENTS, VOLUME_PERIOD
from hedgerow.definitions.store import (
    DefinitionStore,
    LearningMark,
    MarkStore,
    StoredEventSource,
)
from hedgerow.errors import Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.projects.model import Project

# Events per page, and the pause after each page as a multiple of its time: requests go first.
PAGE_EVENTS = 2000
PAUSE_FACTOR = 4
MARK_INTERVAL = timedelta(seconds=20)
# A mark moves to where the inbox was this long ago: all workers have saved what they had then.
MARK_DELAY = timedelta(seconds=30)
# A stopping worker does not wait for a hanging database.
STOP_TIMEOUT_S = 2.0
ABANDONED_AFTER = timedelta(minutes=2)

LoadProjects = Callable[[], Awaitable[Iterable[Project]]]


class DefinitionUpkeep:
    """The tasks of one worker. `oldest_waiting` returns when the oldest event in the inbox was
    accepted; `wait_until_stored` returns when all accepted events are stored."""

    def __init__(  # noqa: PLR0913 - collaborators, all named
        self,
        *,
        learner: DefinitionLearner,
        store: DefinitionStore,
        marks: MarkStore,
        events: StoredEventSource,
        oldest_waiting: Callable[[], Awaitable[datetime | None]],
        wait_until_stored: Callable[[], Awaitable[None]],
        load_projects: LoadProjects,
        is_only_worker: bool,
        clock: Clock,
    ) -> None:
        self._learner = learner
        self._store = store
        self._marks = marks
        self._events = events
        self._oldest_waiting = oldest_waiting
        self._wait_until_stored = wait_until_stored
        self._load_projects = load_projects
        self._is_only_worker = is_only_worker
        self._clock = clock
        self._holder = str(uuid4())
        # Where the inbox was, and when.
        self._observed: list[tuple[datetime, datetime]] = []
        self._marked_at: datetime | None = None
        # Whether something was learned since then.
        self._has_news = False

    async def save(self) -> None:
        """Save what was learned, and from time to time the mark of this worker."""
        self._has_news |= await self._learner.save()
        now = self._clock()
        # Without news the mark of the only worker stays, so that an idle service writes nothing.
        if self._marked_at is None or (
            (self._has_news or not self._is_only_worker)
            and not timedelta() <= now - self._marked_at < MARK_INTERVAL
        ):
            self._observed.append((now, await self._oldest_waiting() or now))
            due = [each for each in self._observed if each[0] <= now - MARK_DELAY]
            if due:
                self._observed = [due[-1], *(each for each in self._observed if each not in due)]
            await self._marks.advance(self._holder, self._observed[0][1], now)
            self._marked_at, self._has_news = now, False

    async def stop(self) -> None:
        """Save the rest, so that no other worker has to learn it again."""
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._learner.save()
                if self._marked_at is not None:
                    await self._marks.remove(self._holder)

    async def relearn(self) -> None:
        """Learn the events of dead workers again."""
        now = self._clock()
        before = now if self._is_only_worker else now - ABANDONED_AFTER
        for mark in await self._marks.list_abandoned(self._holder, before):
            claimed = await self._marks.claim(mark, mark.learned_until, now)
            if claimed is not None and self._events.has_events:
                await self._wait_until_stored()
                claimed = await self._learn_until(claimed, now)
                await self.count_volumes()
            if claimed is not None:
                await self._marks.remove(claimed.holder)

    async def _learn_until(self, mark: LearningMark, until: datetime) -> LearningMark | None:
        claimed: LearningMark | None = mark
        while claimed is not None:
            started = time.monotonic()
            page = await self._events.read_page(claimed.learned_until, until, PAGE_EVENTS)
            if page.until is None:
                break
            for project_id, events in page.events.items():
                self._learner.observe(project_id, events, is_counted=False)
            await self._learner.save()
            claimed = await self._marks.claim(claimed, page.until, self._clock())
            await asyncio.sleep(PAUSE_FACTOR * (time.monotonic() - started))
        return claimed

    async def count_volumes(self) -> None:
        """Replace the volumes by what the event store holds: events leave the period, or are
        deleted, and a worker that died has not saved its last ones."""
        if not self._events.has_events:
            return
        for project in await self._load_projects():
            now = self._clock()
            await self._learner.save()
            since = now - VOLUME_PERIOD
            events = await self._events.count_events(project.id, since, MAX_EVENTS)
            await self._store.set_volumes(project.id, events, now)
