"""The three families of pipeline records, one set of endpoints for all of them."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends
from starlette.responses import Response

from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.describe import describes
from hedgerow.http.paging import Page, Window, page, window
from hedgerow.http.reply import JsonResponse
from hedgerow.kit.clock import iso
from hedgerow.pipelines.model import Family, Record

router = APIRouter(tags=["Pipelines"])

PATHS = {
    Family.DESTINATION: "pipeline_destination_configs",
    Family.FRONTEND_APP: "pipeline_frontend_apps_configs",
    Family.IMPORT_APP: "pipeline_import_apps_configs",
}


class RecordItem(msgspec.Struct, kw_only=True):
    """The record of the specification: its fields, their order, their types."""

    id: int
    plugin: int
    enabled: bool
    order: int
    config: str
    error: str
    team_id: int
    plugin_info: str
    delivery_rate_24h: str
    created_at: str
    updated_at: str
    name: str
    description: str
    deleted: bool


def item(record: Record) -> RecordItem:
    return RecordItem(
        id=record.id,
        plugin=record.component_id,
        enabled=record.enabled,
        order=record.order,
        config="{}",
        error="",
        team_id=record.project_id,
        plugin_info="{}",
        delivery_rate_24h="",
        created_at=iso(record.created_at),
        updated_at=iso(record.updated_at),
        name=record.name,
        description=record.description,
        deleted=record.deleted,
    )


def _listing(family: Family) -> Callable[..., Any]:
    @describes(answer=Page[RecordItem])
    async def list_records(
        call: Annotated[ProjectCall, in_project("plugin:read")],
        asked: Annotated[Window, Depends(window)],
    ) -> Response:
        """The project's records of this family that are not deleted, in their order."""
        records, count = await call.rooms.pipelines.records(
            call.project.id, family, limit=asked.limit, offset=asked.offset
        )
        items = [item(record) for record in records]
        return JsonResponse(page(call.request, call.rooms.origins, asked, count, items))

    return list_records


for family, path in PATHS.items():
    for base in ("/api/environments", "/api/projects"):
        router.get(f"{base}/{{project_id}}/{path}/", name=f"list_{path}")(_listing(family))
