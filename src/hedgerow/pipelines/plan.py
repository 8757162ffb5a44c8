"""From the records there are to those that a document asks for: what must change. Pure, but for
the sealer that is handed in.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.lib.tokens import random_token
from hedgerow.lib.yamlio import FromEnv
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.component import SettingField, SettingType
from hedgerow.pipelines.config import Sealer
from hedgerow.pipelines.document import Document, Wanted
from hedgerow.pipelines.filters import check_settings
from hedgerow.pipelines.model import WEB_TOKEN_BITS, Family, Record, RecordId
from hedgerow.pipelines.numbers import INT32_MAX
from hedgerow.projects.document import check_no_reference
from hedgerow.projects.model import ProjectId

NEW = RecordId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPlan:
    """`sequence` is the order in the end, where it is not just the present one with new records
    behind it."""

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
class Plan:
    """All changes of one project, made from the records in `seen`."""

    project_id: ProjectId
    seen: Sequence[Record]
    families: Sequence[FamilyPlan]

    @property
    def is_empty(self) -> bool:
        return all(family.is_empty for family in self.families)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """What planning needs besides the records: `environment` is where `!env` looks."""

    project_id: ProjectId
    sealer: Sealer
    environment: Mapping[str, str]
    is_installed: Callable[[Record], bool]
    prune: bool
    now: datetime

    def plan(self, seen: Sequence[Record], document: Document) -> Plan:
        families = [
            self._family(family, [record for record in seen if record.family is family], wanted)
            for family, wanted in document.items()
        ]
        return Plan(project_id=self.project_id, seen=seen, families=families)

    def _family(
        self, family: Family, present: Sequence[Record], wanted: Sequence[Wanted]
    ) -> FamilyPlan:
        waiting = _by_identity(present)
        pairs: list[tuple[Record | None, Record]] = []
        for each in wanted:
            same = waiting[_identity(each.name, each.component.id)]
            before = same.pop(0) if same else None
            pairs.append((before, self._after(family, before, each)))
        left = {record.id for records in waiting.values() for record in records}
        others = [record for record in present if record.id in left]
        # A document cannot name a component that is not installed, so it cannot leave one out.
        deleted = [each for each in others if self.prune and self.is_installed(each)]
        kept = [record for record in others if record not in deleted]
        placed, moved = _placed(present, pairs, kept)
        befores = {record.id: record for record in present}
        changed = [
            (befores[record.id], record)
            for record in placed
            if record.id != NEW and not record.is_same_as(befores[record.id])
        ]
        return FamilyPlan(
            family=family,
            created=[record for record in placed if record.id == NEW],
            changed=changed,
            deleted=deleted,
            kept=kept,
            sequence=placed if moved else None,
        )

    def _after(self, family: Family, before: Record | None, wanted: Wanted) -> Record:
        component = wanted.component
        if before is None:
            before = Record(
                id=NEW,
                project_id=self.project_id,
                family=family,
                component_id=component.id,
                component_version=component.component.version,
                enabled=False,
                order=0,
                name=wanted.name,
                description="",
                deleted=False,
                config={},
                web_token=random_token("", WEB_TOKEN_BITS),
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
            enabled=wanted.enabled,
            description=wanted.description,
            config=self._config(before, wanted),
        )

    def _config(self, before: Record, wanted: Wanted) -> Mapping[str, Any]:
        """The settings as the document has them: what it leaves out goes, secrets too."""
        component = wanted.component.component
        known = {field.key: field for field in component.settings}
        given = {}
        for key, value in wanted.settings.items():
            place = f"{wanted.place}: {key}"
            if key not in known:
                names = ", ".join(known) or "none"
                raise Invalid(f"{component.name} has no such setting. It has: {names}.", attr=place)
            given[key] = self._value(known[key], value, key in before.config, place)
        secrets = {
            key: value
            for key, value in before.config.items()
            if key in component.secret_keys and key in given
        }
        try:
            config = settings.changed(component, secrets, given, self.sealer)
            if config and not jsonio.same(config, before.config):
                check_settings(component, config, self.sealer)
        except Invalid as error:
            key = (error.attr or "").removeprefix("config__")
            raise Invalid(error.detail, attr=f"{wanted.place}: {key}", code=error.code) from None
        return config

    def _value(self, field: SettingField, value: Any, is_stored: bool, place: str) -> Any:
        if not isinstance(value, FromEnv):
            if field.secret:
                raise Invalid(
                    "This is a secret. Write `!env NAME`, and set the variable NAME to it.",
                    attr=place,
                )
            check_no_reference(
                value, place, "`!env` stands for a whole setting, not for a part of it."
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
            raise Invalid(f"The variable {value.name} does not hold JSON.", attr=place) from None


def _identity(name: str, component_id: int) -> tuple[str, int]:
    return (name, 0) if name else ("", component_id)


def _by_identity(records: Sequence[Record]) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        found[_identity(record.name, record.component_id)].append(record)
    return found


def _placed(
    present: Sequence[Record],
    pairs: Sequence[tuple[Record | None, Record]],
    kept: Sequence[Record],
) -> tuple[list[Record], bool]:
    """The records in the end with their numbers, and whether any had to move. New ones go behind
    the others if that gives the document's order; else the document's come first, one by one."""
    asked = [after for _, after in pairs]
    old = [after.id for after in asked if after.id != NEW]
    stays = [record.id for record in present if record.id in set(old)] == old
    new_are_last = all(after.id == NEW for after in asked[len(old) :])
    last = max((record.order for record in present), default=0)
    if stays and new_are_last and last + len(asked) - len(old) <= INT32_MAX:
        new = [
            replace(after, order=last + 1 + number)
            for number, after in enumerate(asked[len(old) :])
        ]
        ending = sorted([*asked[: len(old)], *kept], key=lambda record: (record.order, record.id))
        return [*ending, *new], False
    sequence = [*asked, *kept]
    lowest = min((record.order for record in present), default=1)
    first = min(lowest, INT32_MAX - len(sequence) + 1)
    return [replace(record, order=first + number) for number, record in enumerate(sequence)], True
