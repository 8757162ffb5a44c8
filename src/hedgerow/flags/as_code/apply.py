"""Flags as code: export the flags of a project to a document, and apply a document."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict
from hedgerow.flags.as_code.document import FlagDocument, build_document, parse_document
from hedgerow.flags.as_code.plan import FlagPlan, FlagPlanner
from hedgerow.flags.as_code.references import FLAG, rewrite_references
from hedgerow.flags.edits import NEW
from hedgerow.flags.flags import build_flag_entry, describe_actor, new_flag
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.projects.activity import Actor
from hedgerow.projects.document import ErrorLocation
from hedgerow.projects.model import Project


class _Rehearsed(Exception):
    """Ends the transaction of a rehearsal, so that it is rolled back."""


class FlagsAsCode:
    def __init__(self, store: FlagStore) -> None:
        self._store = store

    async def export(self, project: Project) -> FlagDocument:
        base = await self._store.definitions(project.id, project.timezone)
        return build_document(base)

    async def plan(
        self, project: Project, document: Any, *, prune: bool, actor: Actor, now: datetime
    ) -> FlagPlan:
        """Plan the changes that the document requires. Invalid names the path of an error."""
        specs = parse_document(document)
        base = await self._store.definitions(project.id, project.timezone)
        blockers = await self._store.deletion_blockers(project.id) if prune else {}
        blank = new_flag(project, actor, now)
        return FlagPlanner(base, specs, blank, prune=prune, deletion_blockers=blockers).plan()

    async def rehearse(self, plan: FlagPlan, actor: Actor, now: datetime) -> None:
        """Raise the error that `apply` would raise. Nothing is stored."""
        with suppress(_Rehearsed):
            await self._write(plan, actor, now, is_rehearsal=True)

    async def apply(self, plan: FlagPlan, actor: Actor, now: datetime) -> None:
        """Apply all changes, or none if flags or cohorts have changed since the plan was made.
        Invalid names a flag that cannot be changed because another resource needs it."""
        await self._write(plan, actor, now, is_rehearsal=False)

    async def _write(
        self, plan: FlagPlan, actor: Actor, now: datetime, *, is_rehearsal: bool
    ) -> None:
        def work(present: FlagDefinitions, store: Callable[[FlagWrite], Flag]) -> None:
            if present.generation != plan.base.generation:
                raise Conflict(
                    "The flags have changed since the plan was made. Make a new plan first."
                )
            ids: dict[FlagId, FlagId] = {}
            for step in plan.created:
                ids[step.after.id] = store(_build_creation(step.after, ids, actor, now)).id
            stored = {flag.id: flag for flag in present.flags}
            for step in plan.changed:
                after = _replace_provisional_ids(step.after, ids)
                with ErrorLocation(after.key):
                    store(_build_edit("updated", stored[after.id], after, actor, now))
            for flag in plan.deleted:
                gone = replace(flag, deleted=True, active=False)
                with ErrorLocation(flag.key):
                    store(_build_edit("deleted", stored[flag.id], gone, actor, now))
            if is_rehearsal:
                raise _Rehearsed

        await self._store.write_all(plan.project_id, work, now)


def _build_creation(
    flag: Flag, ids: Mapping[FlagId, FlagId], actor: Actor, now: datetime
) -> FlagWrite:
    new = replace(_replace_provisional_ids(flag, ids), id=NEW, created_at=now, updated_at=now)
    return FlagWrite(
        flag=new, build_entry=lambda made: build_flag_entry("created", None, made, actor)
    )


def _build_edit(activity: str, before: Flag, after: Flag, actor: Actor, now: datetime) -> FlagWrite:
    after = replace(
        after,
        version=before.version + 1,
        last_called_at=before.last_called_at,  # not part of the edit
        last_modified_by=describe_actor(actor),
        updated_at=now,
    )
    return FlagWrite(
        flag=after, build_entry=lambda _: build_flag_entry(activity, before, after, actor)
    )


def _replace_provisional_ids(flag: Flag, ids: Mapping[FlagId, FlagId]) -> Flag:
    """Replace provisional ids in the filters of a flag by the stored ones."""
    real = {str(provisional): str(id) for provisional, id in ids.items()}

    def rewrite(kind: str, value: Any, place: str) -> Any:
        return real.get(value, value) if kind == FLAG and isinstance(value, str) else value

    return replace(flag, filters=rewrite_references(flag.filters, rewrite))
