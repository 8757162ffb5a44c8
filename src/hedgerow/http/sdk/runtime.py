"""Where the caller of a request for flags runs: in a client or on a server."""

from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

from hedgerow.flags.model import Runtime
from hedgerow.http.server.headers import read_header

# User agents of server-side SDKs.
SERVER_SDKS = (
    "posthog-python",
    "posthog-node",
    "posthog-ruby",
    "posthog-php",
    "posthog-go",
    "posthog-java",
    "posthog-dotnet",
    "posthog-elixir",
    "posthog-server",
    "posthog-rs",
)
SERVER_AGENTS = (*SERVER_SDKS, "python-requests", "curl")
CLIENT_AGENTS = (
    "posthog-android",
    "posthog-ios",
    "posthog-react-native",
    "posthog-flutter",
    "mozilla/",
)


def detect_runtime(body: Mapping[str, Any], scope: Scope) -> Runtime | None:
    """Return where the SDK runs, by its own field or by its headers; None if neither tells."""
    declared = body.get("evaluation_runtime")
    if declared in ("client", "server", "all"):
        return Runtime(declared)
    agent = b""
    for name, value in scope["headers"]:
        if name == b"user-agent":
            agent = value
        elif name in (b"origin", b"referer", b"sec-fetch-mode"):
            return Runtime.CLIENT
    text = agent[:200].decode("latin-1").lower()
    if text.startswith(SERVER_AGENTS):
        return Runtime.SERVER
    return Runtime.CLIENT if text.startswith(CLIENT_AGENTS) else None


def is_server_sdk(scope: Scope) -> bool:
    return read_header(scope, b"user-agent").lower().startswith(SERVER_SDKS)
