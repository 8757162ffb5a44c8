"""What is to be copied, what cannot be, and what a copy does not keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SourceId = int | str


class Kind(StrEnum):
    GROUP_TYPE = "group type"
    COHORT = "cohort"
    FLAG = "flag"
    FEATURE = "early access feature"
    SURVEY = "survey"
    EXPERIMENT = "experiment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something that somebody should know about one thing, by its name."""

    kind: Kind
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A thing to have here. `body` is what our own API takes, but for the numbers of other things
    in it, which are still the source's."""

    kind: Kind
    source_id: SourceId
    name: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was understood of a source. Things stand behind those that they need. `lost` cannot be
    copied; `notes` are about what is copied and yet not the same."""

    wanted: Sequence[Wanted]
    lost: Sequence[Told] = ()
    notes: Sequence[Told] = ()
    group_types: Mapping[int, str] = field(default_factory=dict)
