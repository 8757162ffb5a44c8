"""Early access features that end users can opt in to."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from starlette.responses import Response

from hedgerow.flags.early_access import (
    SCOPE,
    EarlyAccessFeature,
    EarlyAccessFeatures,
    EarlyAccessFields,
    FeatureStage,
)
from hedgerow.flags.known_fields import POSTHOG_FEATURE_FIELDS
from hedgerow.flags.model import Flag
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.summary import FlagSummary, summarize_flag
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.store import ActivityStore

NAME_MAX = 200
TEXT_MAX = 10_000
URL_MAX = 800
RESERVED = {"activity": "GET, HEAD"}
SEARCH = Parameter(
    "search", "Only features whose name, description or flag key contains this text."
)
READ = in_project("early_access_feature:read")
WRITE = in_project("early_access_feature:write")


class FeatureItem(msgspec.Struct, kw_only=True):
    id: str
    feature_flag: FlagSummary
    name: str
    description: str
    stage: str
    documentation_url: str
    payload: Mapping[str, Any]
    created_at: str


class FeatureBody(Fields):
    """`documentation_url` links to a page that describes the feature to end users."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_FEATURE_FIELDS | {"feature_flag_id"}

    name: Annotated[str, Text(NAME_MAX)] = OMITTED
    description: Annotated[str, Text(TEXT_MAX, blank=True)] | None = None
    stage: FeatureStage = OMITTED
    documentation_url: Annotated[str, Text(URL_MAX, blank=True)] | None = None
    payload: dict[str, Any] | None = None

    def to_fields(self) -> EarlyAccessFields:
        names = EarlyAccessFields.__slots__
        return EarlyAccessFields(**{name: getattr(self, name) for name in names})


class NewFeature(FeatureBody):
    """Without `feature_flag_id`, a new flag is created for the feature."""

    name: Annotated[str, Text(NAME_MAX)]
    stage: FeatureStage
    feature_flag_id: Annotated[int, Between(1, INT64_MAX)] | None = None


def _render_feature(feature: EarlyAccessFeature, flag: Flag) -> FeatureItem:
    return FeatureItem(
        id=feature.id,
        feature_flag=summarize_flag(flag),
        name=feature.name,
        description=feature.description,
        stage=feature.stage.value,
        documentation_url=feature.documentation_url,
        payload=feature.payload,
        created_at=format_iso(feature.created_at),
    )


class EarlyAccessEndpoints:
    tag = "Early access features"

    def __init__(self, activity: ActivityStore, early_access: EarlyAccessFeatures) -> None:
        self._activity = activity
        self._early_access = early_access

    @endpoint(
        "GET",
        *project_paths("early_access_feature/"),
        access=READ,
        response=Page[FeatureItem],
        query=(*PAGE_PARAMETERS, SEARCH),
    )
    async def list_features(self, call: ProjectCall) -> Response:
        """List the project's early access features, newest first."""
        window = call.window
        search = (call.query_param("search") or "").strip().lower()
        found = [
            (feature, flag)
            for feature, flag in await self._early_access.list_features(call.project)
            if search in f"{feature.name}\n{feature.description}\n{flag.key}".lower()
        ]
        listed = [_render_feature(feature, flag) for feature, flag in window.of(found)]
        return JsonResponse(call.page(len(found), listed))

    @endpoint(
        "POST",
        *project_paths("early_access_feature/"),
        access=WRITE,
        response=FeatureItem,
        status=201,
        body=NewFeature,
    )
    async def create_feature(self, call: ProjectCall) -> Response:
        """Create a feature for an existing flag, or together with a new one."""
        body = await call.body(NewFeature)
        created = await self._early_access.create(
            call.project, body.to_fields(), body.feature_flag_id, call.actor, call.now
        )
        return JsonResponse(_render_feature(*created), status_code=201)

    @endpoint(
        "GET",
        *project_paths("early_access_feature/{feature_id}/"),
        access=READ,
        response=FeatureItem,
    )
    async def retrieve_feature(self, call: ProjectCall) -> Response:
        """Retrieve a feature."""
        return JsonResponse(
            _render_feature(
                *await self._early_access.find(call.project, call.path_param("feature_id"))
            )
        )

    @endpoint(
        "PATCH",
        *project_paths("early_access_feature/{feature_id}/"),
        access=WRITE,
        response=FeatureItem,
        body=FeatureBody,
    )
    async def change_feature(self, call: ProjectCall) -> Response:
        """Update the given fields. In the stages alpha, beta and general-availability the flag is
        on for persons that opted in; in the other stages opt-ins have no effect."""
        id = call.path_param("feature_id", RESERVED)
        await self._early_access.find(call.project, id)
        fields = (await call.body(FeatureBody)).to_fields()
        changed = await self._early_access.change(call.project, id, fields, call.actor, call.now)
        return JsonResponse(_render_feature(*changed))

    @endpoint(
        "DELETE", *project_paths("early_access_feature/{feature_id}/"), access=WRITE, status=204
    )
    async def delete_feature(self, call: ProjectCall) -> Response:
        """Delete a feature. Its flag remains and is evaluated by its own conditions only."""
        id = call.path_param("feature_id", RESERVED)
        await self._early_access.delete(call.project, id, call.actor, call.now)
        return no_content()

    @activity_endpoint("early_access_feature/{feature_id}/activity/", READ)
    async def list_feature_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a feature, newest first. Works for deleted features too."""
        return await respond_with_activity(
            call, self._activity, SCOPE, call.path_param("feature_id")
        )

    @activity_endpoint("early_access_feature/activity/", READ)
    async def list_features_activity(self, call: ProjectCall) -> Response:
        """List the changes made to all features, newest first."""
        return await respond_with_activity(call, self._activity, SCOPE)
