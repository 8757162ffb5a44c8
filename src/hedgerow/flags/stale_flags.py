"""Reports flags that become stale, as entries of the activity log, once for each time.

A flag that is called or changed so that it is not stale any more can be reported again later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.errors import NotFound
from hedgerow.flags.flags import SCOPE, STALE, STALE_AFTER, get_flag_status
from hedgerow.flags.model import SURVEY_PREFIX, Flag
from hedgerow.lib.clock import Clock
from hedgerow.projects.activity import SYSTEM, ActivityEntry
from hedgerow.projects.model import ProjectId

BECAME_STALE = "became_stale"
# Of one project. More are reported by the next run.
MAX_REPORTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFlagChanges:
    """`stale` are flags to report, `fresh` flags that were reported and are not stale any more."""

    stale: Sequence[tuple[Flag, ActivityEntry]]
    fresh: Sequence[Flag]


# Gets the flags that may be stale or were reported, and whether each was reported.
Decide = Callable[[Sequence[tuple[Flag, bool]]], StaleFlagChanges]


class StaleFlagStore(Protocol):
    async def list_projects(self, unused_since: datetime) -> Sequence[ProjectId]:
        """Return the projects with flags to check: reported ones, and active ones that were not
        called, or not created, since a time."""
        ...

    async def report(
        self, project_id: ProjectId, unused_since: datetime, decide: Decide, now: datetime
    ) -> None:
        """Store which flags are reported, with their entries, in one transaction. Raises NotFound
        for a deleted project."""
        ...


class StaleFlagReports:
    def __init__(self, store: StaleFlagStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Report the flags of all projects."""
        now = self._clock()
        unused_since = now - STALE_AFTER
        for project_id in await self._store.list_projects(unused_since):
            try:
                await self._store.report(
                    project_id, unused_since, lambda flags: decide_reports(flags, now), now
                )
            except NotFound:  # deleted meanwhile
                continue


def decide_reports(flags: Sequence[tuple[Flag, bool]], now: datetime) -> StaleFlagChanges:
    stale, fresh = [], []
    for flag, is_reported in flags:
        status, reason = get_flag_status(flag, now)
        is_stale = status == STALE and not flag.key.startswith(SURVEY_PREFIX)
        if is_stale and not is_reported:
            stale.append((flag, _build_entry(flag, reason)))
        elif is_reported and not is_stale:
            fresh.append(flag)
    return StaleFlagChanges(stale=stale[:MAX_REPORTS], fresh=fresh)


def _build_entry(flag: Flag, reason: str) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(flag.id),
        item_name=flag.key,
        activity=BECAME_STALE,
        actor=SYSTEM,
        project_id=flag.project_id,
        detail={"reason": reason, "owners": list(flag.owners) or [flag.created_by]},
    )
