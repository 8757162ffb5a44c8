"""Flags as code: a project's flags as a document, and a document applied to it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict
from hedgerow.flags.document import Composed, composed, parsed
from hedgerow.flags.edits import NEW
from hedgerow.flags.flags import blank_flag, entry_of, person_of
from hedgerow.flags.model import Definitions, Flag, FlagId
from hedgerow.flags.plan import Plan, Planner
from hedgerow.flags.references import FLAG, rewritten
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.projects.activity import Actor
from hedgerow.projects.document import At
from hedgerow.projects.model import Project


class FlagsAsCode:
    def __init__(self, store: FlagStore) -> None:
        self._store = store

    async def document(self, project: Project) -> Composed:
        seen = await self._store.definitions(project.id, project.timezone)
        return composed(seen)

    async def plan(
        self, project: Project, document: Any, *, prune: bool, actor: Actor, now: datetime
    ) -> Plan:
        """What applying the document would do. Invalid names the place that cannot be applied."""
        wanted = parsed(document)
        seen = await self._store.definitions(project.id, project.timezone)
        held = await self._store.held(project.id) if prune else {}
        blank = blank_flag(project, actor, now)
        return Planner(seen, wanted, blank, prune=prune, held=held).plan()

    async def apply(self, plan: Plan, actor: Actor, now: datetime) -> None:
        """Do all of it, or nothing if somebody changed flags or cohorts since the plan was
        made. Invalid names the flag that something else needs as it is."""

        def work(present: Definitions, store: Callable[[FlagWrite], Flag]) -> None:
            if present.generation != plan.seen.generation:
                raise Conflict("The flags were changed meanwhile. Look at the new plan first.")
            ids: dict[FlagId, FlagId] = {}
            for step in plan.created:
                ids[step.after.id] = store(_creation(step.after, ids, actor, now)).id
            stored = {flag.id: flag for flag in present.flags}
            for step in plan.changed:
                after = _renumbered(step.after, ids)
                with At(after.key):
                    store(_edit("updated", stored[after.id], after, actor, now))
            for flag in plan.deleted:
                gone = replace(flag, deleted=True, active=False)
                with At(flag.key):
                    store(_edit("deleted", stored[flag.id], gone, actor, now))

        await self._store.write_all(plan.project_id, work, now)


def _creation(flag: Flag, ids: Mapping[FlagId, FlagId], actor: Actor, now: datetime) -> FlagWrite:
    new = replace(_renumbered(flag, ids), id=NEW, created_at=now, updated_at=now)
    return FlagWrite(flag=new, tell=lambda made: entry_of("created", None, made, actor))


def _edit(verb: str, before: Flag, after: Flag, actor: Actor, now: datetime) -> FlagWrite:
    after = replace(
        after,
        version=before.version + 1,
        last_called_at=before.last_called_at,  # may have moved since, and is nobody's change
        last_modified_by=person_of(actor),
        updated_at=now,
    )
    return FlagWrite(flag=after, tell=lambda _: entry_of(verb, before, after, actor))


def _renumbered(flag: Flag, ids: Mapping[FlagId, FlagId]) -> Flag:
    """The flag with real ids where provisional ones were."""
    real = {str(provisional): str(id) for provisional, id in ids.items()}

    def rewrite(kind: str, value: Any, place: str) -> Any:
        return real.get(value, value) if kind == FLAG and isinstance(value, str) else value

    return replace(flag, filters=rewritten(flag.filters, rewrite))
