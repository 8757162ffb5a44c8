"""Persons and groups: who they are and what is known of them, for flags to ask."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from annotated_types import MaxLen
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.model import DISTINCT_ID_MAX
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.fields import INT64_MAX, Fields, Text
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.reply import JsonResponse
from hedgerow.lib import jsonio
from hedgerow.lib.clock import iso
from hedgerow.lib.text import whole_number, why_unstorable
from hedgerow.persons.curate import edit
from hedgerow.persons.model import MAX_GROUP_TYPES, Cohort, CohortId, Group, Person
from hedgerow.persons.properties import changed, laid_over
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.text import check_storable

router = APIRouter(tags=["Persons"])

ROOTS = tuple(f"/api/{root}/{{project_id}}/" for root in ("projects", "environments"))
MAX_IDS = 1000
FILTERS = (
    Parameter("distinct_id", "Only the person of this id."),
    Parameter("email", "Only those with this email."),
    Parameter("search", "Only those with this text in a distinct id, their email or their name."),
    Parameter("properties", "Only those for whom these filters hold, a list of them as JSON."),
    Parameter("cohort", "Only the members of this cohort.", {"type": "integer"}),
)
GROUP_FILTERS = (Parameter("group_type_index", "Which kind of group.", {"type": "integer"}),)


class PersonItem(msgspec.Struct, kw_only=True):
    id: str
    uuid: str
    name: str
    distinct_ids: Sequence[str]
    properties: Mapping[str, Any]
    created_at: str


class GroupItem(msgspec.Struct, kw_only=True):
    group_type_index: int
    group_key: str
    group_properties: Mapping[str, Any]
    created_at: str


class GroupTypeItem(msgspec.Struct, kw_only=True):
    group_type: str
    group_type_index: int


class PersonBody(Fields):
    """Whose properties to set: those that are given are laid over what is stored."""

    distinct_ids: Annotated[list[Annotated[str, Text(DISTINCT_ID_MAX)]], MaxLen(MAX_IDS)] | None = (
        None
    )
    properties: dict[Any, Any] | None = None


class GroupTypeBody(Fields):
    group_type: Annotated[str, Text(400)]


class GroupBody(Fields):
    """The group's type by name, which is made if it is new, its key and its properties."""

    group_type: Annotated[str, Text(400)]
    group_key: Annotated[str, Text(400)]
    group_properties: dict[Any, Any] | None = None


def person_item(person: Person) -> PersonItem:
    email = person.properties.get("email")
    first = person.distinct_ids[0] if person.distinct_ids else person.uuid
    return PersonItem(
        id=person.uuid,
        uuid=person.uuid,
        name=email if isinstance(email, str) and email else first,
        distinct_ids=person.distinct_ids,
        properties=person.properties,
        created_at=iso(person.created_at),
    )


def group_item(group: Group) -> GroupItem:
    return GroupItem(
        group_type_index=group.type_index,
        group_key=group.key,
        group_properties=group.properties,
        created_at=iso(group.created_at),
    )


def _asked_text(call: ProjectCall, name: str) -> str:
    text = call.asked(name) or ""
    if unstorable := why_unstorable(text):
        raise Invalid(unstorable[1], attr=name, code=unstorable[0])
    return text


async def _asked_cohort(call: ProjectCall) -> Cohort | None:
    text = call.asked("cohort")
    if not text:
        return None
    number = whole_number(text)
    if number is None:
        raise Invalid("A valid integer is required.", attr="cohort")
    id = CohortId(min(max(number, 0), INT64_MAX))  # nobody has ids beyond
    try:
        return await call.rooms.cohorts.find(call.project.id, id)
    except NotFound:
        detail = "There is no such cohort."
        raise Invalid(detail, attr="cohort", code="cohort_does_not_exist") from None


def _asked_filters(call: ProjectCall) -> list[Any]:
    text = call.asked("properties")
    if not text:
        return []
    try:
        filters = jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError as error:
        raise Invalid(f"This is no JSON: {error}", attr="properties") from None
    if not isinstance(filters, list):
        raise Invalid("A list of filters is required.", attr="properties", code="not_a_list")
    return filters


@describes(answer=Page[PersonItem], query=WINDOW + FILTERS)
async def list_persons(call: Annotated[ProjectCall, in_project("person:read")]) -> Response:
    """The project's persons, newest first."""
    asked = call.window
    filters, cohort = _asked_filters(call), await _asked_cohort(call)
    query = PersonQuery(
        project_id=call.project.id,
        distinct_id=_asked_text(call, "distinct_id"),
        email=_asked_text(call, "email"),
        search=_asked_text(call, "search").strip()[:DISTINCT_ID_MAX],
        cohort_id=cohort.id if cohort and cohort.is_static else None,
        limit=asked.limit,
        offset=asked.offset,
    )
    await call.rooms.arrivals.settled()
    found, count = await _matching(call, query, filters, cohort)
    listed = [person_item(person) for person in found]
    return JsonResponse(page(call.request, call.rooms.origins, asked, count, listed))


async def _matching(
    call: ProjectCall, query: PersonQuery, filters: list[Any], cohort: Cohort | None
) -> tuple[list[Person], int]:
    of_cohort = f"properties[{len(filters)}]"
    if cohort and not cohort.is_static:
        filters = [*filters, {"type": "cohort", "key": "id", "value": cohort.id}]
    if not filters:
        return await call.rooms.persons.persons(query)
    try:
        return await call.rooms.reaches.persons(call.project, query, filters, call.now)
    except Invalid as error:
        attr = "cohort" if (error.attr or "").startswith(of_cohort) else error.attr
        raise Invalid(error.detail, attr=attr, code=error.code) from None


@describes(answer=PersonItem, status=201, body=PersonBody)
async def create_person(call: Annotated[ProjectCall, in_project("person:write")]) -> Response:
    """Make the person of these ids, or change the one who has them."""
    body = await call.body(PersonBody)
    if not body.distinct_ids:
        raise Invalid("At least one distinct id is required.", attr="distinct_ids", code="required")
    given = checked_properties(body.properties)
    person = await call.rooms.persons.put_person(
        call.project.id,
        body.distinct_ids,
        lambda before: laid_over(before, given),
        lambda before, after: edit(before, after, call.actor),
        call.now,
    )
    return JsonResponse(person_item(person), status_code=201)


@describes(answer=PersonItem)
async def retrieve_person(
    person_id: str, call: Annotated[ProjectCall, in_project("person:read")]
) -> Response:
    """One person."""
    return JsonResponse(person_item(await found_person(call, person_id)))


@describes(answer=PersonItem, body=PersonBody)
async def change_person(
    person_id: str, call: Annotated[ProjectCall, in_project("person:write")]
) -> Response:
    """Set some properties; null takes one away. More distinct ids may be added."""
    found = await found_person(call, person_id)
    body = await call.body(PersonBody)
    given = checked_properties(body.properties)
    person = await call.rooms.persons.change_person(
        call.project.id,
        found.uuid,
        body.distinct_ids or (),
        lambda before: changed(before, given),
        lambda before, after: edit(before, after, call.actor),
        call.now,
    )
    if person is None:
        raise NotFound
    return JsonResponse(person_item(person))


@describes(answer=list[GroupTypeItem])
async def list_group_types(call: Annotated[ProjectCall, in_project("group:read")]) -> Response:
    """The kinds of group that the project has, five at most."""
    await call.rooms.arrivals.settled()
    types = await call.rooms.persons.group_types(call.project.id)
    return JsonResponse(
        [GroupTypeItem(group_type=name, group_type_index=index) for name, index in types.items()]
    )


@describes(answer=GroupTypeItem, status=201, body=GroupTypeBody)
async def create_group_type(call: Annotated[ProjectCall, in_project("group:write")]) -> Response:
    """Make a kind of group, for flags that count by it before there is any. One that is there
    stays as it is."""
    name = (await call.body(GroupTypeBody)).group_type
    index = await _group_type(call, name)
    await call.rooms.flags.refresh(call.project)
    return JsonResponse(GroupTypeItem(group_type=name, group_type_index=index), status_code=201)


async def _group_type(call: ProjectCall, name: str) -> int:
    index = await call.rooms.persons.put_group_type(call.project.id, name, MAX_GROUP_TYPES)
    if index is None:
        raise Invalid(f"A project has {MAX_GROUP_TYPES} group types at most.", attr="group_type")
    return index


@describes(answer=Page[GroupItem], query=WINDOW + GROUP_FILTERS)
async def list_groups(call: Annotated[ProjectCall, in_project("group:read")]) -> Response:
    """The groups of one type, by their keys."""
    text = call.asked("group_type_index") or ""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Invalid("A valid integer is required.", attr="group_type_index")
    asked = call.window
    await call.rooms.arrivals.settled()
    found, count = await call.rooms.persons.groups(
        call.project.id, int(text), limit=asked.limit, offset=asked.offset
    )
    listed = [group_item(group) for group in found]
    return JsonResponse(page(call.request, call.rooms.origins, asked, count, listed))


@describes(answer=GroupItem, status=201, body=GroupBody)
async def create_group(call: Annotated[ProjectCall, in_project("group:write")]) -> Response:
    """Make a group, or lay properties over those it has."""
    body = await call.body(GroupBody)
    given = checked_properties(body.group_properties, "group_properties")
    index = await _group_type(call, body.group_type)
    group = await call.rooms.persons.put_group(
        call.project.id, index, body.group_key, given, call.now
    )
    await call.rooms.flags.refresh(call.project)
    return JsonResponse(group_item(group), status_code=201)


def checked_properties(
    properties: dict[Any, Any] | None, attr: str = "properties"
) -> dict[str, Any]:
    check_storable(properties or {}, attr)
    return properties or {}


async def found_person(call: ProjectCall, person_id: str) -> Person:
    """As their events made them that were accepted before."""
    await call.rooms.arrivals.settled()
    person = (
        None
        if why_unstorable(person_id)
        else await call.rooms.persons.person(call.project.id, person_id)
    )
    if person is None:
        raise NotFound
    return person


for root in ROOTS:
    router.get(root + "persons/")(list_persons)
    router.post(root + "persons/")(create_person)
    router.get(root + "persons/{person_id}/")(retrieve_person)
    router.patch(root + "persons/{person_id}/")(change_person)
    router.get(root + "groups_types/")(list_group_types)
    router.post(root + "groups_types/")(create_group_type)
    router.get(root + "groups/")(list_groups)
    router.post(root + "groups/")(create_group)
