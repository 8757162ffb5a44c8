"""The declaration of a component: its settings, its jobs and the functions that Hedgerow calls.

A package offers components through the entry-point group `hedgerow.components`. Each entry point is
a Component, or a function without arguments that returns one or several of them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hedgerow.plugin.delivery import Deliver
from hedgerow.plugin.deprecated import warn_renamed
from hedgerow.plugin.imports import CheckConnection, ReadSource
from hedgerow.plugin.transform import BuildTransform

ENTRY_POINT_GROUP = "hedgerow.components"

_KEY = re.compile(r"[a-z0-9][a-z0-9._/-]{0,99}")


class Family(StrEnum):
    """The kinds of component, and of the records that use them."""

    DESTINATION = "destination"
    FRONTEND_APP = "frontend_app"
    IMPORT_APP = "import_app"
    TRANSFORMATION = "transformation"


class SettingType(StrEnum):
    """The type of a setting's value."""

    STRING = "string"
    TEXT = "text"  # a string of several lines
    BOOLEAN = "boolean"
    INTEGER = "integer"  # 32 bits
    CHOICE = "choice"  # one of `choices`
    JSON = "json"  # any JSON value


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """One setting. A `secret` is encrypted at rest and masked in every response. A `site` setting
    is sent to web pages, so it cannot be secret.

    `is_address`: the setting decides where the component connects, so that its change requires the
    record's secrets again. None: Hedgerow recognizes addresses by the key (`url`, `host`, …) and by
    the value.
    """

    key: str
    name: str
    type: SettingType = SettingType.STRING
    required: bool = False
    default: Any = None
    secret: bool = False
    site: bool = False
    hint: str = ""
    choices: tuple[str, ...] = ()
    is_address: bool | None = None


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
    """A job that a record of the component can run. Hedgerow runs the types `replay`,
    `retry_dead_letters`, `test_connection` and `import`: use the offers in `presets`.

    The schedule of an import app starts its default job. `check` raises Invalid for an unusable
    payload.
    """

    type: str
    title: str
    payload: tuple[JobField, ...] = ()
    is_default: bool = False
    check: Callable[[Mapping[str, Any], datetime], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsOrigin:
    """The component and version that stored settings were made for."""

    key: str
    version: str


# Every setting by its key, decrypted, with its default if no value is stored.
Settings = Mapping[str, Any]
# A component's `migrate_settings`: settings of an older version or of another component become this
# one's. Raises ValueError with the reason if that is impossible.
MigrateSettings = Callable[[SettingsOrigin, Settings], Settings]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Component:
    """A component that records can use.

    - `key`: its permanent id, such as `acme/ntfy`. Records refer to it; never change it.
    - `version`: raise it when settings change their meaning; see `migrate_settings`.
    - `settings`, `jobs`: its settings and the jobs that a record can run.
    - `check`: raises `Invalid(detail, attr="config__<key>")` for settings that cannot work.
    - `migrate_settings`: converts settings of an older version or of another component.
    - `deliver`: a destination sends events.
    - `transform`: a transformation returns the function that is applied to every event.
    - `read`, `check_connection`: an import app reads its source, and checks that it responds.
    - `script`: the JavaScript of a frontend app.
    - `adopt`, `reach`: deprecated names of `migrate_settings` and `check_connection`.
    """

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
    migrate_settings: MigrateSettings | None = None
    check: Callable[[Settings], None] | None = None
    deliver: Deliver | None = None
    transform: BuildTransform | None = None
    read: ReadSource | None = None
    check_connection: CheckConnection | None = None
    adopt: InitVar[MigrateSettings | None] = None
    reach: InitVar[CheckConnection | None] = None

    def __post_init__(self, adopt: MigrateSettings | None, reach: CheckConnection | None) -> None:
        if adopt is not None:
            warn_renamed("Component(adopt=...)", "Component(migrate_settings=...)")
            object.__setattr__(self, "migrate_settings", adopt)
        if reach is not None:
            warn_renamed("Component(reach=...)", "Component(check_connection=...)")
            object.__setattr__(self, "check_connection", reach)
        if not _KEY.fullmatch(self.key):
            raise ValueError(
                f"Invalid component key {self.key!r}. Use up to 100 lower-case letters, digits and "
                "the characters . _ / -, beginning with a letter or a digit."
            )
        if not isinstance(self.family, Family):
            raise TypeError(f"Component {self.key}: expected a Family, not {self.family!r}.")
        if not self.name or not self.version:
            raise ValueError(f"Component {self.key} needs a name and a version.")
        if len({field.key for field in self.settings}) != len(self.settings):
            raise ValueError(f"Component {self.key} has two settings with the same key.")
        for field in self.settings:
            if field.secret and field.site:
                raise ValueError(
                    f"Setting {field.key} of {self.key} is secret, so it cannot be a site setting."
                )

    @property
    def secret_keys(self) -> frozenset[str]:
        return frozenset(field.key for field in self.settings if field.secret)

    @property
    def default_job(self) -> JobOffer | None:
        return next((job for job in self.jobs if job.is_default), None)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The component's capabilities as PostHog's API describes them."""
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
