"""Cohorts: sets of persons that flags can ask for."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.activity import PAGE, ActivityPage, activity_page
from hedgerow.http.describe import describes
from hedgerow.http.fields import INT64_MAX, Boolean, Fields, Text
from hedgerow.http.paging import WINDOW, Page, page, positive
from hedgerow.http.reply import JsonResponse, no_content
from hedgerow.lib import jsonio
from hedgerow.lib.clock import iso
from hedgerow.persons.cohorts import DESCRIPTION_MAX, NAME_MAX, SCOPE, CohortFields, ids_of_csv
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.store import ActivityQuery

router = APIRouter(tags=["Cohorts"])

BASES = tuple(f"/api/{root}/{{project_id}}/cohorts/" for root in ("projects", "environments"))


class CohortItem(msgspec.Struct, kw_only=True):
    """A cohort in PostHog's words. `count` is known for static ones."""

    id: int
    name: str
    description: str
    deleted: bool
    filters: Mapping[str, Any]
    is_static: bool
    is_calculating: bool
    errors_calculating: int
    count: int | None
    created_by: str
    created_at: str
    last_calculation: str | None


class CohortBody(Fields):
    """`filters.properties` is nested AND and OR; `csv` fills a static cohort with the persons of
    the distinct ids in its first column."""

    name: Annotated[str, Text(NAME_MAX)] | None = None
    description: Annotated[str, Text(DESCRIPTION_MAX, blank=True)] | None = None
    is_static: Boolean | None = None
    deleted: Boolean | None = None
    filters: Any = None
    csv: str | None = None

    def fields(self) -> CohortFields:
        return CohortFields(
            name=self.name,
            description=self.description,
            is_static=self.is_static,
            definition=_definition(self.filters),
            deleted=self.deleted,
        )


def _definition(filters: Any) -> Any:
    if isinstance(filters, str):  # a form brings it as text
        try:
            filters = jsonio.parse(filters.encode("utf-8", "surrogatepass"))
        except jsonio.JsonError as error:
            raise Invalid(str(error), attr="filters") from None
    if filters is None:
        return None
    if not isinstance(filters, dict) or "properties" not in filters:
        raise Invalid("An object with properties is required.", attr="filters")
    return filters["properties"]


async def item(call: ProjectCall, cohort: Cohort) -> CohortItem:
    [only] = await items(call, [cohort])
    return only


async def items(call: ProjectCall, cohorts: Sequence[Cohort]) -> list[CohortItem]:
    sizes = await call.rooms.cohorts.sizes(cohorts)
    return [_item(cohort, sizes.get(cohort.id)) for cohort in cohorts]


def _item(cohort: Cohort, count: int | None) -> CohortItem:
    return CohortItem(
        id=cohort.id,
        name=cohort.name,
        description=cohort.description,
        deleted=cohort.deleted,
        filters={"properties": cohort.definition},
        is_static=cohort.is_static,
        is_calculating=False,
        errors_calculating=0,
        count=count,
        created_by=cohort.created_by,
        created_at=iso(cohort.created_at),
        last_calculation=None,
    )


def _id(text: str) -> CohortId:
    number = positive(text) if text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return CohortId(number)


@describes(answer=Page[CohortItem], query=WINDOW)
async def list_cohorts(call: Annotated[ProjectCall, in_project("cohort:read")]) -> Response:
    """The project's cohorts, newest first."""
    asked = call.window
    found, count = await call.rooms.cohorts.listing(
        call.project.id, limit=asked.limit, offset=asked.offset
    )
    listed = await items(call, found)
    return JsonResponse(page(call.request, call.rooms.origins, asked, count, listed))


@describes(answer=CohortItem, status=201, body=CohortBody)
async def create_cohort(call: Annotated[ProjectCall, in_project("cohort:write")]) -> Response:
    """Make a cohort."""
    body = await call.body(CohortBody)
    ids = _members(body, is_static=bool(body.is_static))
    cohort = await call.rooms.cohorts.create(call.project.id, body.fields(), call.actor, call.now)
    return await _done(call, cohort, ids, 201)


@describes(answer=CohortItem)
async def retrieve_cohort(
    cohort_id: str, call: Annotated[ProjectCall, in_project("cohort:read")]
) -> Response:
    """One cohort."""
    cohort = await call.rooms.cohorts.find(call.project.id, _id(cohort_id))
    return JsonResponse(await item(call, cohort))


@describes(answer=CohortItem, body=CohortBody)
async def change_cohort(
    cohort_id: str, call: Annotated[ProjectCall, in_project("cohort:write")]
) -> Response:
    """Change some fields, or add persons to a static cohort with `csv`."""
    found = await call.rooms.cohorts.find(call.project.id, _id(cohort_id))
    body = await call.body(CohortBody)
    ids = _members(body, is_static=found.is_static)
    cohort = await call.rooms.cohorts.change(
        call.project.id, found.id, body.fields(), call.actor, call.now
    )
    return await _done(call, cohort, ids, 200)


@describes(status=204)
async def delete_cohort(
    cohort_id: str, call: Annotated[ProjectCall, in_project("cohort:write")]
) -> Response:
    """Delete a cohort that no flag and no other cohort asks for."""
    await call.rooms.cohorts.change(
        call.project.id, _id(cohort_id), CohortFields(deleted=True), call.actor, call.now
    )
    await call.rooms.flags.refresh(call.project)
    return no_content()


@describes(answer=ActivityPage, query=PAGE)
async def cohort_activity(
    cohort_id: str, call: Annotated[ProjectCall, in_project("cohort:read")]
) -> Response:
    """Who changed what in this cohort, newest first."""
    found = await call.rooms.cohorts.find(call.project.id, _id(cohort_id))
    query = ActivityQuery(project_id=call.project.id, scope=SCOPE, item_id=str(found.id))
    return await activity_page(call, query)


def _members(body: CohortBody, *, is_static: bool) -> list[str]:
    if body.csv is None:
        return []
    if not is_static:
        raise Invalid("Only a static cohort is a list of persons.", attr="is_static")
    return ids_of_csv(body.csv)


async def _done(call: ProjectCall, cohort: Cohort, ids: list[str], status: int) -> Response:
    if ids:
        await call.rooms.cohorts.add_members(cohort, ids)
    await call.rooms.flags.refresh(call.project)
    return JsonResponse(await item(call, cohort), status_code=status)


for base in BASES:
    router.get(base)(list_cohorts)
    router.post(base)(create_cohort)
    router.get(base + "{cohort_id}/")(retrieve_cohort)
    router.patch(base + "{cohort_id}/")(change_cohort)
    router.delete(base + "{cohort_id}/")(delete_cohort)
    router.get(base + "{cohort_id}/activity/")(cohort_activity)
