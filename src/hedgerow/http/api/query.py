"""The query endpoint: HogQL, event, insight and experiment queries, synchronous or
asynchronous."""

from typing import Annotated, Any

import msgspec
from pydantic import Field
from starlette.responses import Response

from hedgerow.dashboards.results import InsightResults
from hedgerow.dashboards.saved_query import locate_error, unwrap_node
from hedgerow.errors import Invalid, TooLarge
from hedgerow.events.query.result_json import encode_result
from hedgerow.http.api.dashboards.insight_items import render_status
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.payload.fields import Boolean, Fields, Text
from hedgerow.http.server.response import no_content
from hedgerow.lib.text import truncate
from hedgerow.queries.model import QueryResponse, QueryStatus
from hedgerow.queries.queries import KEY_PREFIX, Queries, Refresh

ID_MAX = 100
# Parsing 128 KiB takes up to 20 ms.
MAX_BODY_BYTES = 128 << 10


class QueryBody(Fields):
    """`query` is a HogQLQuery (`query`, `values`, `filters`, `explain`), an EventsQuery
    (`select`, `where`, `properties`, `event`, `personId`, `after`, `before`, `orderBy`, `limit`,
    `offset`), an ExperimentQuery (`experiment_id`, `metric`) or an ExperimentExposureQuery
    (`experiment_id`, `exposure_criteria`, `start_date`, `end_date`). Insights are a TrendsQuery
    (`series`, `interval`, `dateRange`, `properties`, `breakdownFilter`, `compareFilter`,
    `trendsFilter`), a FunnelsQuery (`series`, `funnelsFilter`), a RetentionQuery
    (`retentionFilter`) or a PathsQuery (`pathsFilter`), and an ActorsQuery (`source`, `select`,
    `limit`, `offset`) names the persons behind a number of one. An InsightVizNode,
    DataVisualizationNode or DataTableNode stands for the query that is its `source`. `refresh`
    chooses between a cached and a new result, and whether to wait for it."""

    query: dict[str, Any]
    refresh: bool | str | None = None
    client_query_id: Annotated[str, Text(ID_MAX)] | None = None
    is_async: Boolean = Field(default=False, alias="async")


class QueryStarted(msgspec.Struct, kw_only=True):
    query_status: QueryStatus


def _parse_refresh(body: QueryBody) -> Refresh:
    """Older clients send `refresh: true` for a new result, and `async: true`."""
    sent = body.refresh
    if sent is None or isinstance(sent, bool):
        if body.is_async:
            return Refresh.FORCE_ASYNC if sent else Refresh.ASYNC
        return Refresh.FORCE_BLOCKING if sent else Refresh.BLOCKING
    try:
        return Refresh(sent)
    except ValueError:
        detail = f'"{truncate(sent)}" is not a valid choice.'
        raise Invalid(detail, attr="refresh", code="invalid_choice") from None


def _respond(result: Any, status: int = 200) -> Response:
    return Response(encode_result(result), status_code=status, media_type="application/json")


class QueryEndpoints:
    tag = "Queries"

    def __init__(self, queries: Queries, results: InsightResults) -> None:
        self._queries = queries
        self._results = results

    @endpoint(
        "POST",
        *project_paths("query/"),
        access=in_project("query:read"),
        response=QueryResponse,
        body=QueryBody,
    )
    async def run_query(self, call: ProjectCall) -> Response:
        """Run a query over the project's events, persons and groups. With an asynchronous `refresh`
        the response is 202 with a `query_status`; poll it by its id."""
        size = await call.context.bodies.size(call.request)
        if size > MAX_BODY_BYTES:
            raise TooLarge(f"A query has at most {MAX_BODY_BYTES} bytes.")
        body = await call.body(QueryBody)
        query, refresh = unwrap_node(body.query), _parse_refresh(body)
        run = self._queries.execute(call.project, query, refresh, body.client_query_id or "", size)
        try:
            result = await call.while_connected(run)
        except Invalid as error:
            raise locate_error(error, body.query) from None
        if isinstance(result, QueryStatus):
            return _respond(QueryStarted(query_status=result), 202)
        return _respond(result)

    @endpoint(
        "GET",
        *project_paths("query/{query_id}/"),
        access=in_project("query:read"),
        response=QueryStarted,
    )
    async def retrieve_query_status(self, call: ProjectCall) -> Response:
        """Retrieve the status of an asynchronous query: 202 while it runs, 200 with the result
        after."""
        status = await self._find_status(call)
        return _respond(QueryStarted(query_status=status), 200 if status.complete else 202)

    async def _find_status(self, call: ProjectCall) -> QueryStatus:
        """Find a query of this process, or the result of an insight by its key."""
        id = call.path_param("query_id")
        if id.startswith(KEY_PREFIX) and id.isascii() and "\x00" not in id:
            kept = await self._results.find_by_key(call.project.id, id)
            if kept is not None:
                return render_status(call.project.id, kept)
        return self._queries.status(call.project.id, id)

    @endpoint(
        "DELETE", *project_paths("query/{query_id}/"), access=in_project("query:read"), status=204
    )
    async def cancel_query(self, call: ProjectCall) -> Response:
        """Cancel a running query."""
        self._queries.cancel(call.project.id, call.path_param("query_id"))
        return no_content()
