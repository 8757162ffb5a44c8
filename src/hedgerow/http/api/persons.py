"""Persons, with the properties that flag conditions match."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from annotated_types import MaxLen
from pydantic import Field
from starlette.responses import Response

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.events.deletion import EventDeletion, EventSelection
from hedgerow.events.purge import Deletion, DeletionQuery
from hedgerow.filters.known_fields import EVENT_FILTER
from hedgerow.flags.evaluation.person_search import PersonSearch
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import (
    DELETION_STATUS,
    Parameter,
    parse_deletion_status,
    parse_text,
)
from hedgerow.http.payload.fields import INT64_MAX, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.ingestion.read_barrier import ReadBarrier
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.lib.ids import normalize_uuid
from hedgerow.lib.text import parse_whole_number
from hedgerow.persons.admin_actions import (
    build_deletion_entry,
    build_edit_entry,
    merge_properties,
    overlay_properties,
    plan_split,
)
from hedgerow.persons.cohorts import Cohorts
from hedgerow.persons.cursor import PersonCursor, parse_person_cursor
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS, Cohort, CohortId, Person, PersonId
from hedgerow.persons.store import PersonQuery, PersonStore
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.validation import check_known_fields, check_storable

ROOTS = tuple(f"/api/{root}/{{project_id}}/" for root in ("projects", "environments"))
MAX_IDS = 1000
# Path segments that are not persons, with the methods of their own routes.
RESERVED = {"deletion_status": "GET, HEAD"}
LIST_PARAMETERS = (
    Parameter("distinct_id", "Only the person with this distinct id."),
    Parameter("email", "Only persons with this email."),
    Parameter("search", "Only persons with this text in a distinct id, their email or their name."),
    Parameter("properties", "Only persons that match these property filters, as a JSON list."),
    Parameter("cohort", "Only members of the cohort with this id.", {"type": "integer"}),
    Parameter("cursor", "The position of the page, from a `next` or `previous` link."),
)


class PersonItem(msgspec.Struct, kw_only=True):
    id: str
    uuid: str
    name: str
    distinct_ids: Sequence[str]
    properties: Mapping[str, Any]
    created_at: str


class PersonBody(Fields):
    """`properties` are merged into the stored ones."""

    distinct_ids: (
        Annotated[list[Annotated[str, Text(DISTINCT_ID_MAX_CHARS)]], MaxLen(MAX_IDS)] | None
    ) = None
    properties: dict[Any, Any] | None = None


def _render_person(person: Person) -> PersonItem:
    email = person.properties.get("email")
    first = person.distinct_ids[0] if person.distinct_ids else person.uuid
    return PersonItem(
        id=person.uuid,
        uuid=person.uuid,
        name=email if isinstance(email, str) and email else first,
        distinct_ids=person.distinct_ids,
        properties=person.properties,
        created_at=format_iso(person.created_at),
    )


def _parse_filters(call: ProjectCall) -> list[Any]:
    text = call.query_param("properties")
    if not text:
        return []
    try:
        filters = jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError as error:
        raise Invalid(f"Invalid JSON: {error}", attr="properties") from None
    if filters is None or filters in ("", {}):
        return []
    if not isinstance(filters, list):
        raise Invalid("Expected a list of filters.", attr="properties", code="not_a_list")
    check_known_fields(filters, EVENT_FILTER, "properties")
    return filters


def _parse_cursor(call: ProjectCall) -> PersonCursor | None:
    text = call.query_param("cursor")
    return parse_person_cursor(text) if text else None


def _build_page(
    call: ProjectCall, cursor: PersonCursor | None, found: list[Person], count: int
) -> Page[PersonItem]:
    """Build a page from its persons and one more if there is another page. Links have a cursor, but
    from an offset back to a smaller one."""
    limit = call.window.limit
    goes_back = cursor is not None and not cursor.is_older
    has_more = len(found) > limit
    shown = found[-limit:] if goes_back else found[:limit]
    page = call.page(count, [_render_person(person) for person in shown])
    position = cursor.person_id if cursor else PersonId(0)

    def link(person_id: int, *, is_older: bool) -> str:
        to = PersonCursor(is_older=is_older, person_id=PersonId(person_id), count=count)
        return call.link({"cursor": to.encode(), "limit": limit, "offset": None})

    page.next = None
    if has_more or goes_back:
        page.next = link(shown[-1].id if shown else position + 1, is_older=True)
    if cursor is not None:
        page.previous = None
        if cursor.is_older or has_more:
            page.previous = link(shown[0].id if shown else max(position - 1, 0), is_older=False)
    return page


def validate_properties(
    properties: dict[Any, Any] | None, attr: str = "properties"
) -> dict[str, Any]:
    check_storable(properties or {}, attr)
    return properties or {}


KEY_MAX = 400
DELETE_PARAMETERS = (
    Parameter("delete_events", "true also deletes the events of the person.", {"type": "boolean"}),
)
DELETION_PARAMETERS = (
    Parameter("person_uuid", "Only the deletion of the person with this uuid."),
    DELETION_STATUS,
)
Key = Annotated[str, Text(KEY_MAX)]


class PropertyBody(Fields):
    key: Key
    value: Any


class UnsetBody(Fields):
    unset: Annotated[Key, Field(alias="$unset")]


class SplitBody(Fields):
    """`main_distinct_id` remains with the person. Without it the first id remains, and the
    properties of the person are cleared."""

    main_distinct_id: Annotated[str, Text(DISTINCT_ID_MAX_CHARS)] | None = None


class DeletionItem(msgspec.Struct, kw_only=True):
    """`delete_verified_at` is when the data was gone from the disk."""

    person_uuid: str
    created_at: str
    status: Literal["pending", "completed"]
    delete_verified_at: str | None


def _render_deletion(deletion: Deletion) -> DeletionItem:
    return DeletionItem(
        person_uuid=deletion.person_uuid,
        created_at=format_iso(deletion.requested_at),
        status="completed" if deletion.purged_at else "pending",
        delete_verified_at=format_iso(deletion.purged_at) if deletion.purged_at else None,
    )


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in ("true", "1")


class ActionResult(msgspec.Struct, kw_only=True):
    success: bool


class PersonEndpoints:
    tag = "Persons"

    def __init__(
        self,
        read_barrier: ReadBarrier,
        cohorts: Cohorts,
        deletion: EventDeletion,
        persons: PersonStore,
        search: PersonSearch,
    ) -> None:
        self._read_barrier = read_barrier
        self._cohorts = cohorts
        self._deletion = deletion
        self._persons = persons
        self._search = search

    async def _find_cohort(self, call: ProjectCall) -> Cohort | None:
        text = call.query_param("cohort")
        if not text:
            return None
        number = parse_whole_number(text)
        if number is None:
            raise Invalid("A valid integer is required.", attr="cohort")
        id = CohortId(min(max(number, 0), INT64_MAX))  # larger ids do not exist
        try:
            return await self._cohorts.find(call.project.id, id)
        except NotFound:
            detail = "Cohort not found."
            raise Invalid(detail, attr="cohort", code="cohort_does_not_exist") from None

    @endpoint(
        "GET",
        *project_paths("persons/"),
        access=in_project("person:read"),
        response=Page[PersonItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_persons(self, call: ProjectCall) -> Response:
        """List the project's persons, newest first."""
        window, cursor = call.window, _parse_cursor(call)
        filters, cohort = _parse_filters(call), await self._find_cohort(call)
        query = PersonQuery(
            project_id=call.project.id,
            distinct_id=parse_text(call.query_param("distinct_id"), "distinct_id"),
            email=parse_text(call.query_param("email"), "email"),
            search=parse_text(call.query_param("search"), "search").strip()[:DISTINCT_ID_MAX_CHARS],
            cohort_id=cohort.id if cohort and cohort.is_static else None,
            limit=window.limit + 1,  # one more shows whether there is another page
            offset=0 if cursor else window.offset,
            older_than=cursor.older_than if cursor else None,
            newer_than=cursor.newer_than if cursor else None,
            count=cursor.count if cursor else None,
        )
        await self._read_barrier.wait_until_processed(call.project.id)
        found, count = await call.while_connected(self._list_matching(call, query, filters, cohort))
        return JsonResponse(_build_page(call, cursor, found, count))

    async def _list_matching(
        self, call: ProjectCall, query: PersonQuery, filters: list[Any], cohort: Cohort | None
    ) -> tuple[list[Person], int]:
        cohort_path = f"properties[{len(filters)}]"
        if cohort and not cohort.is_static:
            filters = [*filters, {"type": "cohort", "key": "id", "value": cohort.id}]
        try:
            return await self._search.find_persons(call.project, query, filters, call.now)
        except Invalid as error:
            attr = "cohort" if (error.attr or "").startswith(cohort_path) else error.attr
            raise Invalid(error.detail, attr=attr, code=error.code) from None

    @endpoint(
        "POST",
        *project_paths("persons/"),
        access=in_project("person:write"),
        response=PersonItem,
        status=201,
        body=PersonBody,
    )
    async def create_person(self, call: ProjectCall) -> Response:
        """Create a person with these distinct ids, or update the person that has them."""
        body = await call.body(PersonBody)
        if not body.distinct_ids:
            raise Invalid("Send at least one distinct id.", attr="distinct_ids", code="required")
        properties = validate_properties(body.properties)
        person = await self._persons.upsert_person(
            call.project.id,
            body.distinct_ids,
            lambda before: overlay_properties(before, properties),
            lambda before, after: build_edit_entry(before, after, call.actor),
            call.now,
        )
        return JsonResponse(_render_person(person), status_code=201)

    @endpoint(
        "GET",
        *project_paths("persons/{person_id}/"),
        access=in_project("person:read"),
        response=PersonItem,
    )
    async def retrieve_person(self, call: ProjectCall) -> Response:
        """Retrieve a person."""
        return JsonResponse(_render_person(await self._find(call)))

    @endpoint(
        "PATCH",
        *project_paths("persons/{person_id}/"),
        access=in_project("person:write"),
        response=PersonItem,
        body=PersonBody,
    )
    async def change_person(self, call: ProjectCall) -> Response:
        """Set properties and add distinct ids. null removes a property."""
        found = await self._find(call)
        body = await call.body(PersonBody)
        properties = validate_properties(body.properties)
        person = await self._persons.update_person(
            call.project.id,
            found.uuid,
            body.distinct_ids or (),
            lambda before: merge_properties(before, properties),
            lambda before, after: build_edit_entry(before, after, call.actor),
            call.now,
        )
        if person is None:
            raise NotFound
        return JsonResponse(_render_person(person))

    async def _find(self, call: ProjectCall) -> Person:
        """Find a person after all events accepted so far are processed."""
        uuid = normalize_uuid(call.path_param("person_id", RESERVED))
        await self._read_barrier.wait_until_processed(call.project.id)
        person = uuid and await self._persons.person(call.project.id, uuid)
        if not person:
            raise NotFound
        return person

    @endpoint(
        "POST",
        *project_paths("persons/{person_id}/update_property/"),
        access=in_project("person:write"),
        response=PersonItem,
        status=202,
        body=PropertyBody,
    )
    async def update_property(self, call: ProjectCall) -> Response:
        """Set one property of a person."""
        found = await self._find(call)
        body = await call.body(PropertyBody)
        if body.value is None:
            raise Invalid("This field is required.", attr="value", code="required")
        validate_properties({"value": body.value}, "value")
        person = await self._set_property(call, found, body.key, body.value)
        return JsonResponse(_render_person(person), status_code=202)

    @endpoint(
        "POST",
        *project_paths("persons/{person_id}/delete_property/"),
        access=in_project("person:write"),
        response=ActionResult,
        status=201,
        body=UnsetBody,
    )
    async def delete_property(self, call: ProjectCall) -> Response:
        """Remove one property of a person."""
        found = await self._find(call)
        body = await call.body(UnsetBody)
        await self._set_property(call, found, body.unset, None)
        return JsonResponse(ActionResult(success=True), status_code=201)

    @endpoint(
        "POST",
        *project_paths("persons/{person_id}/split/"),
        access=in_project("person:write"),
        response=ActionResult,
        status=201,
        body=SplitBody,
    )
    async def split_person(self, call: ProjectCall) -> Response:
        """Split a person: every distinct id but one becomes a new person."""
        found = await self._find(call)
        body = await call.body(SplitBody)
        after = await self._persons.split_person(
            call.project.id,
            found.uuid,
            lambda person: plan_split(person, body.main_distinct_id, call.actor),
            call.now,
        )
        if after is None:
            raise NotFound
        return JsonResponse(ActionResult(success=True), status_code=201)

    @endpoint(
        "DELETE",
        *project_paths("persons/{person_id}/"),
        access=in_project("person:write"),
        status=204,
        query=DELETE_PARAMETERS,
    )
    async def delete_person(self, call: ProjectCall) -> Response:
        """Delete a person and their distinct ids, and optionally their events. Their data is gone
        from the disk within hours: see `deletion_status`."""
        # An event that is processed later would bring the person back.
        await self._deletion.wait_for_accepted(call.project.id)
        found = await self._find(call)
        async with self._deletion.record(call.project.id, call.now, person_uuid=found.uuid):
            deleted = None
            if found.distinct_ids and _is_true(call.query_param("delete_events")):
                deleted = await self._deletion.delete_without_audit(
                    call.project.id, EventSelection(distinct_ids=found.distinct_ids)
                )

            def build_entry(person: Person) -> ActivityEntry:
                if deleted is not None and set(person.distinct_ids) != set(found.distinct_ids):
                    # Deleting the person now would leave the events of the new ids.
                    raise Conflict("The person was merged or split meanwhile. Delete it again.")
                return build_deletion_entry(
                    person,
                    call.actor,
                    events=deleted.events if deleted else None,
                    copies=deleted.copies if deleted else 0,
                )

            if not await self._persons.delete_person(
                call.project.id, found.uuid, build_entry, call.now
            ):
                raise NotFound
        return no_content()

    @endpoint(
        "GET",
        *project_paths("persons/deletion_status/"),
        access=in_project("person:read"),
        response=Page[DeletionItem],
        query=PAGE_PARAMETERS + DELETION_PARAMETERS,
    )
    async def list_deletions(self, call: ProjectCall) -> Response:
        """List deleted persons, newest first, with whether their data is gone from the disk."""
        window = call.window
        query = DeletionQuery(
            project_id=call.project.id,
            person_uuid=parse_text(call.query_param("person_uuid"), "person_uuid"),
            is_purged=parse_deletion_status(call.query_param("status")),
            limit=window.limit,
            offset=window.offset,
        )
        found, count = await self._deletion.list_deletions(query)
        return JsonResponse(call.page(count, [_render_deletion(each) for each in found]))

    async def _set_property(self, call: ProjectCall, found: Person, key: str, value: Any) -> Person:
        person = await self._persons.update_person(
            call.project.id,
            found.uuid,
            (),
            lambda before: merge_properties(before, {key: value}),
            lambda before, after: build_edit_entry(before, after, call.actor),
            call.now,
        )
        if person is None:
            raise NotFound
        return person
