"""What happened to events that their senders were not told, or did not read."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.reply import JsonResponse
from hedgerow.ingestion.store import WarningQuery, WarningTold
from hedgerow.lib.clock import iso
from hedgerow.lib.text import why_unstorable

router = APIRouter(tags=["Ingestion warnings"])

FILTERS = (Parameter("type", "Only warnings of this type, such as event_timestamp_in_future."),)


class WarningItem(msgspec.Struct, kw_only=True):
    id: int
    type: str
    detail: str
    event: str
    uuid: str
    distinct_id: str
    timestamp: str


def _item(told: WarningTold) -> WarningItem:
    return WarningItem(
        id=told.id,
        type=told.type,
        detail=told.detail,
        event=told.event,
        uuid=told.uuid,
        distinct_id=told.distinct_id,
        timestamp=iso(told.created_at),
    )


@router.get("/api/projects/{project_id}/ingestion_warnings/")
@router.get("/api/environments/{project_id}/ingestion_warnings/")
@describes(answer=Page[WarningItem], query=WINDOW + FILTERS)
async def list_warnings(
    call: Annotated[ProjectCall, in_project("ingestion_warning:read")],
) -> Response:
    """Events that were refused, dropped or mended on their way in, the newest first."""
    asked, type = call.window, call.asked("type") or ""
    found, count = (
        ([], 0)
        if why_unstorable(type)
        else await call.rooms.warnings.warnings(
            WarningQuery(
                project_id=call.project.id, type=type, limit=asked.limit, offset=asked.offset
            )
        )
    )
    items = [_item(told) for told in found]
    return JsonResponse(page(call.request, call.rooms.origins, asked, count, items))
