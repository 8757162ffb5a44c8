"""The activity log: who changed which object, with each field before and after.

An entry is stored in the transaction of its change. Secret fields are masked here and never stored.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId

MASK = "***"
# The event source of destinations that receive the entries of their project.
ACTIVITY_LOG = "activity_log"

ActorKind = Literal["key", "user", "cli", "system"]
Action = Literal["created", "changed", "deleted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The author of a change: a personal API key, a person who has logged in, the command line, or
    Hedgerow. The email is that of the person, also for a key."""

    kind: ActorKind
    id: str | None
    name: str
    email: str | None = None


SYSTEM = Actor(kind="system", id=None, name="System")
COMMAND_LINE = Actor(kind="cli", id=None, name="hedgerow command line")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One changed field. `type` is the type of the object, as in PostHog's activity log."""

    type: str
    action: Action
    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityEntry:
    """An entry to store. `activity` is what happened: created, updated, rolled ..."""

    scope: str
    item_id: str
    item_name: str
    activity: str
    actor: Actor
    project_id: ProjectId | None
    changes: tuple[FieldChange, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedActivity:
    """A stored entry with its id and time."""

    id: int
    entry: ActivityEntry
    created_at: datetime


def render_detail(entry: ActivityEntry) -> dict[str, Any]:
    """Return the `detail` of an entry, in PostHog's shape."""
    return {
        "id": entry.item_id,
        "name": entry.item_name,
        "short_id": None,
        "type": None,
        "changes": [asdict(change) for change in entry.changes],
        "merge": None,
        "trigger": None,
        **entry.detail,
    }


def diff_fields(
    type: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    secret: frozenset[str] = frozenset(),
) -> tuple[FieldChange, ...]:
    """Return a change for each field that differs. `{}` stands for an object that does not
    exist."""
    return tuple(
        FieldChange(
            type=type,
            action=_action(name in before, name in after),
            field=name,
            before=_mask_secret(before.get(name), name in secret),
            after=_mask_secret(after.get(name), name in secret),
        )
        for name in dict.fromkeys((*before, *after))
        if not jsonio.is_equal(before.get(name), after.get(name))
    )


def _action(was_set: bool, is_set: bool) -> Action:
    if not was_set:
        return "created"
    return "changed" if is_set else "deleted"


def _mask_secret(value: Any, is_secret: bool) -> Any:
    return MASK if is_secret and value else value
