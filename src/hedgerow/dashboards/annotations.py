"""Operations on annotations: create, change, delete, restore."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.dashboards.model import (
    MAX_ANNOTATIONS,
    Annotation,
    AnnotationId,
    AnnotationScope,
)
from hedgerow.dashboards.store import (
    AnnotationFilter,
    AnnotationStore,
    AnnotationWrite,
    AnnotationWriteContext,
)
from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.flags import describe_actor
from hedgerow.lib.clock import format_iso
from hedgerow.lib.text import truncate
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project

SCOPE = "Annotation"


class Annotations:
    def __init__(self, store: AnnotationStore) -> None:
        self._store = store

    async def list_annotations(
        self, project: Project, wanted: AnnotationFilter
    ) -> tuple[Sequence[Annotation], int]:
        return await self._store.annotations(project.id, wanted)

    async def find(
        self, project: Project, id: AnnotationId, *, deleted_too: bool = False
    ) -> Annotation:
        found = await self._store.annotation(project.id, id)
        if found is None or (found.deleted and not deleted_too):
            raise NotFound
        return found

    async def create(
        self, project: Project, fields: Mapping[str, Any], actor: Actor, now: datetime
    ) -> Annotation:
        """Create an annotation from validated fields of Annotation."""
        new = replace(_build_annotation(project, actor, now), **fields)

        def decide(context: AnnotationWriteContext) -> AnnotationWrite:
            _check_number(context)
            _check(new, fields, context)
            return AnnotationWrite(
                annotation=new,
                build_entry=lambda stored: _build_entry(
                    "created", {}, _audit_fields(stored), stored, actor
                ),
            )

        return await self._store.write_annotation(project.id, decide, now)

    async def change(
        self,
        project: Project,
        id: AnnotationId,
        fields: Mapping[str, Any],
        actor: Actor,
        now: datetime,
    ) -> Annotation:
        def decide(context: AnnotationWriteContext) -> AnnotationWrite:
            before = context.find(id)
            # Those of the organization are changed in the project that created them.
            if before is None or before.project_id != project.id:
                raise NotFound
            after = replace(before, **fields)
            _check(after, fields, context)
            activity = "updated"
            if after.deleted != before.deleted:
                activity = "deleted" if after.deleted else "restored"
                if not after.deleted:
                    _check_number(context)
            entry = _build_entry(
                activity, _audit_fields(before), _audit_fields(after), after, actor
            )
            return AnnotationWrite(
                annotation=replace(after, updated_at=now) if entry.changes else before,
                build_entry=lambda _: entry if entry.changes else None,
            )

        return await self._store.write_annotation(project.id, decide, now)


def _check_number(context: AnnotationWriteContext) -> None:
    if context.count >= MAX_ANNOTATIONS:
        raise Invalid(f"A project can have at most {MAX_ANNOTATIONS} annotations.")


def _build_annotation(project: Project, actor: Actor, now: datetime) -> Annotation:
    return Annotation(
        id=AnnotationId(0),
        project_id=project.id,
        content="",
        date_marker=None,
        scope=AnnotationScope.INSIGHT,
        creation_type="USR",
        insight_id=None,
        dashboard_id=None,
        deleted=False,
        created_by=describe_actor(actor),
        created_at=now,
        updated_at=now,
    )


def _check(
    annotation: Annotation, fields: Mapping[str, Any], context: AnnotationWriteContext
) -> None:
    """Check what the annotation refers to."""
    for name, sent, has in (
        ("insight_id", "dashboard_item", context.has_insight),
        ("dashboard_id", "dashboard_id", context.has_dashboard),
    ):
        id = fields.get(name)
        if id is not None and not has(id):
            detail = f'Invalid pk "{id}" - object does not exist.'
            raise Invalid(detail, attr=sent, code="does_not_exist")
    if annotation.scope is AnnotationScope.INSIGHT and annotation.insight_id is None:
        detail = "An annotation of an insight requires its id. Otherwise set another `scope`."
        raise Invalid(detail, attr="dashboard_item", code="required")
    if annotation.scope is AnnotationScope.DASHBOARD and annotation.dashboard_id is None:
        detail = "An annotation of a dashboard requires its id. Otherwise set another `scope`."
        raise Invalid(detail, attr="dashboard_id", code="required")


def _build_entry(
    activity: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    annotation: Annotation,
    actor: Actor,
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(annotation.id),
        item_name=truncate(annotation.content),
        activity=activity,
        actor=actor,
        project_id=annotation.project_id,
        changes=diff_fields(SCOPE, before, after),
    )


def _audit_fields(annotation: Annotation) -> Mapping[str, Any]:
    marker = annotation.date_marker
    return {
        "content": annotation.content,
        "date_marker": None if marker is None else format_iso(marker),
        "scope": annotation.scope.value,
        "dashboard_item": annotation.insight_id,
        "dashboard_id": annotation.dashboard_id,
        "deleted": annotation.deleted,
    }
