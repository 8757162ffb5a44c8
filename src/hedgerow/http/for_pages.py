"""What pages of any site may load: with the headers that browsers ask for, and not sent again to a
page that has it.
"""

import hashlib
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from hedgerow.errors import AppError
from hedgerow.http.errors import error_body
from hedgerow.http.origin import cors, header
from hedgerow.http.reply import JsonResponse
from hedgerow.http.request_headers import has_answer

JAVASCRIPT = "application/javascript; charset=UTF-8"
JSON = "application/json"
# Scripts are loaded with crossorigin="anonymous": without the first, browsers refuse them.
ANYWHERE = {"Access-Control-Allow-Origin": "*", "X-Content-Type-Options": "nosniff"}
METHODS = "GET, HEAD, OPTIONS"
FOR_EVER = "public, max-age=31536000, immutable"
ASK_FIRST = "public, no-cache"


def hash_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def for_script(json: str) -> str:
    """JSON as it may stand in a script: two characters end a line there, and "</" may end it."""
    return json.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("</", "<\\/")


def for_pages(request: Request, content: bytes, media_type: str, caching: str) -> Response:
    """The content, or 304 for who has it."""
    tag = f'"{hash_of(content)}"'
    headers = {**ANYWHERE, "Cache-Control": caching, "ETag": tag}
    if has_answer(request.scope, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def refused(error: AppError) -> Response:
    """Also an error can be read by a page. It is not kept."""
    return told(error_body(error), error.status)


def told(body: Mapping[str, str | None], status: int) -> Response:
    return JsonResponse(body, status_code=status, headers={**ANYWHERE, "Cache-Control": "no-store"})


def preflight(request: Request) -> Response:
    """What a browser asks before a request that it does not take for harmless."""
    answer = Response(status_code=204, headers={"Allow": METHODS})
    origin = header(request.scope, b"origin")
    if origin:
        answer.raw_headers += cors(request.scope, origin.encode("latin-1"), METHODS)
    return answer
