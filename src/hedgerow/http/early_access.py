"""Early access features: their management, and `GET /api/early_access_features/` for web pages."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response
from starlette.types import Receive, Scope

from hedgerow.errors import MethodNotAllowed
from hedgerow.flags.early_access import SCOPE, EarlyAccess, Feature, FeatureFields, Stage
from hedgerow.flags.model import Flag
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.activity import PAGE, ActivityPage, activity_page
from hedgerow.http.describe import describes
from hedgerow.http.fields import INT64_MAX, LEFT_OUT, Between, Fields, Text
from hedgerow.http.owned_flag import OwnedFlag, owned_flag
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.project_key import asked_by_page, project_of_page
from hedgerow.http.reply import JsonResponse, Reply, json_reply, no_content
from hedgerow.http.sdk_shapes import PublicFeature
from hedgerow.http.trace import Trace
from hedgerow.lib.clock import iso
from hedgerow.projects.directory import Directory
from hedgerow.projects.store import ActivityQuery

router = APIRouter(tags=["Early access features"])

BASES = tuple(
    f"/api/{root}/{{project_id}}/early_access_feature/" for root in ("projects", "environments")
)
NAME_MAX = 200
TEXT_MAX = 10_000
URL_MAX = 800

READ = in_project("early_access_feature:read")
WRITE = in_project("early_access_feature:write")


class FeatureItem(msgspec.Struct, kw_only=True):
    id: str
    feature_flag: OwnedFlag
    name: str
    description: str
    stage: str
    documentation_url: str
    payload: Mapping[str, Any]
    created_at: str


class FeatureBody(Fields):
    """`documentation_url` is an address for people to read more."""

    name: Annotated[str, Text(NAME_MAX)] = LEFT_OUT
    description: Annotated[str, Text(TEXT_MAX, blank=True)] | None = None
    stage: Stage = LEFT_OUT
    documentation_url: Annotated[str, Text(URL_MAX, blank=True)] | None = None
    payload: dict[str, Any] | None = None

    def fields(self) -> FeatureFields:
        names = FeatureFields.__slots__
        return FeatureFields(**{name: getattr(self, name) for name in names})


class NewFeature(FeatureBody):
    """Without `feature_flag_id` a flag is made for it."""

    name: Annotated[str, Text(NAME_MAX)]
    stage: Stage
    feature_flag_id: Annotated[int, Between(1, INT64_MAX)] | None = None


def item(found: tuple[Feature, Flag]) -> FeatureItem:
    feature, flag = found
    return FeatureItem(
        id=feature.id,
        feature_flag=owned_flag(flag),
        name=feature.name,
        description=feature.description,
        stage=feature.stage.value,
        documentation_url=feature.documentation_url,
        payload=feature.payload,
        created_at=iso(feature.created_at),
    )


def _id(call: ProjectCall, feature_id: str) -> str:
    if feature_id == "activity":  # a path of its own, which does not take this method
        raise MethodNotAllowed(call.request.method, ["GET, HEAD", "OPTIONS"])
    return feature_id


@describes(answer=Page[FeatureItem], query=WINDOW)
async def list_features(call: Annotated[ProjectCall, READ]) -> Response:
    """The project's features, newest first."""
    asked = call.window
    found = await call.rooms.early_access.listing(call.project)
    listed = [item(each) for each in asked.of(list(found))]
    return JsonResponse(page(call.request, call.rooms.origins, asked, len(found), listed))


@describes(answer=FeatureItem, status=201, body=NewFeature)
async def create_feature(call: Annotated[ProjectCall, WRITE]) -> Response:
    """Make a feature, with a flag of its own or for one that is there."""
    body = await call.body(NewFeature)
    made = await call.rooms.early_access.create(
        call.project, body.fields(), body.feature_flag_id, call.actor, call.now
    )
    return JsonResponse(item(made), status_code=201)


@describes(answer=FeatureItem)
async def retrieve_feature(feature_id: str, call: Annotated[ProjectCall, READ]) -> Response:
    """One feature."""
    return JsonResponse(item(await call.rooms.early_access.find(call.project, feature_id)))


@describes(answer=FeatureItem, body=FeatureBody)
async def change_feature(feature_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Change some fields. In the stages alpha, beta and general-availability the flag follows what
    people choose, in the others it does not."""
    id = _id(call, feature_id)
    await call.rooms.early_access.find(call.project, id)
    fields = (await call.body(FeatureBody)).fields()
    changed = await call.rooms.early_access.change(call.project, id, fields, call.actor, call.now)
    return JsonResponse(item(changed))


@describes(status=204)
async def delete_feature(feature_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Delete a feature. Its flag stays, and follows its conditions alone."""
    id = _id(call, feature_id)
    await call.rooms.early_access.delete(call.project, id, call.actor, call.now)
    return no_content()


@describes(answer=ActivityPage, query=PAGE)
async def feature_activity(feature_id: str, call: Annotated[ProjectCall, READ]) -> Response:
    """Who changed what in this feature, newest first. Also for one that was deleted."""
    query = ActivityQuery(project_id=call.project.id, scope=SCOPE, item_id=feature_id)
    return await activity_page(call, query)


@describes(answer=ActivityPage, query=PAGE)
async def features_activity(call: Annotated[ProjectCall, READ]) -> Response:
    """Who changed what in any feature, newest first."""
    return await activity_page(call, ActivityQuery(project_id=call.project.id, scope=SCOPE))


for base in BASES:
    router.get(base)(list_features)
    router.post(base)(create_feature)
    router.get(base + "activity/")(features_activity)
    router.get(base + "{feature_id}/")(retrieve_feature)
    router.patch(base + "{feature_id}/")(change_feature)
    router.delete(base + "{feature_id}/")(delete_feature)
    router.get(base + "{feature_id}/activity/")(feature_activity)


def public_item(feature: Feature, flag: Flag) -> PublicFeature:
    """As pages and the record of its flag show it."""
    return PublicFeature(
        id=feature.id,
        name=feature.name,
        description=feature.description,
        stage=feature.stage.value,
        documentationUrl=feature.documentation_url,
        payload=feature.payload,
        flagKey=flag.key,
    )


class EarlyAccessDoor:
    """What pages show to whoever may choose."""

    def __init__(self, directory: Directory, early_access: EarlyAccess) -> None:
        self._directory = directory
        self._early_access = early_access

    async def public(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        asked = asked_by_page(scope)
        project = await project_of_page(self._directory, asked)
        trace.project_id = project.id
        trace.mark("access")
        stages = asked.get("stage") or [Stage.BETA.value]
        told = [
            public_item(feature, flag)
            for feature, flag in await self._early_access.listing(project)
            if feature.stage.is_public and feature.stage.value in stages
        ]
        return json_reply(200, {"earlyAccessFeatures": told})
