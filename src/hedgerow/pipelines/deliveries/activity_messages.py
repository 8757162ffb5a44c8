"""Messages about entries of the activity log: PostHog's event `$activity_log_entry_created`."""

from collections.abc import Mapping
from typing import Any

from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.pipelines.deliveries.messages import build_message
from hedgerow.plugin.payload import ACTIVITY_EVENT
from hedgerow.projects.activity import Actor, FieldChange, RecordedActivity, render_detail
from hedgerow.projects.model import ProjectId

# The values of larger entries are left out; the activity log has them.
MAX_PROPERTIES_BYTES = 256 * 1024
SHOWN_VALUE_CHARS = 60
SHOWN_REASON_CHARS = 500
SHOWN_CHANGES = 10


def build_activity_message(project_id: ProjectId, recorded: RecordedActivity) -> Event:
    """Return the message about an entry of the activity log of this project."""
    properties = _build_properties(project_id, recorded)
    if len(jsonio.encode(properties)) > MAX_PROPERTIES_BYTES:
        properties["detail"] = _leave_out_values(recorded)
    return build_message(project_id, ACTIVITY_EVENT, properties, recorded.created_at)


def _build_properties(project_id: ProjectId, recorded: RecordedActivity) -> dict[str, Any]:
    entry = recorded.entry
    is_system = entry.actor.kind == "system"
    return {
        "id": recorded.id,
        "project_id": project_id,
        "user": None if is_system else _render_user(entry.actor),
        "is_system": is_system,
        "was_impersonated": False,
        "activity": entry.activity,
        "scope": entry.scope,
        "item_id": entry.item_id,
        "item_name": entry.item_name,
        "detail": render_detail(entry),
        "created_at": format_iso(recorded.created_at),
        "message": describe_entry(recorded),
    }


def _render_user(actor: Actor) -> Mapping[str, Any]:
    return {"first_name": actor.name, "email": actor.email}


def _leave_out_values(recorded: RecordedActivity) -> Mapping[str, Any]:
    changes = [
        {"type": each.type, "action": each.action, "field": each.field[:SHOWN_VALUE_CHARS]}
        for each in recorded.entry.changes[:SHOWN_CHANGES]
    ]
    entry = recorded.entry
    return {
        "id": entry.item_id,
        "name": entry.item_name,
        "changes": changes,
        "is_truncated": True,
    }


def describe_entry(recorded: RecordedActivity) -> str:
    """Return a line of text such as `ann@example.com updated FeatureFlag checkout: active false →
    true, filters`; without a person `FeatureFlag checkout became stale: …`."""
    entry = recorded.entry
    what = f"{entry.scope} {_shorten(entry.item_name or entry.item_id)}"
    done = entry.activity.replace("_", " ")
    text = f"{entry.actor.email or entry.actor.name} {done} {what}"
    if entry.actor.kind == "system":
        text = f"{what} {done}"
    if isinstance(reason := entry.detail.get("reason"), str) and reason:
        return f"{text}: {reason[:SHOWN_REASON_CHARS]}"
    if entry.activity in ("created", "deleted") or not entry.changes:
        return text
    changes = [_describe_change(change) for change in entry.changes[:SHOWN_CHANGES]]
    left = len(entry.changes) - len(changes)
    return f"{text}: {', '.join(changes)}{f' and {left} more' if left else ''}"


def _describe_change(change: FieldChange) -> str:
    """Return the name of a field, and its values if both are short."""
    if not (_is_short(change.before) and _is_short(change.after)):
        return change.field
    return f"{change.field} {_show(change.before)} → {_show(change.after)}"


def _is_short(value: Any) -> bool:
    is_scalar = value is None or isinstance(value, str | int | float)
    return is_scalar and len(str(value)) <= SHOWN_VALUE_CHARS


def _show(value: Any) -> str:
    return jsonio.encode(value).decode()


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN_VALUE_CHARS else text[: SHOWN_VALUE_CHARS - 1] + "…"
