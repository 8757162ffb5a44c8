"""The query endpoint: HogQL, chosen columns of events, experiments; awaited or asked for later."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.events.answers import encoded
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.describe import describes
from hedgerow.http.fields import Boolean, Fields, Text
from hedgerow.lib.text import cut_short
from hedgerow.queries.model import Answered, QueryStatus
from hedgerow.queries.queries import Refresh

router = APIRouter(tags=["Queries"])

ID_MAX = 100


class QueryBody(Fields):
    """`query` is a HogQLQuery (`query`, `values`, `filters`, `explain`), an EventsQuery
    (`select`, `where`, `properties`, `event`, `personId`, `after`, `before`, `orderBy`, `limit`,
    `offset`), an ExperimentQuery (`experiment_id`, `metric`) or an ExperimentExposureQuery
    (`experiment_id`, `exposure_criteria`, `start_date`, `end_date`). `refresh` says whether a kept
    answer will do, and whether to wait for a new one."""

    query: dict[str, Any]
    refresh: bool | str | None = None
    client_query_id: Annotated[str, Text(ID_MAX)] | None = None
    is_async: Boolean = Field(default=False, alias="async")


class Started(msgspec.Struct, kw_only=True):
    query_status: QueryStatus


@describes(answer=Answered, body=QueryBody)
async def ask(call: Annotated[ProjectCall, in_project("query:read")]) -> Response:
    """Run a query over the project's events, persons and groups. With an asynchronous `refresh` the
    answer is 202 and a `query_status`, to be asked for by its id."""
    body = await call.body(QueryBody)
    answer = await call.rooms.queries.ask(
        call.project, body.query, _refresh(body), body.client_query_id or ""
    )
    if isinstance(answer, QueryStatus):
        return _json(Started(query_status=answer), 202)
    return _json(answer)


@describes(answer=Started)
async def query_status(
    query_id: str, call: Annotated[ProjectCall, in_project("query:read")]
) -> Response:
    """How far a query is, and its answer once it is there: 202 until then."""
    status = call.rooms.queries.status(call.project.id, query_id)
    return _json(Started(query_status=status), 200 if status.complete else 202)


@describes(status=204)
async def cancel_query(
    query_id: str, call: Annotated[ProjectCall, in_project("query:read")]
) -> Response:
    """End a query that is under way."""
    call.rooms.queries.cancel(call.project.id, query_id)
    return Response(status_code=204)


def _refresh(body: QueryBody) -> Refresh:
    """Older clients say `refresh: true` for a new answer, and `async: true`."""
    sent = body.refresh
    if sent is None or isinstance(sent, bool):
        if body.is_async:
            return Refresh.FORCE_ASYNC if sent else Refresh.ASYNC
        return Refresh.FORCE_BLOCKING if sent else Refresh.BLOCKING
    try:
        return Refresh(sent)
    except ValueError:
        detail = f'"{cut_short(sent)}" is not a valid choice.'
        raise Invalid(detail, attr="refresh", code="invalid_choice") from None


def _json(answer: Any, status: int = 200) -> Response:
    return Response(encoded(answer), status_code=status, media_type="application/json")


for root in ("projects", "environments"):
    base = f"/api/{root}/{{project_id}}/query/"
    router.post(base)(ask)
    router.get(base + "{query_id}/")(query_status)
    router.delete(base + "{query_id}/")(cancel_query)
