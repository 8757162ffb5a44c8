"""The configuration of a project as documents: flags, pipeline records, definitions, and insights
with dashboards. A document is planned first; the plan that was shown is then applied."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, ClassVar

import msgspec
from annotated_types import MaxLen
from pydantic import Field
from starlette.responses import Response

from hedgerow.errors import Conflict, NotFound
from hedgerow.http.auth.access import in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import Call, ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.payload.fields import Fields, Text
from hedgerow.http.server.response import JsonResponse
from hedgerow.projects.as_code import (
    DocumentPlan,
    DocumentRequest,
    ExportedDocument,
    ProjectDocuments,
    from_plain,
    to_plain,
)

MAX_VARIABLES = 1000
# The objects whose scope a kind of document needs.
SCOPE_OBJECTS: Mapping[str, Sequence[str]] = {
    "flags": ("feature_flag",),
    "pipelines": ("plugin",),
    "definitions": ("event_definition", "property_definition"),
    "dashboards": ("insight", "dashboard"),
}


class DocumentFields(msgspec.Struct, kw_only=True):
    title: str
    count: str
    notes: Sequence[str]
    document: Mapping[str, Any]


class DocumentItem(DocumentFields, kw_only=True):
    """A document. `notes` say what it lacks. A secret of a pipeline is `{"!env": NAME}`."""

    project_id: int
    project_name: str


class DocumentBody(Fields):
    """A document. Without `plan` nothing changes, and the response says what would. `plan` is from
    that response: the document is applied if it still changes the same. `prune` deletes what the
    document leaves out. `environment` has the values of `{"!env": NAME}`."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    document: dict[str, Any]
    plan: Annotated[str, Text(64)] | None = None
    prune: bool = False
    environment: Annotated[dict[Annotated[str, Text(200)], str], MaxLen(MAX_VARIABLES)] = Field(
        default_factory=dict
    )

    def to_request(self, call: Call) -> DocumentRequest:
        return DocumentRequest(
            document=from_plain(self.document),
            prune=self.prune,
            environment=self.environment,
            actor=call.actor,
            now=call.now,
        )


class DocumentPlanItem(msgspec.Struct, kw_only=True):
    """The names of the objects that a document creates, changes, deletes and keeps, and the changes
    as lines of text."""

    plan: str
    applied: bool
    created: Sequence[str]
    changed: Sequence[str]
    deleted: Sequence[str]
    kept: Sequence[str]
    lines: Sequence[str]


def render_export(exported: ExportedDocument) -> dict[str, Any]:
    return {
        "title": exported.title,
        "count": exported.count,
        "notes": exported.notes,
        "document": to_plain(exported.document),
    }


async def answer_plan(body: DocumentBody, plan: DocumentPlan, owner: str) -> Response:
    """Apply a plan if the body says so. Raises Conflict if it is not the one that was shown."""
    is_applied = body.plan is not None and not plan.summary.is_empty
    if body.plan is not None:
        if body.plan != plan.fingerprint:
            raise Conflict(f"The {owner} has changed since the plan was made. Plan again.")
        if is_applied:
            await plan.apply()
    return JsonResponse(
        DocumentPlanItem(
            plan=plan.fingerprint,
            applied=is_applied,
            lines=plan.lines,
            **asdict(plan.summary),
        )
    )


class DocumentEndpoints:
    tag = "Documents"

    def __init__(self, kinds: Mapping[str, ProjectDocuments]) -> None:
        self._kinds = kinds

    @endpoint(
        "GET",
        *project_paths("documents/{document_kind}/"),
        access=in_project(""),
        response=DocumentItem,
    )
    async def export_document(self, call: ProjectCall) -> Response:
        """Export the configuration of a project: `flags`, `pipelines`, `definitions` or
        `dashboards`. The key needs the scope to read these objects."""
        exported = await self._find(call, "read").export(call.project)
        project = call.project
        return JsonResponse(
            DocumentItem(
                project_id=project.id, project_name=project.name, **render_export(exported)
            )
        )

    @endpoint(
        "POST",
        *project_paths("documents/{document_kind}/"),
        access=in_project(""),
        response=DocumentPlanItem,
        body=DocumentBody,
    )
    async def apply_document(self, call: ProjectCall) -> Response:
        """Plan the changes that a document requires, and apply all of them or none with `plan`.
        Responds 409 if the plan would be another one now. The key needs the scope to write these
        objects."""
        documents = self._find(call, "write")
        body = await call.body(DocumentBody)
        plan = await documents.plan(call.project, body.to_request(call))
        return await answer_plan(body, plan, "project")

    def _find(self, call: ProjectCall, action: str) -> ProjectDocuments:
        kind = call.path_param("document_kind")
        if kind not in self._kinds:
            raise NotFound
        for subject in SCOPE_OBJECTS[kind]:
            check_scope(call.caller, f"{subject}:{action}", call.project)
        return self._kinds[kind]
