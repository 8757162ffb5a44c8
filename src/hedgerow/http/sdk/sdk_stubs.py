"""Requests of posthog-js that Hedgerow accepts without implementing the feature (session
recordings), and posthog-js itself, if the operator provides its files.
"""

import asyncio
import re
from pathlib import Path

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope

from hedgerow.errors import NotFound, RequestTimeout, TooLarge
from hedgerow.http.call import PublicCall
from hedgerow.http.endpoint import Options, endpoint, fast_endpoint
from hedgerow.http.openapi.sdk_types import NO_KEY, NOT_MODIFIED, CaptureResponse, Object
from hedgerow.http.sdk.cors_assets import (
    build_asset_error,
    build_asset_response,
    build_preflight_response,
)
from hedgerow.http.server.response import JSON_TYPE, Reply, build_reply
from hedgerow.http.server.trace import Trace
from hedgerow.lib.threads import run_in_thread

# The largest file of posthog-js has about one megabyte.
MAX_SCRIPT_BYTES = 16 * 1024 * 1024
MEDIA_TYPES = {".css": "text/css", ".map": "application/json"}
NO_SCRIPT = (
    "Script not found. To serve the scripts of posthog-js, set HEDGEROW_SDK_SCRIPTS_DIR to their "
    "directory."
)
ACCEPTED = build_reply(200, b'{"status":1}', JSON_TYPE)

NAMED = "/static/{name}/"
VERSIONED = "/static/{version}/{name}/"
ARRAY = "/array/{token}/array.js/"
SCRIPT_OPTIONS: Options = {
    "keys": NO_KEY,
    "response": str,
    "media_type": "text/javascript",
    "statuses": NOT_MODIFIED,
}

_SCRIPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}\.(js|js\.map|css)")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,40}")


class RecordingEndpoints:
    tag = "Capture"

    def __init__(self, *, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    @fast_endpoint(
        "POST",
        "/s",
        is_public=True,
        name="recordings",
        keys=NO_KEY,
        body=Object,
        response=CaptureResponse,
    )
    async def discard_recordings(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """Accept session recordings and discard them."""
        # A client that gets an error would retry for ever.
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
                        return ACCEPTED
        except TimeoutError:
            raise RequestTimeout from None


class ScriptEndpoints:
    tag = "Pages"

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    @endpoint("GET", NAMED, access=None, name="script", **SCRIPT_OPTIONS)
    async def retrieve_script(self, call: PublicCall) -> Response:
        """Retrieve a script of posthog-js, from HEDGEROW_SDK_SCRIPTS_DIR."""
        return await self._serve(call, call.path_param("name"))

    @endpoint("GET", VERSIONED, access=None, name="script_of_version", **SCRIPT_OPTIONS)
    async def retrieve_script_of_version(self, call: PublicCall) -> Response:
        """Retrieve a script of a version of posthog-js, from HEDGEROW_SDK_SCRIPTS_DIR."""
        return await self._serve(call, call.path_param("name"), call.path_param("version"))

    @endpoint("GET", ARRAY, access=None, name="sdk", **SCRIPT_OPTIONS)
    async def retrieve_sdk(self, call: PublicCall) -> Response:
        """Retrieve posthog-js itself, the same for every project, from HEDGEROW_SDK_SCRIPTS_DIR."""
        return await self._serve(call, "array.js")

    @endpoint("OPTIONS", NAMED, VERSIONED, ARRAY, access=None, is_documented=False)
    async def preflight(self, call: PublicCall) -> Response:
        return build_preflight_response(call.request)

    async def _serve(self, call: PublicCall, name: str, version: str = "") -> Response:
        """Serve from the subdirectory of the version if it exists, else from the directory."""
        directory = self._directory
        is_safe = _SCRIPT.fullmatch(name) and (not version or _VERSION.fullmatch(version))
        content = None
        if directory is not None and is_safe:
            content = await run_in_thread(lambda: _read_script(directory, version, name))
        if content is None:
            return build_asset_error(NotFound(NO_SCRIPT))
        media_type = MEDIA_TYPES.get(Path(name).suffix, "text/javascript")
        return build_asset_response(call.request, content, media_type, "public, max-age=3600")


def _read_script(directory: Path, version: str, name: str) -> bytes | None:
    """Return the content of a script. A link to a file outside the directory counts as missing."""
    root = directory.resolve()
    for name_in_root in (Path(version, name), Path(name)):
        try:
            path = (root / name_in_root).resolve()
            is_inside = path.is_relative_to(root)
            if is_inside and path.is_file() and path.stat().st_size <= MAX_SCRIPT_BYTES:
                return path.read_bytes()
        except (OSError, RuntimeError):  # unreadable, or a loop of links: treat it as missing
            continue
    return None
