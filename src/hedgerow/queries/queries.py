"""The query endpoint's work: read what is asked, answer from the cache, run, or let it run."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import uuid4

import msgspec

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.reading import Arrived
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import cut_short
from hedgerow.projects.model import Project, ProjectId
from hedgerow.queries.cache import Cache, Freshness, Kept
from hedgerow.queries.events_query import EventsQueries, read_events_query
from hedgerow.queries.fields import Sent
from hedgerow.queries.hogql_query import HogQLQueries, read_hogql_query
from hedgerow.queries.model import Answered, Compared, QueryStatus, Ran
from hedgerow.queries.runs import Run, Runs

Runner = Callable[[], Awaitable[Ran | Compared]]
# How a query of some kind is run; Invalid if it cannot be.
Reader = Callable[[Project, Sent, datetime], Runner]


class Refresh(StrEnum):
    """Whether a kept answer will do, and whether to wait for a new one."""

    BLOCKING = "blocking"
    ASYNC = "async"
    LAZY_ASYNC = "lazy_async"
    FORCE_BLOCKING = "force_blocking"
    FORCE_ASYNC = "force_async"
    FORCE_CACHE = "force_cache"
    ASYNC_EXCEPT_ON_CACHE_MISS = "async_except_on_cache_miss"


_FORCED = (Refresh.FORCE_BLOCKING, Refresh.FORCE_ASYNC)
_ANY_AGE = (Refresh.FORCE_CACHE, Refresh.LAZY_ASYNC)
_WAITED_FOR = (Refresh.BLOCKING, Refresh.FORCE_BLOCKING)


class Queries:
    """`state` is a number that changes whenever something is changed, as far as this process
    sees; `arrived` waits until all that was accepted before can be found."""

    def __init__(
        self,
        hogql: HogQLQueries,
        events: EventsQueries,
        freshness: Freshness,
        state: Callable[[], int],
        arrived: Arrived,
        clock: Clock,
    ) -> None:
        self._hogql = hogql
        self._events = events
        self._readers: dict[str, Reader] = {
            "HogQLQuery": self._hogql_runner,
            "EventsQuery": self._events_runner,
        }
        self._freshness = freshness
        self._state = state
        self._arrived = arrived
        self._clock = clock
        self._cache = Cache[Answered]()
        self._runs = Runs(clock)

    def learn(self, readers: Mapping[str, Reader]) -> None:
        """Kinds of query that other rooms answer."""
        self._readers.update(readers)

    async def ask(
        self, project: Project, query: Mapping[str, Any], refresh: Refresh, id: str
    ) -> Answered | QueryStatus:
        """The answer, or the status of a query that is under way."""
        now = self._clock()
        run = self._runner(project, query, now)
        key, asked_bytes = _key(project, query)
        kept = None if refresh in _FORCED else self._cache.get((project.id, key))
        if kept is not None and (
            refresh in _ANY_AGE or self._freshness.holds(kept, self._state(), now)
        ):
            return msgspec.structs.replace(kept.answer, is_cached=True)
        if refresh is Refresh.FORCE_CACHE:
            return Answered(
                results=None,
                query=query,
                timezone=project.timezone,
                is_cached=False,
                cache_key=key,
            )
        is_waited_for = refresh in _WAITED_FOR or (
            refresh is Refresh.ASYNC_EXCEPT_ON_CACHE_MISS and kept is None
        )
        begun = self._runs.start(
            project.id,
            id or str(uuid4()),
            self._answered(project, query, (key, asked_bytes), run, now),
            is_kept=not is_waited_for,
            asked_bytes=asked_bytes,
        )
        return await begun.answer() if is_waited_for else begun.status()

    def status(self, project_id: ProjectId, id: str) -> QueryStatus:
        return self._found(project_id, id).status()

    def cancel(self, project_id: ProjectId, id: str) -> None:
        self._runs.cancel(self._found(project_id, id))

    async def end(self) -> None:
        """The service stops: no query goes on."""
        await self._runs.end()

    def _found(self, project_id: ProjectId, id: str) -> Run:
        run = self._runs.find(project_id, id)
        if run is None:
            raise NotFound(f"There is no query {cut_short(id)}.")
        return run

    def _runner(self, project: Project, query: Mapping[str, Any], now: datetime) -> Runner:
        sent = Sent(query)
        kind = sent.text("kind")
        if (read := self._readers.get(kind)) is not None:
            return read(project, sent, now)
        *most, last = self._readers
        kinds = f"{', '.join(most)} or {last}"
        if not kind:
            raise Invalid(f"The kind is {kinds}.", attr="query__kind", code="required")
        detail = f'"{cut_short(kind)}" is not a kind of query here: {kinds} is.'
        raise Invalid(detail, attr="query__kind", code="invalid_choice")

    def _hogql_runner(self, project: Project, sent: Sent, now: datetime) -> Runner:
        asked = read_hogql_query(sent)
        return lambda: self._hogql.run(project, asked, now)

    def _events_runner(self, project: Project, sent: Sent, now: datetime) -> Runner:
        wish = read_events_query(sent, project, now)
        return lambda: self._events.run(project, wish, now)

    async def _answered(
        self,
        project: Project,
        query: Mapping[str, Any],
        keyed: tuple[str, int],
        run: Runner,
        now: datetime,
    ) -> Answered:
        key, asked_bytes = keyed
        await self._arrived()
        # What is not here by now makes itself known by another change when it is.
        state = self._state()
        ran = await run()
        modifiers = query.get("modifiers")
        found = {name: getattr(ran, name) for name in ran.__struct_fields__}
        answer = Answered(
            **{"results": None, **found},
            query=query,
            modifiers=modifiers if isinstance(modifiers, dict) else {},
            timezone=project.timezone,
            is_cached=False,
            cache_key=key,
            cache_target_age=now + self._freshness.max_age,
            last_refresh=now,
            next_allowed_client_refresh=now,
        )
        kept = Kept(answer=answer, size=asked_bytes + answer.size, state=state, at=now)
        self._cache.put((project.id, key), kept)
        return answer


def _key(project: Project, query: Mapping[str, Any]) -> tuple[str, int]:
    """What makes the answer: the query and the project's clock. And how many bytes they are, which
    an answer holds as well."""
    said = jsonio.canonical([project.id, project.timezone, jsonio.storable(dict(query))])
    return f"cache_{project.id}_{hashlib.sha256(said).hexdigest()[:32]}", len(said)
