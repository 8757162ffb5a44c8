"""One decision: which flags were asked for, what somebody gets, and what could not be known.

Stored data is read only if the answer depends on it. If it cannot be read, flags that do without
are right all the same, and the decision says that others are missing.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.errors import Unavailable
from hedgerow.flags.board import FlagCache
from hedgerow.flags.compile import Compiled
from hedgerow.flags.model import DISTINCT_ID_MAX, SURVEY_PREFIX, Outcome, Runtime
from hedgerow.flags.snapshot import Snapshot
from hedgerow.flags.store import SubjectStore
from hedgerow.flags.subject import Subject
from hedgerow.projects.model import Project


def _anywhere() -> Runtime | None:
    return None


def nowhere() -> Mapping[str, str]:
    return {}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and for what. None means no limit. On which kind of machine the caller runs, and
    the properties of its place, are found out only if some flag wants to know."""

    distinct_id: str
    person_properties: Mapping[str, Any] = {}
    groups: Mapping[str, str] = {}
    group_properties: Mapping[str, Mapping[str, Any]] = {}
    anonymous_id: str | None = None
    device_id: str | None = None
    flag_keys: frozenset[str] | None = None
    contexts: frozenset[str] | None = None
    runtime: Callable[[], Runtime | None] = _anywhere
    only_surveys: bool = False
    place: Callable[[], Mapping[str, str]] = nowhere


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: Sequence[Outcome]
    has_errors: bool


class Decider:
    def __init__(self, board: FlagCache, subjects: SubjectStore) -> None:
        self._board = board
        self._subjects = subjects

    async def decide(self, project: Project, asked: Asked, now: datetime) -> Decision:
        snapshot = self._board.get_cached(project) or await self._board.refreshed(project)
        flags = _wanted(snapshot, asked)
        subject = subject_of(snapshot, asked, now)
        keeps = True
        if asked.anonymous_id and _asks_continuity(snapshot, flags):
            keeps = await self._keep_hash_keys(project, snapshot, asked, asked.anonymous_id)
        outcomes = snapshot.evaluate(flags, subject, until_stored=True)
        if subject.needs_stored:
            await self._complete(project, snapshot, subject, asked.anonymous_id)
            outcomes = snapshot.evaluate(flags, subject)
        return Decision(outcomes=outcomes, has_errors=subject.has_errors or not keeps)

    async def _complete(
        self, project: Project, snapshot: Snapshot, subject: Subject, before: str | None
    ) -> None:
        """Add what is stored; without the database, nothing."""
        try:
            stored = await self._subjects.subject(
                project.id,
                subject.distinct_id,
                subject.groups,
                cohorts=snapshot.has_static_cohorts,
                hash_keys=bool(snapshot.asks_continuity),
            )
            hash_keys = stored.hash_keys
            if before and snapshot.asks_continuity:
                # Who they were before the login may have been counted already; their own count
                # wins.
                earlier = await self._subjects.subject(project.id, before, {}, cohorts=False)
                hash_keys = {**earlier.hash_keys, **hash_keys}
        except Unavailable:
            return
        subject.complete(
            stored.properties,
            groups=stored.groups,
            cohorts=stored.cohorts,
            hash_keys=hash_keys,
        )

    async def _keep_hash_keys(
        self, project: Project, snapshot: Snapshot, asked: Asked, before: str
    ) -> bool:
        """Somebody logs in: flags that outlast a login go on counting them as they were before."""
        id = asked.distinct_id[:DISTINCT_ID_MAX]
        try:
            known = [
                await self._subjects.subject(project.id, each, {}, cohorts=False)
                for each in (id, before)
            ]
            if not any(
                stored.person_id is not None
                and not stored.hash_keys.keys() >= set(snapshot.asks_continuity)
                for stored in known
            ):
                return True
            await self._subjects.keep_hash_keys(
                project.id,
                [id, before],
                before,
                snapshot.asks_continuity,
            )
        except Unavailable:
            return False
        return True


def _asks_continuity(snapshot: Snapshot, flags: Sequence[Compiled]) -> bool:
    if not snapshot.asks_continuity or flags is snapshot.everything:
        return bool(snapshot.asks_continuity)
    return any(each.flag.active and each.flag.ensure_experience_continuity for each in flags)


def _wanted(snapshot: Snapshot, asked: Asked) -> Sequence[Compiled]:
    flags: Sequence[Compiled] = snapshot.everything
    if asked.flag_keys is not None:
        flags = snapshot.chosen(asked.flag_keys)
    if snapshot.has_limits:
        runtime = asked.runtime()
        flags = [each for each in flags if _is_for(each, runtime, asked.contexts)]
    if asked.only_surveys:
        flags = [each for each in flags if each.flag.key.startswith(SURVEY_PREFIX)]
    return flags


def _is_for(each: Compiled, runtime: Runtime | None, contexts: frozenset[str] | None) -> bool:
    flag = each.flag
    runs_there = Runtime.ALL in (flag.evaluation_runtime, runtime) or (
        flag.evaluation_runtime is runtime
    )
    has_context = (
        not flag.evaluation_contexts
        or contexts is None
        or not contexts.isdisjoint(flag.evaluation_contexts)
    )
    return runs_there and has_context


def subject_of(snapshot: Snapshot, asked: Asked, now: datetime) -> Subject:
    properties = asked.person_properties
    if snapshot.asks_place:
        # What the caller says goes over its place, and both over what is stored.
        properties = {**asked.place(), **properties}
    if not asked.groups:
        return Subject(
            distinct_id=asked.distinct_id,
            now=now,
            person_properties=properties,
            anonymous_id=asked.anonymous_id,
            device_id=asked.device_id,
        )
    indexes = snapshot.definitions.group_types
    return Subject(
        distinct_id=asked.distinct_id,
        now=now,
        person_properties=properties,
        groups={indexes[name]: key for name, key in asked.groups.items() if name in indexes},
        group_properties={
            indexes[name]: given
            for name, given in asked.group_properties.items()
            if name in indexes
        },
        anonymous_id=asked.anonymous_id,
        device_id=asked.device_id,
    )
