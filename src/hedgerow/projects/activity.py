"""The audit trail as values: who did what to which thing, with every field before and after.

One store keeps all entries (storage/activity.py); an entry is written in the same transaction as
the change that it tells of. Secret fields never enter an entry: they are masked here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId

MASK = "***"

ActorKind = Literal["key", "cli", "system"]
Action = Literal["created", "changed", "deleted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who made a change: a personal key by its label, somebody at the terminal, or Hedgerow
    itself.
    """

    kind: ActorKind
    id: str | None
    name: str
    email: str | None = None


SYSTEM = Actor(kind="system", id=None, name="System")
TERMINAL = Actor(kind="cli", id=None, name="hedgerow command line")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field of one thing. `type` is the kind of thing, as in PostHog's activity log."""

    type: str
    action: Action
    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the trail, as it is written. `activity` is the verb: created, updated, rolled
    …
    """

    scope: str
    item_id: str
    item_name: str
    activity: str
    actor: Actor
    project_id: ProjectId | None
    changes: tuple[Change, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An entry as it is read back, with its number and time."""

    id: int
    entry: Entry
    created_at: datetime


def differences(
    type: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    secret: frozenset[str] = frozenset(),
) -> tuple[Change, ...]:
    """One change for each field that is not the same on both sides. `{}` stands for "was not
    there".
    """
    return tuple(
        Change(
            type=type,
            action=_action(name in before, name in after),
            field=name,
            before=_shown(before.get(name), name in secret),
            after=_shown(after.get(name), name in secret),
        )
        for name in dict.fromkeys((*before, *after))
        if not jsonio.same(before.get(name), after.get(name))
    )


def _action(was_there: bool, is_there: bool) -> Action:
    if not was_there:
        return "created"
    return "changed" if is_there else "deleted"


def _shown(value: Any, is_secret: bool) -> Any:
    return MASK if is_secret and value else value
