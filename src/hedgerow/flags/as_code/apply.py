"""Flags as code: export the flags of a project to a document, and apply a document."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict
from hedgerow.flags.as_code.document import FlagDocument, build_document, parse_document
from hedgerow.flags.as_code.overrides import EnvironmentChoice
from hedgerow.flags.as_code.plan import FlagPlan, FlagPlanner
from hedgerow.flags.as_code.references import COHORT, FLAG, rewrite_references
from hedgerow.flags.edits import NEW
from hedgerow.flags.flags import Authorship, build_flag_entry, describe_actor, new_flag
from hedgerow.flags.model import Flag, FlagDefinitions
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.projects.activity import ActivityEntry, Actor
from hedgerow.projects.document import ErrorLocation
from hedgerow.projects.model import Project


class Rehearsed(Exception):
    """Ends the transaction of a rehearsal, so that it is rolled back."""


class FlagsAsCode:
    def __init__(self, store: FlagStore) -> None:
        self._store = store

    async def export(self, project: Project) -> FlagDocument:
        base = await self._store.definitions(project.id, project.timezone)
        return build_document(base)

    async def plan(
        self,
        project: Project,
        document: Any,
        *,
        choice: EnvironmentChoice | None = None,
        prune: bool,
        actor: Actor,
        now: datetime,
    ) -> FlagPlan:
        """Plan the changes that the document requires. Invalid names the path of an error.
        `choice` is the environment that the project is."""
        specs = parse_document(document, choice)
        base = await self._store.definitions(project.id, project.timezone)
        blockers = await self._store.deletion_blockers(project.id) if prune else {}
        blank = new_flag(project, actor, now)
        return FlagPlanner(base, specs, blank, prune=prune, deletion_blockers=blockers).plan()

    async def rehearse(self, plan: FlagPlan, actor: Actor, now: datetime) -> None:
        """Raise the error that `apply` would raise. Nothing is stored."""
        with suppress(Rehearsed):
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
            PlanWriter(store, Authorship(actor=actor, at=now)).write(plan, present)
            if is_rehearsal:
                raise Rehearsed

        await self._store.write_all(plan.project_id, work, now)


class PlanWriter:
    """Stores the flags of a plan, in an open transaction. `cohort_ids` has the stored id for each
    provisional id of a cohort."""

    def __init__(
        self,
        store: Callable[[FlagWrite], Flag],
        by: Authorship,
        cohort_ids: Mapping[int, int] | None = None,
    ) -> None:
        self._store = store
        self._by = by
        self._flag_ids: dict[str, str] = {}
        self._cohort_ids = cohort_ids or {}

    def write(self, plan: FlagPlan, present: FlagDefinitions) -> None:
        """Raise Invalid with the key of a flag that cannot be stored."""
        for step in plan.created:
            with ErrorLocation(step.after.key):
                made = self._store(self._build_creation(step.after))
            self._flag_ids[str(step.after.id)] = str(made.id)
        stored = {flag.id: flag for flag in present.flags}
        for step in plan.changed:
            after = self._replace_provisional_ids(step.after)
            with ErrorLocation(after.key):
                self._store(self._build_edit("updated", stored[after.id], after))
        for flag in plan.deleted:
            gone = replace(flag, deleted=True, active=False)
            with ErrorLocation(flag.key):
                self._store(self._build_edit("deleted", stored[flag.id], gone))

    def _build_creation(self, flag: Flag) -> FlagWrite:
        at = self._by.at
        new = replace(self._replace_provisional_ids(flag), id=NEW, created_at=at, updated_at=at)
        return FlagWrite(
            flag=new, build_entry=lambda made: self._build_entry("created", None, made)
        )

    def _build_edit(self, activity: str, before: Flag, after: Flag) -> FlagWrite:
        after = replace(
            after,
            version=before.version + 1,
            last_called_at=before.last_called_at,  # not part of the edit
            last_modified_by=describe_actor(self._by.actor),
            updated_at=self._by.at,
        )
        return FlagWrite(
            flag=after, build_entry=lambda _: self._build_entry(activity, before, after)
        )

    def _build_entry(self, activity: str, before: Flag | None, after: Flag) -> ActivityEntry:
        entry = build_flag_entry(activity, before, after, self._by.actor)
        return replace(entry, detail=self._by.detail)

    def _replace_provisional_ids(self, flag: Flag) -> Flag:
        """Replace provisional ids in the filters of a flag by the stored ones."""

        def rewrite(kind: str, value: Any, place: str) -> Any:
            if kind == FLAG and isinstance(value, str):
                return self._flag_ids.get(value, value)
            if kind == COHORT and isinstance(value, int):
                return self._cohort_ids.get(value, value)
            return value

        return replace(flag, filters=rewrite_references(flag.filters, rewrite))
