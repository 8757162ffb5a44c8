"""Compares a project's records with a document and plans the changes. Pure, values a cipher."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.tokens import generate_token
from hedgerow.lib.yamlio import FromEnv
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.event_filters import check_filter_fields, check_settings
from hedgerow.pipelines.model import INT32_MAX, WEB_TOKEN_BITS, Record, RecordId
from hedgerow.pipelines.records.document import Document, RecordSpec
from hedgerow.pipelines.secret_addresses import check_secrets_sent_again
from hedgerow.plugin.component import Family, SettingField, SettingType
from hedgerow.projects.document import check_no_env_reference
from hedgerow.projects.model import ProjectId

NEW_RECORD_ID = RecordId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPlan:
    """`sequence` is the resulting order; None if current records stay and new ones go to the end.
    `kept` are records that the document does not mention."""

    family: Family
    created: Sequence[Record]
    changed: Sequence[tuple[Record, Record]]
    deleted: Sequence[Record]
    kept: Sequence[Record]
    sequence: Sequence[Record] | None

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.changed or self.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlan:
    """All changes of one project, planned from `records`, its records at that time."""

    project_id: ProjectId
    records: Sequence[Record]
    families: Sequence[FamilyPlan]

    @property
    def is_empty(self) -> bool:
        return all(family.is_empty for family in self.families)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlanner:
    """`!env` references are looked up in `environment`."""

    project_id: ProjectId
    cipher: Cipher
    environment: Mapping[str, str]
    is_installed: Callable[[Record], bool]
    prune: bool
    now: datetime

    def plan(self, records: Sequence[Record], document: Document) -> RecordPlan:
        families = [
            self._plan_family(
                family, [record for record in records if record.family is family], specs
            )
            for family, specs in document.items()
        ]
        return RecordPlan(project_id=self.project_id, records=records, families=families)

    def _plan_family(
        self, family: Family, present: Sequence[Record], specs: Sequence[RecordSpec]
    ) -> FamilyPlan:
        unmatched = _group_by_identity(present)
        pairs: list[tuple[Record | None, Record]] = []
        for each in specs:
            same = unmatched[_identity(each.name, each.component.id)]
            before = same.pop(0) if same else None
            pairs.append((before, self._build_record(family, before, each)))
        left = {record.id for records in unmatched.values() for record in records}
        others = [record for record in present if record.id in left]
        # A document cannot mention a record whose component is not installed, so keep those.
        deleted = [each for each in others if self.prune and self.is_installed(each)]
        kept = [record for record in others if record not in deleted]
        ordered, moved = _assign_orders(present, pairs, kept)
        befores = {record.id: record for record in present}
        changed = [
            (befores[record.id], record)
            for record in ordered
            if record.id != NEW_RECORD_ID and not record.is_same_as(befores[record.id])
        ]
        return FamilyPlan(
            family=family,
            created=[record for record in ordered if record.id == NEW_RECORD_ID],
            changed=changed,
            deleted=deleted,
            kept=kept,
            sequence=ordered if moved else None,
        )

    def _build_record(self, family: Family, before: Record | None, spec: RecordSpec) -> Record:
        component = spec.component
        if before is None:
            before = Record(
                id=NEW_RECORD_ID,
                project_id=self.project_id,
                family=family,
                component_id=component.id,
                component_version=component.component.version,
                enabled=False,
                order=0,
                name=spec.name,
                description="",
                deleted=False,
                config={},
                web_token=generate_token("", WEB_TOKEN_BITS),
                created_at=self.now,
                updated_at=self.now,
            )
        elif before.component_id != component.id:
            before = replace(
                before,
                component_id=component.id,
                component_version=component.component.version,
                config={},
            )
        return replace(
            before,
            enabled=spec.enabled,
            description=spec.description,
            config=self._build_config(before, spec),
        )

    def _build_config(self, before: Record, spec: RecordSpec) -> Mapping[str, Any]:
        """Return the settings of the document. Settings it omits are removed, secrets included."""
        component = spec.component.component
        fields_by_key = {field.key: field for field in component.settings}
        values = {}
        for key, value in spec.settings.items():
            place = f"{spec.place}: {key}"
            if key not in fields_by_key:
                names = ", ".join(fields_by_key) or "none"
                raise Invalid(f"Unknown setting. Expected one of: {names}.", attr=place)
            values[key] = self._resolve_value(
                fields_by_key[key], value, key in before.config, place
            )
        secrets = {
            key: value
            for key, value in before.config.items()
            if key in component.secret_keys and key in values
        }
        try:
            config = settings.merge_settings(component, secrets, values, self.cipher)
            check_secrets_sent_again(component, before.config, config, values)
            if config and not jsonio.is_equal(config, before.config):
                check_filter_fields(component, config, before.config)
                check_settings(component, config, self.cipher)
        except Invalid as error:
            key = (error.attr or "").removeprefix("config__")
            raise Invalid(error.detail, attr=f"{spec.place}: {key}", code=error.code) from None
        return config

    def _resolve_value(self, field: SettingField, value: Any, is_stored: bool, place: str) -> Any:
        if not isinstance(value, FromEnv):
            if field.secret:
                raise Invalid(
                    "This setting is secret. Write `!env NAME` and set the environment variable.",
                    attr=place,
                )
            check_no_env_reference(
                value, place, "`!env` must be the whole value of a setting, not a part of it."
            )
            return value
        text = self.environment.get(value.name)
        if text is None:
            if field.secret and is_stored:
                return settings.MASK
            raise Invalid(f"The environment variable {value.name} is not set.", attr=place)
        if field.type is not SettingType.JSON or not text:
            return text
        try:
            return jsonio.parse(text.encode("utf-8", "surrogateescape"))
        except jsonio.JsonError:
            raise Invalid(
                f"The environment variable {value.name} is not valid JSON.", attr=place
            ) from None


def _identity(name: str, component_id: int) -> tuple[str, int]:
    return (name, 0) if name else ("", component_id)


def _group_by_identity(records: Sequence[Record]) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        found[_identity(record.name, record.component_id)].append(record)
    return found


def _assign_orders(
    present: Sequence[Record],
    pairs: Sequence[tuple[Record | None, Record]],
    kept: Sequence[Record],
) -> tuple[list[Record], bool]:
    """Return the resulting records with their orders, and whether any had to move.

    New records go to the end if that gives the document's order. Otherwise all records of the
    document come first, numbered without gaps.
    """
    requested = [after for _, after in pairs]
    old = [after.id for after in requested if after.id != NEW_RECORD_ID]
    stays = [record.id for record in present if record.id in set(old)] == old
    new_are_last = all(after.id == NEW_RECORD_ID for after in requested[len(old) :])
    last = max((record.order for record in present), default=0)
    if stays and new_are_last and last + len(requested) - len(old) <= INT32_MAX:
        new = [
            replace(after, order=last + 1 + number)
            for number, after in enumerate(requested[len(old) :])
        ]
        ending = sorted(
            [*requested[: len(old)], *kept], key=lambda record: (record.order, record.id)
        )
        return [*ending, *new], False
    sequence = [*requested, *kept]
    lowest = min((record.order for record in present), default=1)
    first = min(lowest, INT32_MAX - len(sequence) + 1)
    return [replace(record, order=first + number) for number, record in enumerate(sequence)], True
