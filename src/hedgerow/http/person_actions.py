"""What is done to one person: a property set or removed, their ids taken apart, forgotten."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.delete import Chosen
from hedgerow.flags.model import DISTINCT_ID_MAX
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.fields import Fields, Text
from hedgerow.http.persons import (
    ROOTS,
    PersonItem,
    checked_properties,
    found_person,
    person_item,
)
from hedgerow.http.reply import JsonResponse, no_content
from hedgerow.persons.curate import deletion, edit, split
from hedgerow.persons.model import Person
from hedgerow.persons.properties import changed

router = APIRouter(tags=["Persons"])

KEY_MAX = 400
WITH_EVENTS = (Parameter("delete_events", "true: their events too.", {"type": "boolean"}),)

Key = Annotated[str, Text(KEY_MAX)]


class PropertyBody(Fields):
    key: Key
    value: Any


class UnsetBody(Fields):
    unset: Annotated[Key, Field(alias="$unset")]


class SplitBody(Fields):
    """Who stays. Without it the first id stays, and the person's properties are cleared."""

    main_distinct_id: Annotated[str, Text(DISTINCT_ID_MAX)] | None = None


class Done(msgspec.Struct, kw_only=True):
    success: bool


@describes(answer=PersonItem, status=202, body=PropertyBody)
async def update_property(
    person_id: str, call: Annotated[ProjectCall, in_project("person:write")]
) -> Response:
    """Set one property."""
    found = await found_person(call, person_id)
    body = await call.body(PropertyBody)
    if body.value is None:
        raise Invalid("This field is required.", attr="value", code="required")
    checked_properties({"value": body.value}, "value")
    person = await _change(call, found, body.key, body.value)
    return JsonResponse(person_item(person), status_code=202)


@describes(answer=Done, status=201, body=UnsetBody)
async def delete_property(
    person_id: str, call: Annotated[ProjectCall, in_project("person:write")]
) -> Response:
    """Remove one property."""
    found = await found_person(call, person_id)
    body = await call.body(UnsetBody)
    await _change(call, found, body.unset, None)
    return JsonResponse(Done(success=True), status_code=201)


@describes(answer=Done, status=201, body=SplitBody)
async def split_person(
    person_id: str, call: Annotated[ProjectCall, in_project("person:write")]
) -> Response:
    """Make persons of their own of all distinct ids but one."""
    found = await found_person(call, person_id)
    body = await call.body(SplitBody)
    after = await call.rooms.persons.split_person(
        call.project.id,
        found.uuid,
        lambda person: split(person, body.main_distinct_id, call.actor),
        call.now,
    )
    if after is None:
        raise NotFound
    return JsonResponse(Done(success=True), status_code=201)


@describes(status=204, query=WITH_EVENTS)
async def delete_person(
    person_id: str, call: Annotated[ProjectCall, in_project("person:write")]
) -> Response:
    """Forget a person and their ids, and their events if that is wished."""
    found = await found_person(call, person_id)
    events = None
    if found.distinct_ids and (call.asked("delete_events") or "").lower() in ("true", "1"):
        chosen = Chosen(distinct_ids=found.distinct_ids)
        events = await call.rooms.deletion.delete_untold(call.project.id, chosen)
    await call.rooms.persons.delete_person(
        call.project.id,
        found.uuid,
        lambda person: deletion(person, call.actor, events),
        call.now,
    )
    return no_content()


async def _change(call: ProjectCall, found: Person, key: str, value: Any) -> Person:
    person = await call.rooms.persons.change_person(
        call.project.id,
        found.uuid,
        (),
        lambda before: changed(before, {key: value}),
        lambda before, after: edit(before, after, call.actor),
        call.now,
    )
    if person is None:
        raise NotFound
    return person


for root in ROOTS:
    router.post(root + "persons/{person_id}/update_property/")(update_property)
    router.post(root + "persons/{person_id}/delete_property/")(delete_property)
    router.post(root + "persons/{person_id}/split/")(split_person)
    router.delete(root + "persons/{person_id}/")(delete_person)
