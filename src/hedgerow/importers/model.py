"""The result of converting another service's definitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SourceId = int | str


class ResourceKind(StrEnum):
    GROUP_TYPE = "group type"
    COHORT = "cohort"
    FLAG = "flag"
    FEATURE = "early access feature"
    SURVEY = "survey"
    EXPERIMENT = "experiment"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportNote:
    """A remark for the operator about one item."""

    kind: ResourceKind
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportItem:
    """An item to create. `body` is a request body of our API that still has the source's ids."""

    kind: ResourceKind
    source_id: SourceId
    name: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionResult:
    """`items` are sorted with dependencies first. `skipped` says what cannot be imported and why,
    `notes` what differs after the import."""

    items: Sequence[ImportItem]
    skipped: Sequence[ImportNote] = ()
    notes: Sequence[ImportNote] = ()
    group_types: Mapping[int, str] = field(default_factory=dict)
