"""Frontend apps on the way to web pages: `/site_app/<id>/<token>/<hash>/`, without a key.

A page gets the script and the settings that are meant for pages, nothing else.
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hedgerow.http.access import Rooms
from hedgerow.http.for_pages import (
    ASK_FIRST,
    FOR_EVER,
    JAVASCRIPT,
    for_pages,
    for_script,
    hash_of,
    preflight,
    told,
)
from hedgerow.lib import jsonio
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.model import Record, RecordId

router = APIRouter(include_in_schema=False)

PATH = "/site_app/{record_id}/{token}/{hash}/"
MISSING = {
    "type": "server_error",
    "code": "missing_site_app_source",
    "detail": "Unable to serve site app source code.",
    "attr": None,
}


@router.get(PATH)
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
        return told(MISSING, 404)
    script = page_script(record, component).encode()
    # The hash changes with the content, so a page may keep what it has; not under an older hash.
    caching = FOR_EVER if hash == hash_of(script) else ASK_FIRST
    return for_pages(request, script, JAVASCRIPT, caching)


@router.options(PATH)
async def site_app_options(request: Request) -> Response:
    return preflight(request)


def page_script(record: Record, component: Component) -> str:
    """Runs the app with the settings for pages and the SDK that the page put in a variable."""
    config = for_script(jsonio.encode(settings.for_pages(component, record.config)).decode())
    return (
        f"(function () {{\n{component.script}\n"
        f"inject({{ config: {config}, posthog: window['__$$ph_site_app_{record.id}'] }})\n}})()\n"
    )


def page_path(record: Record, component: Component) -> str:
    """Where a page finds the script. The hash moves with it, since pages keep what they have."""
    hash = hash_of(page_script(record, component).encode())
    return f"/site_app/{record.id}/{record.web_token}/{hash}/"


def frontend_module(component: Component | None) -> str:
    """The app as a module, in the form that PostHog's own pages load."""
    if component is None or component.script is None:
        return 'export function getFrontendApp () { return {"no_frontend": true} }\n'
    return f"export function getFrontendApp () {{\n{component.script}\nreturn {{ inject }}\n}}\n"
