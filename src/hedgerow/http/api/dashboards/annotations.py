"""Annotations: notes at points in time."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from hedgerow.dashboards.annotations import SCOPE, Annotations
from hedgerow.dashboards.model import (
    Annotation,
    AnnotationId,
    AnnotationScope,
    DashboardId,
    InsightId,
)
from hedgerow.dashboards.store import AnnotationFilter
from hedgerow.errors import Forbidden, NotFound
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.people.users import render_user
from hedgerow.http.call import ProjectCall
from hedgerow.http.collection import Collection
from hedgerow.http.paging import Page
from hedgerow.http.parameters import Parameter, parse_choice, parse_positive, parse_text
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Boolean, Date, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.validation import parse_date_parameter

CONTENT_MAX = 8_192
RESERVED = {"activity": "GET, HEAD"}
# Fields that PostHog returns or accepts, without effect here.
POSTHOG_ANNOTATION_FIELDS = frozenset(
    (
        *("id", "created_by", "created_at", "updated_at", "insight_short_id", "insight_name"),
        *("insight_derived_name", "dashboard_name", "is_emoji", "recording_id"),
    )
)
LIST_PARAMETERS = (
    Parameter("search", "Only annotations whose content contains this text."),
    Parameter("scope", "Only annotations with this scope."),
    Parameter("date_from", "Only annotations from this time on, such as 2026-01-31 or -7d."),
    Parameter("date_to", "Only annotations up to this time."),
    Parameter("dashboardItemId", "Only annotations of the insight with this id."),
    Parameter("dashboardId", "Only annotations of the dashboard with this id."),
)


class AnnotationItem(msgspec.Struct, kw_only=True):
    """`dashboard_item` is the id of an insight."""

    id: int
    content: str
    date_marker: str | None
    creation_type: str
    dashboard_item: int | None
    dashboard_id: int | None
    created_by: Mapping[str, Any] | None
    created_at: str
    updated_at: str
    deleted: bool
    scope: str


Id = Annotated[int, Between(1, INT64_MAX)]


class AnnotationBody(Fields):
    """`scope` is where the annotation is shown: dashboard_item for the insight `dashboard_item`,
    dashboard for the dashboard `dashboard_id`, project or organization."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_ANNOTATION_FIELDS

    content: Annotated[str, Text(CONTENT_MAX)] = OMITTED
    date_marker: Date | None = None
    scope: AnnotationScope = OMITTED
    creation_type: Literal["USR", "GIT"] = OMITTED
    dashboard_item: Id | None = None
    dashboard_id: Id | None = None
    deleted: Boolean = OMITTED

    def to_fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        if "dashboard_item" in fields:
            fields["insight_id"] = fields.pop("dashboard_item")
        return fields


class NewAnnotation(AnnotationBody):
    content: Annotated[str, Text(CONTENT_MAX)]
    scope: AnnotationScope = AnnotationScope.PROJECT

    def to_fields(self) -> dict[str, Any]:
        default = (
            AnnotationScope.INSIGHT if self.dashboard_item is not None else AnnotationScope.PROJECT
        )
        return {"scope": default} | super().to_fields()


def _render(call: ProjectCall, annotation: Annotation) -> AnnotationItem:
    marker = annotation.date_marker
    return AnnotationItem(
        id=annotation.id,
        content=annotation.content,
        date_marker=None if marker is None else format_iso(marker),
        creation_type=annotation.creation_type,
        dashboard_item=annotation.insight_id,
        dashboard_id=annotation.dashboard_id,
        created_by=render_user(call, annotation.created_by),
        created_at=format_iso(annotation.created_at),
        updated_at=format_iso(annotation.updated_at),
        deleted=annotation.deleted,
        scope=annotation.scope.value,
    )


def _parse_id(call: ProjectCall) -> AnnotationId:
    text = call.path_param("annotation_id", RESERVED)
    number = parse_positive(text) if text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return AnnotationId(number)


ANNOTATIONS = Collection(name="annotation", page=Page[AnnotationItem], item=AnnotationItem)


class AnnotationEndpoints:
    tag = "Annotations"

    def __init__(self, activity: ActivityStore, annotations: Annotations) -> None:
        self._activity = activity
        self._annotations = annotations

    @ANNOTATIONS.list_endpoint(*LIST_PARAMETERS)
    async def list_annotations(self, call: ProjectCall) -> Response:
        """List the annotations of the project and of the organization, newest first."""
        found, count = await self._annotations.list_annotations(call.project, _parse_filter(call))
        return JsonResponse(call.page(count, [_render(call, each) for each in found]))

    @ANNOTATIONS.create_endpoint(NewAnnotation)
    async def create_annotation(self, call: ProjectCall) -> Response:
        """Create an annotation."""
        fields = (await call.body(NewAnnotation)).to_fields()
        _check_scope(call, fields["scope"])
        made = await self._annotations.create(call.project, fields, call.actor, call.now)
        return JsonResponse(_render(call, made), status_code=201)

    @ANNOTATIONS.retrieve_endpoint()
    async def retrieve_annotation(self, call: ProjectCall) -> Response:
        """Retrieve an annotation."""
        return JsonResponse(
            _render(call, await self._annotations.find(call.project, _parse_id(call)))
        )

    @ANNOTATIONS.change_endpoint(AnnotationBody)
    async def change_annotation(self, call: ProjectCall) -> Response:
        """Update the given fields. `deleted: false` restores a deleted annotation."""
        id = _parse_id(call)
        await self._annotations.find(call.project, id, deleted_too=True)
        fields = (await call.body(AnnotationBody)).to_fields()
        _check_scope(call, fields.get("scope"))
        changed = await self._annotations.change(call.project, id, fields, call.actor, call.now)
        return JsonResponse(_render(call, changed))

    @ANNOTATIONS.delete_endpoint()
    async def delete_annotation(self, call: ProjectCall) -> Response:
        """Delete an annotation. `deleted: false` restores it."""
        found = await self._annotations.find(call.project, _parse_id(call))
        fields = {"deleted": True}
        await self._annotations.change(call.project, found.id, fields, call.actor, call.now)
        return no_content()

    @activity_endpoint("annotations/{annotation_id}/activity/", ANNOTATIONS.read)
    async def list_annotation_activity(self, call: ProjectCall) -> Response:
        """List the changes made to an annotation, newest first."""
        found = await self._annotations.find(call.project, _parse_id(call), deleted_too=True)
        return await respond_with_activity(call, self._activity, SCOPE, str(found.id))


def _check_scope(call: ProjectCall, scope: AnnotationScope | None) -> None:
    """All projects show an annotation of the organization, so a role in one is not enough."""
    is_owner = call.caller.user.is_owner and not call.caller.project_ids
    if scope is AnnotationScope.ORGANIZATION and not is_owner:
        raise Forbidden("Only owners can annotate the whole organization. Use the scope project.")


def _parse_filter(call: ProjectCall) -> AnnotationFilter:
    window, zone = call.window, ZoneInfo(call.project.timezone)
    times = {
        name: parse_date_parameter(text, call.now, zone, name)
        for name in ("date_from", "date_to")
        if (text := call.query_param(name))
    }
    scope = parse_choice(
        call.query_param("scope"), "scope", [each.value for each in AnnotationScope]
    )
    insight_id = parse_positive(call.query_param("dashboardItemId"))
    dashboard_id = parse_positive(call.query_param("dashboardId"))
    return AnnotationFilter(
        search=parse_text(call.query_param("search"), "search").strip()[:200],
        scope=None if scope is None else AnnotationScope(scope),
        after=times.get("date_from"),
        before=times.get("date_to"),
        insight_id=None if insight_id is None else InsightId(min(insight_id, INT64_MAX)),
        dashboard_id=None if dashboard_id is None else DashboardId(min(dashboard_id, INT64_MAX)),
        limit=window.limit,
        offset=window.offset,
    )
