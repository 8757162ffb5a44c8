"""What a component is: the thing that a record's `plugin` points to.

A package offers its own through the entry-point group `hedgerow.components`; each entry point is
a Component, or a function without arguments that returns one or several of them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hedgerow.pipelines.imports.model import Reach, Read
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.sending import Deliver
from hedgerow.pipelines.transforming import MakeTransform

ENTRY_POINTS = "hedgerow.components"

_KEY = re.compile(r"[a-z0-9][a-z0-9._/-]{0,99}")


class SettingType(StrEnum):
    STRING = "string"
    TEXT = "text"  # a string of several lines
    BOOLEAN = "boolean"
    INTEGER = "integer"
    CHOICE = "choice"  # one of `choices`
    JSON = "json"  # any JSON value


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """One setting. A `secret` never leaves the server; a `site` setting is given to web pages."""

    key: str
    name: str
    type: SettingType = SettingType.STRING
    required: bool = False
    default: Any = None
    secret: bool = False
    site: bool = False
    hint: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobField:
    """One field of a job's payload."""

    key: str
    title: str
    type: SettingType = SettingType.STRING
    required: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOffer:
    """A job that can be asked for by its type. The default one runs when no type is named. `check`
    raises Invalid for a payload that it cannot use."""

    type: str
    title: str
    payload: tuple[JobField, ...] = ()
    is_default: bool = False
    check: Callable[[Mapping[str, Any], datetime], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The component and version that settings were made for."""

    key: str
    version: str


Settings = Mapping[str, Any]
# Settings that were made for an older version or another component, as this one wants them;
# ValueError says why that cannot be done.
Adopt = Callable[[Origin, Settings], Settings]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Component:
    """`key` is its name for ever; `adopt` is its own rule for settings that came from elsewhere;
    `check` raises Invalid for settings, in the clear, that it cannot use; `deliver` is how a
    destination sends events; `transform` makes what a transformation does to each; `read` gives the
    rows of an import app's source, and `reach` looks whether that answers."""

    key: str
    family: Family
    name: str
    description: str
    version: str
    settings: tuple[SettingField, ...] = ()
    jobs: tuple[JobOffer, ...] = ()
    icon: str = ""
    url: str = ""
    script: str | None = None
    adopt: Adopt | None = None
    check: Callable[[Settings], None] | None = None
    deliver: Deliver | None = None
    transform: MakeTransform | None = None
    read: Read | None = None
    reach: Reach | None = None

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"a component's key is lower case letters and digits: {self.key!r}")
        if not isinstance(self.family, Family):
            raise TypeError(f"component {self.key} needs a Family, not {self.family!r}")
        if not self.name or not self.version:
            raise ValueError(f"component {self.key} needs a name and a version")
        if len({field.key for field in self.settings}) != len(self.settings):
            raise ValueError(f"component {self.key} has two settings of one key")
        for field in self.settings:
            if field.secret and field.site:
                raise ValueError(f"setting {field.key} of {self.key} is secret: no page may see it")

    @property
    def secret_keys(self) -> frozenset[str]:
        return frozenset(field.key for field in self.settings if field.secret)

    @property
    def default_job(self) -> JobOffer | None:
        return next((job for job in self.jobs if job.is_default), None)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the component does, in PostHog's words: they decide its family there."""
        jobs = [job.type for job in self.jobs]
        match self.family:
            case Family.DESTINATION:
                return {"methods": ["onEvent"], "jobs": jobs, "scheduled_tasks": []}
            case Family.IMPORT_APP:
                return {"methods": [], "jobs": jobs, "scheduled_tasks": ["runEveryMinute"]}
            case Family.FRONTEND_APP:
                return {"jobs": jobs}
            case Family.TRANSFORMATION:
                return {"methods": ["processEvent"], "jobs": jobs, "scheduled_tasks": []}
