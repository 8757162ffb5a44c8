"""Holdouts: shares of people who get no variant of the experiments that name the holdout. The flags
of these experiments have a copy of its share, which follows it, so that flags are evaluated alone.

The hash of a person does not include the flag, so that the same people are held out everywhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NewType, Protocol

from hedgerow.errors import Invalid, NotFound
from hedgerow.experiments.model import Experiment, ExperimentStatus
from hedgerow.experiments.variants import FlagEditor
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import describe_actor
from hedgerow.flags.model import Flag, FlagDefinitions
from hedgerow.flags.store import FlagWrite
from hedgerow.lib.text import truncate
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project, ProjectId

HoldoutId = NewType("HoldoutId", int)

SCOPE = "ExperimentHoldout"
MAX_HOLDOUTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdout:
    id: HoldoutId
    project_id: ProjectId
    name: str
    description: str
    exclusion_percentage: float
    created_by: str
    created_at: datetime
    updated_at: datetime

    @property
    def document(self) -> dict[str, Any]:
        """What flags and experiments have of it."""
        share = self.exclusion_percentage
        return {"id": self.id, "exclusion_percentage": int(share) if share % 1 == 0 else share}


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutWrite:
    """A holdout to store or, if `is_deleted`, to remove, with its experiments and their flags."""

    holdout: Holdout
    flags: Sequence[FlagWrite] = ()
    experiments: Sequence[Experiment] = ()
    build_entry: Callable[[Holdout], ActivityEntry | None]
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutContext:
    """What a write can read. `experiments` are those that are not deleted, with their flags."""

    definitions: FlagDefinitions
    holdouts: Mapping[HoldoutId, Holdout]
    experiments: Sequence[tuple[Experiment, Flag]]


class HoldoutStore(Protocol):
    async def holdouts(self, project_id: ProjectId) -> Sequence[Holdout]:
        """Return all holdouts of a project, newest first."""
        ...

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[HoldoutContext], HoldoutWrite],
        now: datetime,
    ) -> Holdout:
        """Store the result of `decide`, while the project is locked."""
        ...


class Holdouts:
    def __init__(self, store: HoldoutStore, flag_cache: FlagCache) -> None:
        self._store = store
        self._flag_cache = flag_cache

    async def list_holdouts(self, project: Project) -> Sequence[Holdout]:
        return await self._store.holdouts(project.id)

    async def find(self, project: Project, id: HoldoutId) -> Holdout:
        for each in await self._store.holdouts(project.id):
            if each.id == id:
                return each
        raise NotFound

    async def create(
        self, project: Project, fields: Mapping[str, Any], actor: Actor, now: datetime
    ) -> Holdout:
        new = Holdout(
            id=HoldoutId(0),
            project_id=project.id,
            created_by=describe_actor(actor),
            created_at=now,
            updated_at=now,
            **{"description": "", **fields},
        )

        def decide(context: HoldoutContext) -> HoldoutWrite:
            if len(context.holdouts) >= MAX_HOLDOUTS:
                raise Invalid(f"A project can have at most {MAX_HOLDOUTS} holdouts.")
            return HoldoutWrite(
                holdout=new, build_entry=lambda made: _entry("created", None, made, actor)
            )

        return await self._store.write(project.id, decide, now)

    async def change(
        self,
        project: Project,
        id: HoldoutId,
        fields: Mapping[str, Any],
        actor: Actor,
        now: datetime,
    ) -> Holdout:
        """Change a holdout. Another share changes the flags of its experiments, and is refused
        while one of them is running: its results would mix two splits."""

        def decide(context: HoldoutContext) -> HoldoutWrite:
            before = _get(context, id)
            after = replace(before, **fields)
            if after == before:
                return HoldoutWrite(holdout=before, build_entry=lambda _: None)
            after = replace(after, updated_at=now)
            entry = _entry("updated", before, after, actor)
            write = HoldoutWrite(holdout=after, build_entry=lambda _: entry)
            if after.exclusion_percentage == before.exclusion_percentage:
                return write
            return _carry(context, write, after.document, actor, now)

        changed = await self._store.write(project.id, decide, now)
        await self._flag_cache.refresh(project)
        return changed

    async def delete(self, project: Project, id: HoldoutId, actor: Actor, now: datetime) -> None:
        """Delete a holdout. Its experiments have none then."""

        def decide(context: HoldoutContext) -> HoldoutWrite:
            before = _get(context, id)
            entry = _entry("deleted", before, None, actor)
            write = HoldoutWrite(holdout=before, build_entry=lambda _: entry, is_deleted=True)
            return _carry(context, write, None, actor, now)

        await self._store.write(project.id, decide, now)
        await self._flag_cache.refresh(project)


def _get(context: HoldoutContext, id: HoldoutId) -> Holdout:
    found = context.holdouts.get(id)
    if found is None:
        raise NotFound
    return found


def _carry(
    context: HoldoutContext,
    write: HoldoutWrite,
    document: Mapping[str, Any] | None,
    actor: Actor,
    now: datetime,
) -> HoldoutWrite:
    """Return the write with the experiments of the holdout and their flags."""
    own = [
        (experiment, flag)
        for experiment, flag in context.experiments
        if experiment.holdout and experiment.holdout.get("id") == write.holdout.id
    ]
    for experiment, _ in own:
        if experiment.status is ExperimentStatus.RUNNING:
            raise Invalid(
                f"The experiment {truncate(experiment.name)!r} with this holdout is running. End "
                "or reset it first.",
                attr="filters",
            )
    editor = FlagEditor(definitions=context.definitions, actor=actor, now=now)
    flags: dict[int, FlagWrite] = {}
    for _, flag in own:
        if not flag.deleted and flag.id not in flags:
            changed = editor.update(flag, holdout=document, switched_on=False)
            flags |= {} if changed is None else {flag.id: changed}
    holdout = None if document is None else dict(document)
    experiments = [replace(each, holdout=holdout, updated_at=now) for each, _ in own]
    return replace(write, flags=list(flags.values()), experiments=experiments)


def _entry(
    activity: str, before: Holdout | None, after: Holdout | None, actor: Actor
) -> ActivityEntry:
    holdout = after or before
    assert holdout is not None
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(holdout.id),
        item_name=holdout.name,
        activity=activity,
        actor=actor,
        project_id=holdout.project_id,
        changes=diff_fields(SCOPE, _audit(before), _audit(after)),
    )


def _audit(holdout: Holdout | None) -> dict[str, Any]:
    if holdout is None:
        return {}
    return {
        "name": holdout.name,
        "description": holdout.description,
        "exclusion_percentage": holdout.exclusion_percentage,
    }
