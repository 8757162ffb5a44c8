"""Cohorts: sets of persons that flag conditions can refer to."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import Field
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.behavior_backfill import BehaviorBackfill
from hedgerow.events.cohort_preview import CohortCounter
from hedgerow.flags.approvals.model import ProposedChange, ResourceType
from hedgerow.flags.flags import Flags
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.change_request_items import ApprovalRefusal, ChangeRequester
from hedgerow.http.api.flags.flags import FlagReference
from hedgerow.http.auth.access import in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.definitions import compile_patterns
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_positive, parse_text
from hedgerow.http.payload.fields import INT64_MAX, Boolean, Fields, Json, Text, require_unset
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.lib.shape import Shape
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.behaviors.filters import list_references
from hedgerow.persons.behaviors.store import BehaviorStore
from hedgerow.persons.cohorts import (
    DESCRIPTION_MAX,
    NAME_MAX,
    SCOPE,
    CohortFields,
    Cohorts,
    parse_csv_ids,
)
from hedgerow.persons.known_fields import POSTHOG_COHORT_FIELDS
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.validation import check_known_fields


class CohortItem(msgspec.Struct, kw_only=True):
    """A cohort. `count` is null unless the cohort is static. `is_calculating` while stored events
    are counted for a behavioral filter; `calculation_progress` is the part that is done, in
    percent."""

    id: int
    name: str
    description: str
    deleted: bool
    filters: Mapping[str, Any]
    is_static: bool
    is_calculating: bool
    calculation_progress: int | None
    errors_calculating: int
    count: int | None
    created_by: str
    created_at: str
    last_calculation: str | None


class CohortReference(msgspec.Struct, kw_only=True):
    id: int
    name: str


class CohortDependents(msgspec.Struct, kw_only=True):
    """The flags and cohorts whose filters name a cohort. It cannot be deleted while there are
    any."""

    feature_flags: Sequence[FlagReference]
    cohorts: Sequence[CohortReference]


class CohortPreviewItem(msgspec.Struct, kw_only=True):
    """The persons whom a cohort would have now, of all persons. `groups` has the persons of each
    alternative of the outermost OR, if there are 2 to 10."""

    count: int
    total_persons: int
    groups: Sequence[int]


FLAG_SCOPE = "feature_flag:read"
# How long the response to a changed cohort waits until its stored events are counted.
CATCH_UP_S = 5.0
COMPLETE = 100
SEARCH = Parameter("search", "Only cohorts whose name or description contains this text.")
FILTERS = Shape("properties", unused=("filterTestAccounts",))
UnsupportedGroups = Annotated[
    None, require_unset("This format is not supported. Send the conditions in `filters`.")
]
UnsupportedQuery = Annotated[
    None, require_unset("Cohorts by query are not supported. Send the conditions in `filters`.")
]
UnsupportedPersons = Annotated[
    None, require_unset("Send the distinct ids of the persons in `csv` instead.")
]


class CohortBody(Fields):
    """`filters.properties` nests AND and OR groups. `csv` adds the persons with the distinct ids in
    its first column to a static cohort."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_COHORT_FIELDS

    name: Annotated[str, Text(NAME_MAX)] | None = None
    description: Annotated[str, Text(DESCRIPTION_MAX, blank=True)] | None = None
    is_static: Boolean | None = None
    deleted: Boolean | None = None
    filters: Json = None
    csv: str | None = None
    groups: UnsupportedGroups = None
    query: UnsupportedQuery = None
    create_static_person_ids: UnsupportedPersons = Field(None, alias="_create_static_person_ids")

    def to_fields(self) -> CohortFields:
        return CohortFields(
            name=self.name,
            description=self.description,
            is_static=self.is_static,
            definition=_parse_definition(self.filters),
            deleted=self.deleted,
        )


class CohortPreviewBody(Fields):
    """`filters` as those of a cohort."""

    filters: dict[str, Any]


def _propose(cohort: Cohort, fields: CohortFields) -> ProposedChange:
    changes = {
        "name": fields.name,
        "description": fields.description,
        "definition": fields.definition,
    }
    return ProposedChange(
        resource_type=ResourceType.COHORT,
        resource_id=str(cohort.id),
        fields={name: value for name, value in changes.items() if value is not None},
    )


def _parse_definition(filters: Any) -> Any:
    if filters is None:
        return None
    check_known_fields(filters, FILTERS, "filters")
    if not isinstance(filters, dict) or "properties" not in filters:
        raise Invalid("Expected an object with `properties`.", attr="filters")
    if filters.get("filterTestAccounts"):
        raise Invalid(
            "Test accounts are not marked here. Exclude them by a filter on their properties.",
            attr="filters.filterTestAccounts",
            code="not_supported",
        )
    return filters["properties"]


def _render_cohort(cohort: Cohort, count: int | None, progress: int | None) -> CohortItem:
    return CohortItem(
        id=cohort.id,
        name=cohort.name,
        description=cohort.description,
        deleted=cohort.deleted,
        filters={"properties": cohort.definition},
        is_static=cohort.is_static,
        is_calculating=progress is not None and progress < COMPLETE,
        calculation_progress=progress,
        errors_calculating=0,
        count=count,
        created_by=cohort.created_by,
        created_at=format_iso(cohort.created_at),
        last_calculation=None,
    )


def _parse_id(call: ProjectCall) -> CohortId:
    text = call.path_param("cohort_id", {"preview": "POST"})
    number = parse_positive(text) if text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return CohortId(number)


async def _parse_members(body: CohortBody, *, is_static: bool) -> list[str]:
    text = body.csv
    if text is None:
        return []
    if not is_static:
        raise Invalid(
            "`csv` requires a static cohort. Set `is_static` to true when you create it.",
            attr="is_static",
        )
    return await run_in_thread(lambda: parse_csv_ids(text))


class CohortEndpoints:
    tag = "Cohorts"

    def __init__(
        self,
        activity: ActivityStore,
        cohorts: Cohorts,
        flags: Flags,
        behaviors: BehaviorStore,
        backfill: BehaviorBackfill,
        requester: ChangeRequester,
    ) -> None:
        self._behaviors = behaviors
        self._backfill = backfill
        self._activity = activity
        self._cohorts = cohorts
        self._flags = flags
        self._requester = requester

    async def _render_one(self, cohort: Cohort) -> CohortItem:
        [only] = await self._render([cohort])
        return only

    async def _render(self, cohorts: Sequence[Cohort]) -> list[CohortItem]:
        sizes = await self._cohorts.count_members(cohorts)
        progress = await self._find_progress(cohorts)
        return [
            _render_cohort(cohort, sizes.get(cohort.id), progress.get(cohort.id))
            for cohort in cohorts
        ]

    async def _find_progress(self, cohorts: Sequence[Cohort]) -> Mapping[CohortId, int]:
        """Return how much of the stored events of behavioral cohorts is counted, in percent."""
        needed = {each.id: list_references(each.definition) for each in cohorts}
        if not any(needed.values()):
            return {}
        behaviors = await self._behaviors.list_behaviors(cohorts[0].project_id)
        # The newest one of a reference counts.
        progress = {each.reference: each.progress for each in behaviors}
        return {
            id: min(progress.get(reference, 0) for reference in references)
            for id, references in needed.items()
            if references
        }

    @endpoint(
        "GET",
        *project_paths("cohorts/"),
        access=in_project("cohort:read"),
        response=Page[CohortItem],
        query=(*PAGE_PARAMETERS, SEARCH),
    )
    async def list_cohorts(self, call: ProjectCall) -> Response:
        """List the project's cohorts, newest first."""
        window = call.window
        search = parse_text(call.query_param("search"), "search").strip()[:NAME_MAX]
        found, count = await self._cohorts.list_cohorts(
            call.project.id, limit=window.limit, offset=window.offset, search=search
        )
        listed = await self._render(found)
        return JsonResponse(call.page(count, listed))

    @endpoint(
        "POST",
        *project_paths("cohorts/"),
        access=in_project("cohort:write"),
        response=CohortItem,
        status=201,
        body=CohortBody,
    )
    async def create_cohort(self, call: ProjectCall) -> Response:
        """Create a cohort."""
        body = await call.body(CohortBody)
        ids = await _parse_members(body, is_static=bool(body.is_static))
        await compile_patterns(body.to_fields().definition)
        cohort = await self._cohorts.create(call.project.id, body.to_fields(), call.actor, call.now)
        return await self._add_members_and_respond(call, cohort, ids, 201)

    @endpoint(
        "GET",
        *project_paths("cohorts/{cohort_id}/"),
        access=in_project("cohort:read"),
        response=CohortItem,
    )
    async def retrieve_cohort(self, call: ProjectCall) -> Response:
        """Retrieve a cohort."""
        cohort = await self._cohorts.find(call.project.id, _parse_id(call))
        return JsonResponse(await self._render_one(cohort))

    @endpoint(
        "PATCH",
        *project_paths("cohorts/{cohort_id}/"),
        access=in_project("cohort:write"),
        response=CohortItem,
        body=CohortBody,
        failure=ApprovalRefusal,
    )
    async def change_cohort(self, call: ProjectCall) -> Response:
        """Update the given fields. `csv` adds persons to a static cohort. If a flag uses the cohort
        and a policy requires approvals, the response is 409 with the change request."""
        found = await self._cohorts.find(call.project.id, _parse_id(call))
        body = await call.body(CohortBody)
        ids = await _parse_members(body, is_static=found.is_static)
        await compile_patterns(body.to_fields().definition)
        fields = body.to_fields()
        cohort = await self._requester.run(
            call,
            self._cohorts.change(call.project.id, found.id, fields, call.actor, call.now),
            _propose(found, fields),
        )
        return await self._add_members_and_respond(call, cohort, ids, 200)

    @endpoint(
        "DELETE",
        *project_paths("cohorts/{cohort_id}/"),
        access=in_project("cohort:write"),
        status=204,
    )
    async def delete_cohort(self, call: ProjectCall) -> Response:
        """Delete a cohort. Fails while a flag or another cohort refers to it."""
        await self._cohorts.change(
            call.project.id,
            _parse_id(call),
            CohortFields(deleted=True),
            call.actor,
            call.now,
        )
        await self._flags.refresh(call.project)
        return no_content()

    @endpoint(
        "GET",
        *project_paths("cohorts/{cohort_id}/dependents/"),
        access=in_project("cohort:read"),
        response=CohortDependents,
    )
    async def list_cohort_dependents(self, call: ProjectCall) -> Response:
        """List what uses a cohort. The key also needs the scope `feature_flag:read`."""
        check_scope(call.caller, FLAG_SCOPE, call.project)
        found = await self._cohorts.find(call.project.id, _parse_id(call))
        flags, cohorts = await self._flags.list_users_of_cohort(call.project, found.id)
        return JsonResponse(
            CohortDependents(
                feature_flags=[
                    FlagReference(id=flag.id, key=flag.key, name=flag.name) for flag in flags
                ],
                cohorts=[CohortReference(id=each.id, name=each.name) for each in cohorts],
            )
        )

    @activity_endpoint("cohorts/{cohort_id}/activity/", in_project("cohort:read"))
    async def list_cohort_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a cohort, newest first."""
        found = await self._cohorts.find(call.project.id, _parse_id(call))
        return await respond_with_activity(call, self._activity, SCOPE, str(found.id))

    async def _add_members_and_respond(
        self, call: ProjectCall, cohort: Cohort, ids: list[str], status: int
    ) -> Response:
        if ids:
            await self._cohorts.add_members(cohort, ids)
        if list_references(cohort.definition):
            await self._backfill.catch_up(call.project.id, CATCH_UP_S)
        await self._flags.refresh(call.project)
        return JsonResponse(await self._render_one(cohort), status_code=status)


class CohortPreviewEndpoints:
    tag = "Cohorts"

    def __init__(self, counter: CohortCounter) -> None:
        self._counter = counter

    @endpoint(
        "POST",
        *project_paths("cohorts/preview/"),
        access=in_project("cohort:read"),
        response=CohortPreviewItem,
        body=CohortPreviewBody,
    )
    async def preview_cohort(self, call: ProjectCall) -> Response:
        """Count who would be in a cohort with these filters. Nothing is stored. Takes at most 5
        seconds."""
        body = await call.body(CohortPreviewBody)
        definition = _parse_definition(body.filters)
        await compile_patterns(definition)
        found = await call.while_connected(self._counter.count(call.project, definition, call.now))
        return JsonResponse(
            CohortPreviewItem(count=found.count, total_persons=found.total, groups=found.groups)
        )
