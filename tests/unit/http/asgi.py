"""ASGI requests and responses without a server."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope


def http_scope(
    method: str = "GET",
    path: str = "/",
    *,
    query: bytes = b"",
    headers: Mapping[str, str] | None = None,
    client: tuple[str, int] | None = ("192.0.2.1", 50000),
    server: tuple[str, int | None] | None = ("127.0.0.1", 8000),
) -> Scope:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "scheme": "http",
        "headers": [
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in (headers or {}).items()
        ],
        "client": client,
        "server": server,
    }


def make_receive(*chunks: bytes) -> Receive:
    """Return a receive function with a body in these chunks, then a disconnect."""
    left = list(chunks) or [b""]

    async def receive() -> Message:
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


def make_request(scope: Scope | None = None, *chunks: bytes) -> Request:
    return Request(scope or http_scope(), make_receive(*chunks))


@dataclass(slots=True)
class AsgiResponse:
    """The response of an application. `starts` counts its response.start messages."""

    starts: int = 0
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.starts += 1
            self.status = message["status"]
            self.headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in message["headers"]
            }
        else:
            self.body += message.get("body", b"")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def send_request(app: ASGIApp, scope: Scope, *chunks: bytes) -> AsgiResponse:
    response = AsgiResponse()
    await app(scope, make_receive(*chunks), response.send)
    return response
