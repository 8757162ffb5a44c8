"""Flags as other endpoint families render them: in full for experiments, in short for surveys and
early access features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hedgerow.experiments.experiments import Experiments
from hedgerow.flags.early_access import EarlyAccessFeature, EarlyAccessFeatures
from hedgerow.flags.flags import get_flag_status
from hedgerow.flags.model import Flag, FlagId
from hedgerow.flags.payloads import redact_filters
from hedgerow.http.api.people.users import render_user
from hedgerow.http.call import ProjectCall
from hedgerow.http.openapi.sdk_types import PublicFeature
from hedgerow.http.sdk.early_access import render_public_feature
from hedgerow.lib.clock import format_iso
from hedgerow.projects.model import Project
from hedgerow.surveys.cache import SurveyCache
from hedgerow.surveys.payload import build_payload


class FlagSummary(msgspec.Struct, kw_only=True):
    id: int
    team_id: int
    name: str
    key: str
    filters: Any
    deleted: bool
    active: bool
    ensure_experience_continuity: bool
    version: int


def summarize_flag(flag: Flag) -> FlagSummary:
    return FlagSummary(
        id=flag.id,
        team_id=flag.project_id,
        name=flag.name,
        key=flag.key,
        filters=redact_filters(flag),
        deleted=flag.deleted,
        active=flag.active,
        ensure_experience_continuity=flag.ensure_experience_continuity,
        version=flag.version,
    )


class FlagItem(msgspec.Struct, kw_only=True):
    """A feature flag. `name` is its description."""

    id: int
    name: str
    key: str
    filters: Any
    deleted: bool
    active: bool
    archived: bool
    created_by: Mapping[str, Any] | None
    created_at: str
    updated_at: str
    version: int
    last_modified_by: Mapping[str, Any] | None
    ensure_experience_continuity: bool
    experiment_set: Sequence[int]
    surveys: Sequence[Any]
    features: Sequence[PublicFeature]
    rollback_conditions: Any
    performed_rollback: bool
    can_edit: bool
    tags: Sequence[str]
    owners: Sequence[str]
    evaluation_contexts: Sequence[str]
    usage_dashboard: int | None
    analytics_dashboards: Sequence[int]
    has_enriched_analytics: bool
    user_access_level: str
    is_remote_configuration: bool
    has_encrypted_payloads: bool
    status: str
    evaluation_runtime: str
    bucketing_identifier: str
    last_called_at: str | None


@dataclass(frozen=True, slots=True)
class FlagLinks:
    """The features and experiments that use each flag."""

    features: Mapping[FlagId, EarlyAccessFeature]
    experiments: Mapping[FlagId, Sequence[int]]


class FlagRenderer:
    """Renders flags together with the features, experiments and surveys that use them."""

    def __init__(
        self, early_access: EarlyAccessFeatures, experiments: Experiments, survey_cache: SurveyCache
    ) -> None:
        self._early_access = early_access
        self._experiments = experiments
        self._survey_cache = survey_cache

    async def load_links(self, project: Project) -> FlagLinks:
        return FlagLinks(
            await self._early_access.by_flag(project),
            await self._experiments.list_ids_by_flag(project),
        )

    async def render_one(self, call: ProjectCall, flag: Flag) -> FlagItem:
        return self.render(call, flag, await self.load_links(call.project))

    def render(self, call: ProjectCall, flag: Flag, links: FlagLinks) -> FlagItem:
        feature = links.features.get(flag.id)
        return FlagItem(
            id=flag.id,
            name=flag.name,
            key=flag.key,
            filters=redact_filters(flag),
            deleted=flag.deleted,
            active=flag.active,
            archived=flag.archived,
            created_by=render_user(call, flag.created_by),
            created_at=format_iso(flag.created_at),
            updated_at=format_iso(flag.updated_at),
            version=flag.version,
            last_modified_by=render_user(call, flag.last_modified_by),
            ensure_experience_continuity=flag.ensure_experience_continuity,
            experiment_set=links.experiments.get(flag.id, ()),
            surveys=[build_payload(found) for found in self._survey_cache.find_linked(flag)],
            features=() if feature is None else (render_public_feature(feature, flag),),
            rollback_conditions=None,
            performed_rollback=False,
            can_edit=True,
            tags=flag.tags,
            owners=flag.owners,
            evaluation_contexts=flag.evaluation_contexts,
            usage_dashboard=None,
            analytics_dashboards=(),
            has_enriched_analytics=False,
            user_access_level="manager",
            is_remote_configuration=flag.is_remote_configuration,
            has_encrypted_payloads=flag.has_encrypted_payloads,
            status=get_flag_status(flag, call.now)[0],
            evaluation_runtime=flag.evaluation_runtime.value,
            bucketing_identifier=flag.bucketing_identifier.value,
            last_called_at=format_iso(flag.last_called_at) if flag.last_called_at else None,
        )
