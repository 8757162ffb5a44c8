"""What the printer must know beside the query: whose data, which clock, which types, which
cohorts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from zoneinfo import ZoneInfo

from hedgerow.hogql.ast import Select


class PropertyType(StrEnum):
    """What a property is known to hold. Everything else is a text."""

    NUMERIC = "Numeric"
    DATETIME = "DateTime"
    BOOLEAN = "Boolean"
    STRING = "String"


def _no_cohort(_: int | str) -> Select | None:
    return None


@dataclass(frozen=True)
class World:
    """`property_types` has an inner mapping by property for each of "event", "person" and
    "group_0" to "group_4". `cohort` gives the query of a cohort's person ids, by its id or name,
    or None when there is no such cohort."""

    project_id: int
    now: datetime
    timezone: str = "UTC"
    property_types: Mapping[str, Mapping[str, PropertyType]] = field(default_factory=dict)
    cohort: Callable[[int | str], Select | None] = _no_cohort

    def property_type(self, owner: str, name: str) -> PropertyType:
        return self.property_types.get(owner, {}).get(name, PropertyType.STRING)

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)
