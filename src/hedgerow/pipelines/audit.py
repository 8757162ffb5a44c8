"""What the audit trail is told of a pipeline record: each field before and after, no secret."""

from dataclasses import replace
from typing import Any

from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import is_sealed
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.store import Tell
from hedgerow.projects.activity import Actor, Entry, differences

SCOPE = "PluginConfig"


class Audit:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def created(self, record: Record, actor: Actor) -> Entry:
        return self._entry("created", None, record, actor)

    def change(
        self, before: Record, after: Record, actor: Actor, verb: str | None = None
    ) -> Entry | None:
        """Nothing is told of a change that changed nothing."""
        if after.is_same_as(before):
            return None
        return self._entry(verb or _verb(before, after), before, after, actor)

    def teller(self, actor: Actor) -> Tell:
        """What storage asks for the entry of a record that it made or moved."""

        def tell(before: Record | None, after: Record) -> Entry:
            if before is None:
                return self.created(after, actor)
            return self._entry("order_changed", before, after, actor)

        return tell

    def _entry(self, verb: str, before: Record | None, after: Record, actor: Actor) -> Entry:
        component = self._catalogue.component(after.component_id)
        secret = frozenset(
            f"config.{key}"
            for record in (before, after)
            if record is not None
            and (its := self._catalogue.component(record.component_id)) is not None
            for key in its.secret_keys
        ) | frozenset(
            f"config.{key}"
            for record in (before, after)
            if record is not None
            for key, value in record.config.items()
            if is_sealed(value)
        )
        return Entry(
            scope=SCOPE,
            item_id=str(after.id),
            item_name=after.name or (component.name if component else ""),
            activity=verb,
            actor=actor,
            project_id=after.project_id,
            changes=differences(SCOPE, _audited(before), _audited(after), secret=secret),
        )


def _verb(before: Record, after: Record) -> str:
    if after.deleted != before.deleted:
        return "deleted" if after.deleted else "restored"
    if after.enabled != before.enabled:
        return "enabled" if after.enabled else "disabled"
    if replace(after, config=before.config) == before:
        return "config_updated"
    return "updated"


def _audited(record: Record | None) -> dict[str, Any]:
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
