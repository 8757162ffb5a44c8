"""Audit entries about people. None contains a secret."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.storage.engine import generations
from hedgerow.storage.projects import activity

USER_SCOPE = "User"
ROLE_SCOPE = "Role"
INVITE_SCOPE = "OrganizationInvite"


def record_change(  # noqa: PLR0913 - the parts of one entry
    connection: Connection,
    scope: str,
    item: tuple[str, str],
    what: str,
    actor: Actor,
    now: datetime,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Record a change of the item with this id and name, and advance the directory."""
    entry = ActivityEntry(
        scope=scope,
        item_id=item[0],
        item_name=item[1],
        activity=what,
        actor=actor,
        project_id=None,
        changes=diff_fields(scope, before or {}, after or {}),
    )
    activity.record(connection, entry, now)
    generations.advance(connection, "directory")
