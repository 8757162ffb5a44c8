"""Frontend apps on the way to web pages: `/site_app/<id>/<token>/<hash>/`, without a key.

A page gets the script and the settings that are meant for pages, nothing else.
"""

import hashlib

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hedgerow.http.access import Rooms
from hedgerow.http.reply import JsonResponse
from hedgerow.kit import jsonio
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.model import Record, RecordId

router = APIRouter(include_in_schema=False)

JAVASCRIPT = "application/javascript; charset=UTF-8"
# The hash changes with the content, so a page may keep what it has.
CACHE = {"Cache-Control": "public, max-age=31536000, immutable"}
MISSING = {
    "type": "server_error",
    "code": "missing_site_app_source",
    "detail": "Unable to serve site app source code.",
    "attr": None,
}


@router.get("/site_app/{record_id}/{token}/{hash}/")
async def site_app(request: Request, record_id: str, token: str, hash: str) -> Response:
    rooms: Rooms = request.app.state.rooms
    record: Record | None = None
    if (
        record_id.isascii()
        and record_id.isdecimal()
        and len(record_id) < 19
        and "\x00" not in token
    ):
        record = await rooms.served_records.served(RecordId(int(record_id)), token)
    component = rooms.catalogue.component(record.component_id) if record else None
    if record is None or component is None or component.script is None:
        return JsonResponse(MISSING, status_code=404)
    return Response(page_script(record, component), media_type=JAVASCRIPT, headers=CACHE)


def page_script(record: Record, component: Component) -> str:
    """Runs the app with the settings for pages and the SDK that the page put in a variable."""
    config = jsonio.encode(settings.for_pages(component, record.config)).decode()
    # Inside a script these two end a line, and "</" may end the script.
    config = config.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("</", "<\\/")
    return (
        f"(function () {{\n{component.script}\n"
        f"inject({{ config: {config}, posthog: window['__$$ph_site_app_{record.id}'] }})\n}})()\n"
    )


def page_path(record: Record, component: Component) -> str:
    """Where a page finds the script. The hash moves with it, since pages keep what they have."""
    script = page_script(record, component).encode()
    hash = hashlib.md5(script, usedforsecurity=False).hexdigest()
    return f"/site_app/{record.id}/{record.web_token}/{hash}/"


def frontend_module(component: Component | None) -> str:
    """The app as a module, in the form that PostHog's own pages load."""
    if component is None or component.script is None:
        return 'export function getFrontendApp () { return {"no_frontend": true} }\n'
    return f"export function getFrontendApp () {{\n{component.script}\nreturn {{ inject }}\n}}\n"
