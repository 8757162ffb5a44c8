"""Early access features: what people may try by their own choice. Each owns a flag, and its stage
says whether a choice counts there.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.board import FlagCache
from hedgerow.flags.edits import FlagFields, checked
from hedgerow.flags.flags import blank_flag, entry_of, person_of
from hedgerow.flags.model import KEY_MAX, Definitions, Flag, FlagId
from hedgerow.flags.rules import condition_sets, super_groups, variant_keys
from hedgerow.flags.store import FlagWrite
from hedgerow.lib import jsonio
from hedgerow.projects.activity import Actor, Entry, differences
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.text import check_storable

SCOPE = "EarlyAccessFeature"
PAYLOAD_BYTES = 64 * 1024
ENROLLMENT = "feature_enrollment"
SUPER_GROUPS = "super_groups"
ADDRESS_SCHEMES = ("http", "https", "ftp", "ftps")


class Stage(StrEnum):
    DRAFT = "draft"
    CONCEPT = "concept"
    ALPHA = "alpha"
    BETA = "beta"
    GENERAL_AVAILABILITY = "general-availability"
    ARCHIVED = "archived"

    @property
    def takes_choices(self) -> bool:
        """Whether the flag follows what people choose."""
        return self in (Stage.ALPHA, Stage.BETA, Stage.GENERAL_AVAILABILITY)

    @property
    def is_public(self) -> bool:
        return self not in (Stage.DRAFT, Stage.ARCHIVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    id: str
    project_id: ProjectId
    flag_id: FlagId
    name: str
    description: str
    stage: Stage
    documentation_url: str
    payload: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureFields:
    """The writable fields; None leaves one as it is, or at its default on a new feature."""

    name: str | None = None
    description: str | None = None
    stage: Stage | None = None
    documentation_url: str | None = None
    payload: Mapping[str, Any] | None = None

    def given(self) -> dict[str, Any]:
        return {
            name: value for name in self.__slots__ if (value := getattr(self, name)) is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureWrite:
    """A feature to store or, if `is_deleted`, to remove, with the change of its flag."""

    feature: Feature
    flag: FlagWrite | None
    tell: Callable[[Feature], Entry | None]
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is stored while a change is decided: the definitions, and all features by their id."""

    definitions: Definitions
    features: Mapping[str, Feature]

    def flag(self, id: FlagId) -> Flag | None:
        return next((flag for flag in self.definitions.flags if flag.id == id), None)


class FeatureStore(Protocol):
    async def features(self, project_id: ProjectId) -> Sequence[tuple[Feature, Flag]]:
        """All of a project with their flags, newest first."""
        ...

    async def by_flag(self, project_id: ProjectId) -> Mapping[FlagId, Feature]:
        """All of a project by the flags that are theirs."""
        ...

    async def write_feature(
        self,
        project_id: ProjectId,
        decide: Callable[[Surroundings], FeatureWrite],
        now: datetime,
    ) -> tuple[Feature, Flag]:
        """Store what `decide` makes of what is there, alone with the project."""
        ...


class EarlyAccess:
    def __init__(self, store: FeatureStore, board: FlagCache) -> None:
        self._store = store
        self._board = board

    async def listing(self, project: Project) -> Sequence[tuple[Feature, Flag]]:
        return await self._store.features(project.id)

    async def by_flag(self, project: Project) -> Mapping[FlagId, Feature]:
        """A flag has one at most."""
        return await self._store.by_flag(project.id)

    async def find(self, project: Project, id: str) -> tuple[Feature, Flag]:
        for feature, flag in await self._store.features(project.id):
            if feature.id == id:
                return feature, flag
        raise NotFound

    async def create(
        self,
        project: Project,
        fields: FeatureFields,
        flag_id: int | None,
        actor: Actor,
        now: datetime,
    ) -> tuple[Feature, Flag]:
        """With a flag of its own, or with one that is there."""

        def decide(around: Surroundings) -> FeatureWrite:
            feature = _checked(
                Feature(
                    id=str(uuid4()),
                    project_id=project.id,
                    flag_id=FlagId(flag_id or 0),
                    name="",
                    description="",
                    stage=Stage.DRAFT,
                    documentation_url="",
                    payload={},
                    created_at=now,
                ),
                fields,
            )
            return FeatureWrite(
                feature=feature,
                flag=_new_flag(project, feature, around.definitions, actor, now)
                if flag_id is None
                else _taken_over(feature, around, actor, now),
                tell=lambda stored: _entry("created", None, stored, actor),
            )

        return await self._stored(project, decide, now)

    async def change(
        self, project: Project, id: str, fields: FeatureFields, actor: Actor, now: datetime
    ) -> tuple[Feature, Flag]:
        def decide(around: Surroundings) -> FeatureWrite:
            before = _found(around, id)
            after = _checked(before, fields)
            entry = None if after == before else _entry("updated", before, after, actor)
            flag = _with_choices(around, after, after.stage.takes_choices, actor, now)
            return FeatureWrite(feature=after, flag=flag, tell=lambda _: entry)

        return await self._stored(project, decide, now)

    async def delete(self, project: Project, id: str, actor: Actor, now: datetime) -> None:
        """The flag stays, and follows its conditions alone."""

        def decide(around: Surroundings) -> FeatureWrite:
            before = _found(around, id)
            return FeatureWrite(
                feature=before,
                flag=_with_choices(around, before, False, actor, now),
                tell=lambda _: _entry("deleted", before, None, actor),
                is_deleted=True,
            )

        await self._stored(project, decide, now)

    async def _stored(
        self, project: Project, decide: Callable[[Surroundings], FeatureWrite], now: datetime
    ) -> tuple[Feature, Flag]:
        found = await self._store.write_feature(project.id, decide, now)
        await self._board.refreshed(project)
        return found


def _found(around: Surroundings, id: str) -> Feature:
    found = around.features.get(id)
    if found is None:
        raise NotFound
    return found


def _checked(before: Feature, fields: FeatureFields) -> Feature:
    after = replace(before, **fields.given())
    if after.documentation_url != before.documentation_url:
        check_address(after.documentation_url)
    check_storable(after.payload, "payload")
    if len(jsonio.encode(after.payload)) > PAYLOAD_BYTES:
        raise Invalid(f"A payload may have {PAYLOAD_BYTES} bytes at most.", attr="payload")
    return after


def check_address(address: str) -> None:
    """Pages make a link of it, which no script may hide in."""
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if address and not (parts.scheme in ADDRESS_SCHEMES and parts.hostname):
        raise Invalid("Enter a valid URL.", attr="documentation_url")


def _new_flag(
    project: Project, feature: Feature, definitions: Definitions, actor: Actor, now: datetime
) -> FlagWrite:
    """For nobody but those who choose it."""
    key = re.sub(r"[^a-z0-9_]+", "-", feature.name.lower()).strip("-")[:KEY_MAX]
    if not key:
        raise Invalid("A name with letters or digits is needed for the flag's key.", attr="name")
    filters: dict[str, Any] = {"groups": [{"properties": [], "rollout_percentage": 0}]}
    if feature.stage.takes_choices:
        filters[ENROLLMENT] = True
    blank = blank_flag(project, actor, now)
    name = f"Feature Flag for Feature {feature.name}"
    made = checked(blank, FlagFields(key=key, name=name, filters=filters), definitions)
    return FlagWrite(flag=made, tell=lambda flag: entry_of("created", None, flag, actor))


def _taken_over(
    feature: Feature, around: Surroundings, actor: Actor, now: datetime
) -> FlagWrite | None:
    flag = around.flag(feature.flag_id)
    attr = "feature_flag_id"
    if flag is None:
        raise Invalid("Feature Flag with this ID does not exist", attr=attr)
    if any(other.flag_id == flag.id for other in around.features.values()):
        raise Invalid("There is already a feature linked to this flag", attr=attr)
    if reason := why_unfit(flag):
        raise Invalid(reason, attr=attr)
    return _with_choices(around, feature, feature.stage.takes_choices, actor, now)


def why_unfit(flag: Flag) -> str:
    """Why a flag cannot be a feature's, "" if it can."""
    if _counts_groups(flag):
        return "Group-based feature flags are not supported for Early Access Features."
    if variant_keys(flag.filters):
        return "Multivariate feature flags are not supported for Early Access Features."
    return ""


def _counts_groups(flag: Flag) -> bool:
    filters: Any = flag.filters  # whatever was stored
    return isinstance(filters, Mapping) and any(
        part.get("aggregation_group_type_index") is not None
        for part in (filters, *condition_sets(filters))
    )


def _with_choices(
    around: Surroundings, feature: Feature, takes: bool, actor: Actor, now: datetime
) -> FlagWrite | None:
    """The feature's flag, following what people choose or not; None where it does already."""
    flag = around.flag(feature.flag_id)
    if flag is None or not isinstance(flag.filters, Mapping):  # whatever was stored
        return None
    filters = with_choices(flag, takes)
    if filters == flag.filters:
        return None
    after = replace(
        flag,
        filters=filters,
        version=flag.version + 1,
        updated_at=now,
        last_modified_by=person_of(actor),
    )
    return FlagWrite(flag=after, tell=lambda _: entry_of("updated", flag, after, actor))


def with_choices(flag: Flag, takes: bool) -> Mapping[str, Any]:
    """The flag's filters, following what people choose or not. PostHog had another way for that
    before: a condition above all others, on the property in which the choice is."""
    ways = {ENROLLMENT} if flag.filters.get(ENROLLMENT) else set()
    match [group.get("properties") for group in super_groups(flag.filters)]:
        case [[{"key": key}]] if key == f"$feature_enrollment/{flag.key}":
            ways.add(SUPER_GROUPS)
    filters = {name: part for name, part in flag.filters.items() if name not in ways}
    return {**filters, ENROLLMENT: True} if takes else filters


def _entry(verb: str, before: Feature | None, after: Feature | None, actor: Actor) -> Entry:
    feature = after or before
    assert feature is not None
    return Entry(
        scope=SCOPE,
        item_id=feature.id,
        item_name=feature.name,
        activity=verb,
        actor=actor,
        project_id=feature.project_id,
        changes=differences(SCOPE, _audited(before), _audited(after)),
    )


def _audited(feature: Feature | None) -> Mapping[str, Any]:
    if feature is None:
        return {}
    return {
        "name": feature.name,
        "description": feature.description,
        "stage": feature.stage.value,
        "documentation_url": feature.documentation_url,
        "payload": feature.payload,
        "feature_flag_id": feature.flag_id,
    }
