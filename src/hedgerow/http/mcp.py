"""`/mcp`: the Model Context Protocol over HTTP. Tools call the API of this process with the key of
the request, so that scopes, limits and approvals hold for them as for any other client."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from hedgerow import __version__
from hedgerow.errors import NotAuthenticated
from hedgerow.http.auth.access import anywhere
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.response import JsonResponse
from hedgerow.http.server.trace import SCOPE_KEY
from hedgerow.mcp.api_calls import ApiCall, ApiRequest, ApiResponse
from hedgerow.mcp.protocol import METHOD_NOT_FOUND, VERSIONS, answer_message

# What a request inside of another takes over from it.
KEPT_SCOPE = ("asgi", "http_version", "scheme", "client", "server", SCOPE_KEY)
AUTHORIZATION = b"authorization"
ROUTING_HEADERS = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
STATUSES = {METHOD_NOT_FOUND: 404}


class McpEndpoints:
    tag = "Assistants"

    def __init__(self, find_app: Callable[[], ASGIApp]) -> None:
        self._find_app = find_app

    @endpoint(
        "POST",
        "/mcp",
        access=anywhere("", restricted_keys=True, is_personal=True),
        # The protocol describes itself: OpenAPI has no words for its messages.
        is_documented=False,
    )
    async def answer_assistant(self, call: Call) -> Response:
        """Answer a message of the Model Context Protocol without a session: `initialize`, `ping`,
        `tools/list` and `tools/call` of the revisions 2024-11-05 to 2025-11-25, and
        `server/discover`, `tools/list` and `tools/call` of 2026-07-28. Needs a personal API key as
        bearer token; each tool needs the scopes in its description."""
        key = read_header(call.request.scope, AUTHORIZATION)
        if not key:  # a page of another site could send the cookie of a person
            raise NotAuthenticated
        message = await call.raw_body()
        api = _build_api_call(self._find_app(), call.request.scope, key.encode("latin-1"))
        headers = _read_headers(call.request.scope)
        answer = await call.while_connected(answer_message(message, api, __version__, headers))
        if answer is None:
            return Response(status_code=202)
        code = answer["error"]["code"] if "error" in answer and headers is not None else None
        return JsonResponse(answer, status_code=200 if code is None else STATUSES.get(code, 400))


def _read_headers(scope: Scope) -> dict[str, str] | None:
    """Return the headers that repeat a part of the message, None if it has an earlier revision, or
    comes from `hedgerow mcp`, which sends none."""
    version = read_header(scope, ROUTING_HEADERS[0])
    if not version or version in VERSIONS:
        return None
    return {name.decode(): read_header(scope, name) or "" for name in ROUTING_HEADERS}


def _build_api_call(app: ASGIApp, outer: Scope, key: bytes) -> ApiCall:
    """Return a function that calls the application with the key of a request to it."""

    async def call(request: ApiRequest) -> ApiResponse:
        path, _, query = request.path.partition("?")
        scope: dict[str, Any] = {name: outer[name] for name in KEPT_SCOPE if name in outer} | {
            "type": "http",
            "method": request.method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (AUTHORIZATION, key),
                (b"content-type", b"application/json"),
                *((name, value) for name, value in outer["headers"] if name == b"host"),
            ],
        }
        return await _run(
            app, scope, b"" if request.body is None else msgspec.json.encode(request.body)
        )

    return call


async def _run(app: ASGIApp, scope: Scope, body: bytes) -> ApiResponse:
    status, parts = 0, list[bytes]()
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if incoming:
            return incoming.pop()
        # The client of the outer request is watched there, and its end cancels this.
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    content = b"".join(parts)
    return ApiResponse(status=status, body=msgspec.json.decode(content) if content else None)
