"""Early access features, in which persons can enroll. Each feature has a flag, and its stage
determines whether the flag honors enrollments.
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
from hedgerow.flags.edits import FlagFields, apply_fields
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import build_flag_entry, describe_actor, new_flag
from hedgerow.flags.model import KEY_MAX_CHARS, Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.flags.validate import condition_sets, super_groups, variant_keys
from hedgerow.lib import jsonio
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.validation import check_storable

SCOPE = "EarlyAccessFeature"
MAX_PAYLOAD_BYTES = 64 * 1024
ENROLLMENT = "feature_enrollment"
SUPER_GROUPS = "super_groups"
URL_SCHEMES = ("http", "https", "ftp", "ftps")


class FeatureStage(StrEnum):
    DRAFT = "draft"
    CONCEPT = "concept"
    ALPHA = "alpha"
    BETA = "beta"
    GENERAL_AVAILABILITY = "general-availability"
    ARCHIVED = "archived"

    @property
    def honors_enrollment(self) -> bool:
        """Whether the flag follows the enrollment of persons."""
        return self in (FeatureStage.ALPHA, FeatureStage.BETA, FeatureStage.GENERAL_AVAILABILITY)

    @property
    def is_public(self) -> bool:
        return self not in (FeatureStage.DRAFT, FeatureStage.ARCHIVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyAccessFeature:
    id: str
    project_id: ProjectId
    flag_id: FlagId
    name: str
    description: str
    stage: FeatureStage
    documentation_url: str
    payload: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyAccessFields:
    """The writable fields. None leaves a field unchanged, or at its default for a new feature."""

    name: str | None = None
    description: str | None = None
    stage: FeatureStage | None = None
    documentation_url: str | None = None
    payload: Mapping[str, Any] | None = None

    def as_changes(self) -> dict[str, Any]:
        return {
            name: value for name in self.__slots__ if (value := getattr(self, name)) is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureWrite:
    """A feature to store or, if `is_deleted`, to remove, with the change of its flag."""

    feature: EarlyAccessFeature
    flag: FlagWrite | None
    build_entry: Callable[[EarlyAccessFeature], ActivityEntry | None]
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureContext:
    """The stored definitions and features, for deciding on a change."""

    definitions: FlagDefinitions
    features: Mapping[str, EarlyAccessFeature]

    def flag(self, id: FlagId) -> Flag | None:
        return next((flag for flag in self.definitions.flags if flag.id == id), None)


class FeatureStore(Protocol):
    async def features(self, project_id: ProjectId) -> Sequence[tuple[EarlyAccessFeature, Flag]]:
        """Return all features of a project with their flags, newest first."""
        ...

    async def by_flag(self, project_id: ProjectId) -> Mapping[FlagId, EarlyAccessFeature]:
        """Return all features of a project by their flags."""
        ...

    async def write_feature(
        self,
        project_id: ProjectId,
        decide: Callable[[FeatureContext], FeatureWrite],
        now: datetime,
    ) -> tuple[EarlyAccessFeature, Flag]:
        """Store the result of `decide`, while the project is locked."""
        ...


class EarlyAccessFeatures:
    def __init__(self, store: FeatureStore, flag_cache: FlagCache) -> None:
        self._store = store
        self._flag_cache = flag_cache

    async def list_features(self, project: Project) -> Sequence[tuple[EarlyAccessFeature, Flag]]:
        return await self._store.features(project.id)

    async def by_flag(self, project: Project) -> Mapping[FlagId, EarlyAccessFeature]:
        """Return the features by flag; a flag has at most one."""
        return await self._store.by_flag(project.id)

    async def find(self, project: Project, id: str) -> tuple[EarlyAccessFeature, Flag]:
        for feature, flag in await self._store.features(project.id):
            if feature.id == id:
                return feature, flag
        raise NotFound

    async def create(
        self,
        project: Project,
        fields: EarlyAccessFields,
        flag_id: int | None,
        actor: Actor,
        now: datetime,
    ) -> tuple[EarlyAccessFeature, Flag]:
        """Create a feature with a new flag, or with an existing one."""

        def decide(context: FeatureContext) -> FeatureWrite:
            return build_new_feature(project, context, fields, flag_id, actor, now)

        return await self._write(project, decide, now)

    async def change(
        self, project: Project, id: str, fields: EarlyAccessFields, actor: Actor, now: datetime
    ) -> tuple[EarlyAccessFeature, Flag]:
        def decide(context: FeatureContext) -> FeatureWrite:
            before = _get_feature(context, id)
            after = _apply_fields(before, fields)
            entry = None if after == before else _build_entry("updated", before, after, actor)
            flag = _update_flag(context, after, after.stage.honors_enrollment, actor, now)
            return FeatureWrite(feature=after, flag=flag, build_entry=lambda _: entry)

        return await self._write(project, decide, now)

    async def delete(self, project: Project, id: str, actor: Actor, now: datetime) -> None:
        """Delete a feature. Its flag stays and follows its conditions alone."""

        def decide(context: FeatureContext) -> FeatureWrite:
            before = _get_feature(context, id)
            return FeatureWrite(
                feature=before,
                flag=_update_flag(context, before, False, actor, now),
                build_entry=lambda _: _build_entry("deleted", before, None, actor),
                is_deleted=True,
            )

        await self._write(project, decide, now)

    async def _write(
        self, project: Project, decide: Callable[[FeatureContext], FeatureWrite], now: datetime
    ) -> tuple[EarlyAccessFeature, Flag]:
        found = await self._store.write_feature(project.id, decide, now)
        await self._flag_cache.refresh(project)
        return found


def build_new_feature(
    project: Project,
    context: FeatureContext,
    fields: EarlyAccessFields,
    flag_id: int | None,
    actor: Actor,
    now: datetime,
) -> FeatureWrite:
    """Return the feature with its new or changed flag. Raises Invalid."""
    feature = _apply_fields(
        EarlyAccessFeature(
            id=str(uuid4()),
            project_id=project.id,
            flag_id=FlagId(flag_id or 0),
            name="",
            description="",
            stage=FeatureStage.DRAFT,
            documentation_url="",
            payload={},
            created_at=now,
        ),
        fields,
    )
    return FeatureWrite(
        feature=feature,
        flag=_new_flag(project, feature, context.definitions, actor, now)
        if flag_id is None
        else _link_flag(feature, context, actor, now),
        build_entry=lambda stored: _build_entry("created", None, stored, actor),
    )


def _get_feature(context: FeatureContext, id: str) -> EarlyAccessFeature:
    found = context.features.get(id)
    if found is None:
        raise NotFound
    return found


def _apply_fields(before: EarlyAccessFeature, fields: EarlyAccessFields) -> EarlyAccessFeature:
    after = replace(before, **fields.as_changes())
    if after.documentation_url != before.documentation_url:
        check_documentation_url(after.documentation_url)
    check_storable(after.payload, "payload")
    if len(jsonio.encode(after.payload)) > MAX_PAYLOAD_BYTES:
        raise Invalid(f"A payload can have at most {MAX_PAYLOAD_BYTES} bytes.", attr="payload")
    return after


def check_documentation_url(url: str) -> None:
    """Accept web addresses only: clients show the URL as a link."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if url and not (parts.scheme in URL_SCHEMES and parts.hostname):
        raise Invalid("Enter a valid URL.", attr="documentation_url")


def _new_flag(
    project: Project,
    feature: EarlyAccessFeature,
    definitions: FlagDefinitions,
    actor: Actor,
    now: datetime,
) -> FlagWrite:
    """Create a flag that is off, except for enrolled persons."""
    key = re.sub(r"[^a-z0-9_]+", "-", feature.name.lower()).strip("-")[:KEY_MAX_CHARS]
    if not key:
        raise Invalid(
            "The name must contain letters or digits: it determines the key of the flag.",
            attr="name",
        )
    filters: dict[str, Any] = {"groups": [{"properties": [], "rollout_percentage": 0}]}
    if feature.stage.honors_enrollment:
        filters[ENROLLMENT] = True
    blank = new_flag(project, actor, now)
    name = f"Feature Flag for Feature {feature.name}"
    made = apply_fields(blank, FlagFields(key=key, name=name, filters=filters), definitions)
    return FlagWrite(
        flag=made, build_entry=lambda flag: build_flag_entry("created", None, flag, actor)
    )


def _link_flag(
    feature: EarlyAccessFeature, context: FeatureContext, actor: Actor, now: datetime
) -> FlagWrite | None:
    flag = context.flag(feature.flag_id)
    attr = "feature_flag_id"
    if flag is None:
        raise Invalid("Feature Flag with this ID does not exist", attr=attr)
    if any(other.flag_id == flag.id for other in context.features.values()):
        raise Invalid("There is already a feature linked to this flag", attr=attr)
    if reason := find_flag_problem(flag):
        raise Invalid(reason, attr=attr)
    return _update_flag(context, feature, feature.stage.honors_enrollment, actor, now)


def find_flag_problem(flag: Flag) -> str:
    """Return why a flag cannot belong to a feature, "" if it can."""
    if _has_group_conditions(flag):
        return "Group-based feature flags are not supported for Early Access Features."
    if variant_keys(flag.filters):
        return "Multivariate feature flags are not supported for Early Access Features."
    return ""


def _has_group_conditions(flag: Flag) -> bool:
    filters: Any = flag.filters  # stored filters may be invalid
    return isinstance(filters, Mapping) and any(
        part.get("aggregation_group_type_index") is not None
        for part in (filters, *condition_sets(filters))
    )


def _update_flag(
    context: FeatureContext,
    feature: EarlyAccessFeature,
    is_enabled: bool,
    actor: Actor,
    now: datetime,
) -> FlagWrite | None:
    """Switch enrollment on or off for the flag of a feature. None if nothing changes."""
    flag = context.flag(feature.flag_id)
    if flag is None or not isinstance(flag.filters, Mapping):  # stored filters may be invalid
        return None
    filters = set_enrollment(flag, is_enabled)
    if filters == flag.filters:
        return None
    after = replace(
        flag,
        filters=filters,
        version=flag.version + 1,
        updated_at=now,
        last_modified_by=describe_actor(actor),
    )
    return FlagWrite(
        flag=after, build_entry=lambda _: build_flag_entry("updated", flag, after, actor)
    )


def set_enrollment(flag: Flag, is_enabled: bool) -> Mapping[str, Any]:
    """Return the filters of a flag with enrollment on or off. Removes the legacy form: a super
    condition on the enrollment property."""
    keys = {ENROLLMENT} if flag.filters.get(ENROLLMENT) else set()
    match [group.get("properties") for group in super_groups(flag.filters)]:
        case [[{"key": key}]] if key == f"$feature_enrollment/{flag.key}":
            keys.add(SUPER_GROUPS)
    filters = {name: part for name, part in flag.filters.items() if name not in keys}
    return {**filters, ENROLLMENT: True} if is_enabled else filters


def _build_entry(
    activity: str, before: EarlyAccessFeature | None, after: EarlyAccessFeature | None, actor: Actor
) -> ActivityEntry:
    feature = after or before
    assert feature is not None
    return ActivityEntry(
        scope=SCOPE,
        item_id=feature.id,
        item_name=feature.name,
        activity=activity,
        actor=actor,
        project_id=feature.project_id,
        changes=diff_fields(SCOPE, _audited_fields(before), _audited_fields(after)),
    )


def _audited_fields(feature: EarlyAccessFeature | None) -> Mapping[str, Any]:
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
