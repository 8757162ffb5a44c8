"""Remote config: what posthog-js loads before anything else, `/array/<project key>/config` as JSON
and `/array/<project key>/config.js` as a script.
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hedgerow.errors import AppError
from hedgerow.http.access import Rooms
from hedgerow.http.for_pages import (
    ASK_FIRST,
    JAVASCRIPT,
    JSON,
    for_pages,
    for_script,
    preflight,
    refused,
)
from hedgerow.http.project_key import project_of
from hedgerow.http.sdk_config import newer
from hedgerow.lib import jsonio

router = APIRouter(include_in_schema=False)

PATHS = ("/array/{token}/config/", "/array/{token}/config.js/")


async def remote_config(request: Request, token: str) -> Response:
    try:
        return for_pages(request, await _config(request, token), JSON, ASK_FIRST)
    except AppError as error:
        return refused(error)


async def remote_config_script(request: Request, token: str) -> Response:
    try:
        config = (await _config(request, token)).decode()
    except AppError as error:
        return refused(error)
    name = for_script(jsonio.encode(token).decode())
    # Apps are loaded from the addresses in the config: none comes with the script itself.
    script = (
        "(function () {\n"
        "window._POSTHOG_REMOTE_CONFIG = window._POSTHOG_REMOTE_CONFIG || {}\n"
        f"window._POSTHOG_REMOTE_CONFIG[{name}] = "
        f"{{ config: {for_script(config)}, siteApps: [] }}\n"
        "})()\n"
    )
    return for_pages(request, script.encode(), JAVASCRIPT, ASK_FIRST)


async def options(request: Request, token: str) -> Response:
    return preflight(request)


async def _config(request: Request, token: str) -> bytes:
    rooms: Rooms = request.app.state.rooms
    project = await project_of(rooms.directory, token)
    return b"{%s}" % newer(rooms.sdk_fields.part(project.id), token)[1:]


for path, endpoint in zip(PATHS, (remote_config, remote_config_script), strict=True):
    router.get(path)(endpoint)
    router.options(path)(options)
