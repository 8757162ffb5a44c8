"""What posthog-js asks of its host that Hedgerow does not do, answered so that nothing breaks:
session recordings are taken and not kept. And its own scripts, where an operator has put them.
"""

import asyncio
import re
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from hedgerow.errors import NotFound, TooLarge, TooSlow
from hedgerow.http.access import Rooms
from hedgerow.http.for_pages import for_pages, preflight, refused
from hedgerow.http.reply import JSON_TYPE, Reply, reply
from hedgerow.http.trace import Trace
from hedgerow.lib.threads import in_daemon_thread

# The largest of posthog-js has one megabyte.
MAX_SCRIPT_BYTES = 16 * 1024 * 1024
KINDS = {".css": "text/css", ".map": "application/json"}
NO_SCRIPT = "There is no such script here. HEDGEROW_SDK_SCRIPTS may name their folder."
TAKEN = reply(200, b'{"status":1}', JSON_TYPE)

_SCRIPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}\.(js|js\.map|css)")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,40}")


class ExtrasDoor:
    """The handlers, with what they work with."""

    def __init__(self, *, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def recordings(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Read to the end and forgotten: a client that is refused would try again and again."""
        size = 0
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    size += len(message.get("body", b""))
                    if size > self._max_bytes:
                        raise TooLarge(f"Request body is larger than {self._max_bytes} bytes.")
                    if not message.get("more_body"):
                        return TAKEN
        except TimeoutError:
            raise TooSlow from None


router = APIRouter(include_in_schema=False)


async def script(request: Request, name: str) -> Response:
    return await _script(request, name)


async def script_of_version(request: Request, version: str, name: str) -> Response:
    return await _script(request, name, version)


async def array(request: Request, token: str) -> Response:
    """The SDK itself, the same for every project."""
    return await _script(request, "array.js")


async def options(request: Request) -> Response:
    return preflight(request)


for path, endpoint in (
    ("/static/{name}/", script),
    ("/static/{version}/{name}/", script_of_version),
    ("/array/{token}/array.js/", array),
):
    router.get(path)(endpoint)
    router.options(path)(options)


async def _script(request: Request, name: str, version: str = "") -> Response:
    """From a folder named after the version if there is one, else from the folder itself."""
    rooms: Rooms = request.app.state.rooms
    folder = rooms.sdk_scripts
    good = _SCRIPT.fullmatch(name) and (not version or _VERSION.fullmatch(version))
    content = None
    if folder is not None and good:
        content = await in_daemon_thread(lambda: _content(folder, version, name))
    if content is None:
        return refused(NotFound(NO_SCRIPT))
    kind = KINDS.get(Path(name).suffix, "text/javascript")
    return for_pages(request, content, kind, "public, max-age=3600")


def _content(folder: Path, version: str, name: str) -> bytes | None:
    for path in (folder / version / name, folder / name):
        try:
            if path.is_file() and path.stat().st_size <= MAX_SCRIPT_BYTES:
                return path.read_bytes()
        except OSError:  # not ours to read
            continue
    return None
