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
from hedgerow.mcp.protocol import answer_message

# What a request inside of another takes over from it.
KEPT_SCOPE = ("asgi", "http_version", "scheme", "client", "server", SCOPE_KEY)
AUTHORIZATION = b"authorization"


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
        """Answer a message of the Model Context Protocol, revisions 2024-11-05 to 2025-11-25,
        without a session: `initialize`, `ping`, `tools/list` and `tools/call`. Needs a personal API
        key as bearer token; each tool needs the scopes in its description."""
        key = read_header(call.request.scope, AUTHORIZATION)
        if not key:  # a page of another site could send the cookie of a person
            raise NotAuthenticated
        message = await call.raw_body()
        api = _build_api_call(self._find_app(), call.request.scope, key.encode("latin-1"))
        answer = await call.while_connected(answer_message(message, api, __version__))
        return Response(status_code=202) if answer is None else JsonResponse(answer)


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
