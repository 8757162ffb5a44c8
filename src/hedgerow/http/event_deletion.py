"""Deleting events: by uuid, by person, by name, by age."""

from typing import Annotated

import msgspec
from annotated_types import MaxLen
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.events.delete import EVENT_MAX, checked_choice, ids_of_person
from hedgerow.flags.model import DISTINCT_ID_MAX
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.describe import describes
from hedgerow.http.fields import Boolean, Fields, Text
from hedgerow.http.reply import JsonResponse

router = APIRouter(tags=["Events"])

MAX_UUIDS = 1000


class DeletionBody(Fields):
    """Which events: those for which all that is given holds. `person` is a uuid or a distinct id,
    `before` a moment. With `dry_run` they are only counted."""

    uuids: Annotated[list[Annotated[str, Text(64)]], MaxLen(MAX_UUIDS)] | None = None
    person: Annotated[str, Text(DISTINCT_ID_MAX)] | None = None
    event: Annotated[str, Text(EVENT_MAX)] | None = None
    before: Annotated[str, Text(64)] | None = None
    dry_run: Boolean = False


class Deleted(msgspec.Struct, kw_only=True):
    """How many events they were, and whether they are gone."""

    events: int
    deleted: bool


@router.post("/api/projects/{project_id}/events/delete/")
@router.post("/api/environments/{project_id}/events/delete/")
@describes(answer=Deleted, body=DeletionBody)
async def delete_events(call: Annotated[ProjectCall, in_project("project:write")]) -> Response:
    """Delete events. They are gone for every reader once this is answered."""
    body = await call.body(DeletionBody)
    project_id, deletion = call.project.id, call.rooms.deletion
    await deletion.arrived()  # and their persons with them
    chosen = checked_choice(
        uuids=body.uuids or (),
        distinct_ids=await ids_of_person(call.rooms.persons, project_id, body.person),
        event=body.event or "",
        before=body.before,
    )
    if body.dry_run:
        return JsonResponse(Deleted(events=await deletion.count(project_id, chosen), deleted=False))
    number = await deletion.delete(project_id, chosen, call.actor, call.now)
    return JsonResponse(Deleted(events=number, deleted=True))
