"""Operations on actions: create, change, delete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.actions.model import Action, ActionId, ActionsById
from hedgerow.events.actions.steps import build_steps_condition
from hedgerow.events.actions.store import ActionStore
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.hogql.ast import Join, SelectQuery
from hedgerow.hogql.builders import constant, field
from hedgerow.hogql.errors import HogQLError
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project

SCOPE = "Action"
NEW = ActionId(0)
# Queries that name an action load all of them.
MAX_PROJECT_ACTIONS = 2_000
MAX_PROJECT_BYTES = 4 << 20


class Actions:
    def __init__(self, store: ActionStore, executor: QueryExecutor) -> None:
        self._store = store
        self._executor = executor

    async def list_actions(self, project: Project) -> Sequence[Action]:
        """Return the actions that are not deleted, newest first."""
        return await self._store.actions(project.id)

    async def find(self, project: Project, id: ActionId) -> Action:
        """Return an action. As in PostHog, a deleted one can be read and restored."""
        found = await self._store.action(project.id, id)
        if found is None:
            raise NotFound
        return found

    async def create(
        self, project: Project, fields: Mapping[str, Any], actor: Actor, now: datetime
    ) -> Action:
        """Create an action with these validated fields."""
        await self._check_steps(project, fields, now)

        def decide(others: ActionsById) -> Action:
            if sum(not each.deleted for each in others.values()) >= MAX_PROJECT_ACTIONS:
                raise Invalid(f"A project can have at most {MAX_PROJECT_ACTIONS} actions.")
            return _check(replace(_build_blank(project, actor, now), **fields), others)

        return await self._store.write_action(project.id, decide, _entry_builder(actor), now)

    async def change(
        self,
        project: Project,
        id: ActionId,
        fields: Mapping[str, Any],
        actor: Actor,
        now: datetime,
    ) -> Action:
        await self._check_steps(project, fields, now)

        def decide(others: ActionsById) -> Action:
            before = others.get(id)
            if before is None:
                raise NotFound
            after = replace(before, **fields)
            return before if after == before else _check(replace(after, updated_at=now), others)

        return await self._store.write_action(project.id, decide, _entry_builder(actor), now)

    async def _check_steps(
        self, project: Project, fields: Mapping[str, Any], now: datetime
    ) -> None:
        steps = fields.get("steps")
        if steps:
            context = await self._executor.load_context(project, now, [steps])
            await self._executor.run_compilation(context, partial(check_steps, steps, context))


def check_steps(steps: Sequence[Mapping[str, Any]], context: QueryContext) -> None:
    """Raise Invalid for steps that no query could use."""
    condition = build_steps_condition(steps, context.cohorts, context.time)
    query = SelectQuery(select=[constant(1)], source=Join(table=field("events")), where=condition)
    try:
        compile_query(query, context)
    except HogQLError as error:
        raise Invalid(error.detail, attr="steps", code=error.code) from None


def _build_blank(project: Project, actor: Actor, now: datetime) -> Action:
    return Action(
        id=NEW,
        project_id=project.id,
        name="",
        description="",
        steps=[],
        tags=[],
        slack_message_format="",
        pinned_at=None,
        deleted=False,
        created_by=actor.email or actor.name,
        created_at=now,
        updated_at=now,
    )


def _check(action: Action, others: ActionsById) -> Action:
    """Check an action against the others of the project."""
    live = [each for each in others.values() if each.id != action.id and not each.deleted]
    if action.deleted:
        return action
    for each in live:
        if each.name == action.name:
            detail = f"This project already has an action with this name, ID {each.id}"
            raise Invalid(detail, attr="name", code="unique")
    if sum(len(jsonio.encode(each.steps)) for each in (action, *live)) > MAX_PROJECT_BYTES:
        limit = MAX_PROJECT_BYTES >> 20
        detail = f"The actions of a project can have at most {limit} MiB of steps in total."
        raise Invalid(detail, attr="steps", code="max_length")
    return action


def _entry_builder(actor: Actor) -> Callable[[Action | None, Action], ActivityEntry]:
    def build_entry(before: Action | None, after: Action) -> ActivityEntry:
        activity = "updated"
        if before is None:
            activity = "created"
        elif after.deleted and not before.deleted:
            activity = "deleted"
        return ActivityEntry(
            scope=SCOPE,
            item_id=str(after.id),
            item_name=after.name,
            activity=activity,
            actor=actor,
            project_id=after.project_id,
            changes=diff_fields(SCOPE, _audit_fields(before), _audit_fields(after)),
        )

    return build_entry


def _audit_fields(action: Action | None) -> dict[str, Any]:
    if action is None:
        return {}
    return {
        "name": action.name,
        "description": action.description,
        "steps": action.steps,
        "tags": action.tags,
        "pinned_at": format_iso(action.pinned_at) if action.pinned_at else None,
        "deleted": action.deleted,
    }
