"""Responses for scripts and configs that pages of any site load: CORS headers, caching, ETag."""

import hashlib
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from hedgerow.errors import AppError
from hedgerow.http.server.errors import render_error
from hedgerow.http.server.headers import etag_matches, read_header
from hedgerow.http.server.proxies import build_cors_headers
from hedgerow.http.server.response import JsonResponse

JAVASCRIPT = "application/javascript; charset=UTF-8"
JSON = "application/json"
# Pages load scripts with crossorigin="anonymous": browsers require this header then.
CORS_HEADERS = {"Access-Control-Allow-Origin": "*"}
METHODS = "GET, HEAD, OPTIONS"
CACHE_FOREVER = "public, max-age=31536000, immutable"
REVALIDATE = "public, no-cache"


def compute_hash(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def escape_for_script(json: str) -> str:
    """Make JSON safe inside a script: two characters end a line there, and "</" may end the
    script."""
    return json.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("</", "<\\/")


def build_asset_response(
    request: Request, content: bytes, media_type: str, caching: str
) -> Response:
    """Return the content, or 304 to a client that already has it."""
    etag = f'"{compute_hash(content)}"'
    headers = {**CORS_HEADERS, "Cache-Control": caching, "ETag": etag}
    if etag_matches(request.scope, etag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def build_asset_error(error: AppError) -> Response:
    return build_uncached_json(render_error(error), error.status)


def build_uncached_json(body: Mapping[str, str | None], status: int) -> Response:
    headers = {**CORS_HEADERS, "Cache-Control": "no-store"}
    return JsonResponse(body, status_code=status, headers=headers)


def build_preflight_response(request: Request) -> Response:
    response = Response(status_code=204, headers={"Allow": METHODS})
    origin = read_header(request.scope, b"origin")
    if origin:
        response.raw_headers += build_cors_headers(request.scope, origin.encode("latin-1"), METHODS)
    return response
