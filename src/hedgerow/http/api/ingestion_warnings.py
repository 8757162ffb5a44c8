"""Warnings about events that ingestion rejected, dropped or changed."""

import msgspec
from starlette.responses import Response

from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_text
from hedgerow.http.server.response import JsonResponse
from hedgerow.ingestion.model import IngestionWarning
from hedgerow.ingestion.store import WarningQuery, WarningStore
from hedgerow.lib.clock import format_iso
from hedgerow.lib.text import explain_unstorable

SEARCH_MAX = 200
FILTERS = (
    Parameter("type", "Only warnings of this type, such as event_timestamp_in_future."),
    Parameter("search", "Only warnings whose detail, event or distinct id contains this text."),
)


class WarningItem(msgspec.Struct, kw_only=True):
    id: int
    type: str
    detail: str
    event: str
    uuid: str
    distinct_id: str
    timestamp: str


def _render_warning(warning: IngestionWarning) -> WarningItem:
    return WarningItem(
        id=warning.id,
        type=warning.type,
        detail=warning.detail,
        event=warning.event,
        uuid=warning.uuid,
        distinct_id=warning.distinct_id,
        timestamp=format_iso(warning.created_at),
    )


class IngestionWarningEndpoints:
    tag = "Ingestion warnings"

    def __init__(self, warnings: WarningStore) -> None:
        self._warnings = warnings

    @endpoint(
        "GET",
        *project_paths("ingestion_warnings/"),
        access=in_project("ingestion_warning:read"),
        response=Page[WarningItem],
        query=PAGE_PARAMETERS + FILTERS,
    )
    async def list_warnings(self, call: ProjectCall) -> Response:
        """List warnings about events that were rejected, dropped or sanitized, newest first."""
        window, type = call.window, call.query_param("type") or ""
        search = parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX]
        found, count = (
            ([], 0)
            if explain_unstorable(type)
            else await self._warnings.list_warnings(
                WarningQuery(
                    project_id=call.project.id,
                    type=type,
                    search=search,
                    limit=window.limit,
                    offset=window.offset,
                )
            )
        )
        items = [_render_warning(warning) for warning in found]
        return JsonResponse(call.page(count, items))
