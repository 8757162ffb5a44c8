"""An action: a name for the events that match one of its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NewType

from hedgerow.projects.model import ProjectId

ActionId = NewType("ActionId", int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """`steps` are validated, with all fields of a step."""

    id: ActionId
    project_id: ProjectId
    name: str
    description: str
    steps: Sequence[Mapping[str, Any]]
    tags: Sequence[str]
    slack_message_format: str
    pinned_at: datetime | None
    deleted: bool
    created_by: str
    created_at: datetime
    updated_at: datetime


ActionsById = Mapping[ActionId, Action]
