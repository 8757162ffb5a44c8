"""Storage of actions, implemented in `storage/insights/actions.py`."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from hedgerow.events.actions.model import Action, ActionId, ActionsById
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId


class ActionStore(Protocol):
    async def actions(self, project_id: ProjectId) -> list[Action]:
        """Return the actions that are not deleted, newest first."""
        ...

    async def action(self, project_id: ProjectId, id: ActionId) -> Action | None:
        """Return an action, also a deleted one."""
        ...

    async def write_action(
        self,
        project_id: ProjectId,
        decide: Callable[[ActionsById], Action],
        build_entry: Callable[[Action | None, Action], ActivityEntry],
        now: datetime,
    ) -> Action:
        """Store the action that `decide` returns. It gets all actions, deleted ones too."""
        ...
