"""Activity entries of pipeline records: each field before and after, without secrets."""

from dataclasses import replace
from typing import Any

from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import is_encrypted
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.store import BuildEntry
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields

SCOPE = "PluginConfig"


class RecordAudit:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def build_created(self, record: Record, actor: Actor) -> ActivityEntry:
        return self._entry("created", None, record, actor)

    def build_change(
        self, before: Record, after: Record, actor: Actor, activity: str | None = None
    ) -> ActivityEntry | None:
        """Return the entry of a change; None if nothing changed."""
        if after.is_same_as(before):
            return None
        return self._entry(activity or _activity(before, after), before, after, actor)

    def entry_builder(self, actor: Actor) -> BuildEntry:
        """Return a function that builds the entry of a record that was created or moved."""

        def build(before: Record | None, after: Record) -> ActivityEntry:
            if before is None:
                return self.build_created(after, actor)
            return self._entry("order_changed", before, after, actor)

        return build

    def _entry(
        self, activity: str, before: Record | None, after: Record, actor: Actor
    ) -> ActivityEntry:
        component = self._catalogue.component(after.component_id)
        secret = frozenset(
            f"config.{key}"
            for record in (before, after)
            if record is not None
            and (used := self._catalogue.component(record.component_id)) is not None
            for key in used.secret_keys
        ) | frozenset(
            f"config.{key}"
            for record in (before, after)
            if record is not None
            for key, value in record.config.items()
            if is_encrypted(value)
        )
        return ActivityEntry(
            scope=SCOPE,
            item_id=str(after.id),
            item_name=after.name or (component.name if component else ""),
            activity=activity,
            actor=actor,
            project_id=after.project_id,
            changes=diff_fields(SCOPE, _audit_fields(before), _audit_fields(after), secret=secret),
        )


def _activity(before: Record, after: Record) -> str:
    if after.deleted != before.deleted:
        return "deleted" if after.deleted else "restored"
    if after.enabled != before.enabled:
        return "enabled" if after.enabled else "disabled"
    if replace(after, config=before.config) == before:
        return "config_updated"
    return "updated"


def _audit_fields(record: Record | None) -> dict[str, Any]:
    if record is None:
        return {}
    return {
        "plugin": record.component_id,
        "version": record.component_version,
        "enabled": record.enabled,
        "order": record.order,
        "name": record.name,
        "description": record.description,
        "deleted": record.deleted,
    } | {f"config.{key}": value for key, value in record.config.items()}
