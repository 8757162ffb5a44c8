"""The web console: a page for all its addresses, and the files that the page loads.

The page is an application over the public API. It is the same for everyone and needs no key.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from html import escape

from starlette.responses import Response

from hedgerow.errors import NotFound
from hedgerow.http.call import PublicCall
from hedgerow.http.console.files import ENCODINGS, ConsoleFile, ConsoleFileCache
from hedgerow.http.endpoint import endpoint
from hedgerow.http.server.headers import read_encodings
from hedgerow.lib import jsonio

# Addresses that the application itself resolves. Those of projects are PostHog's, so that links to
# PostHog's pages work with another host.
PAGE_PATHS = (
    "/",
    "/login",
    "/setup",
    "/reset",
    "/signup/{invite}",
    # PostHog's older address of a shared dashboard. The page reads /shared/{token}.json.
    "/shared_dashboard/{token}",
    "/project/{rest:path}",
    "/settings/{rest:path}",
)
# The build writes it where a nonce belongs.
NONCE_PLACEHOLDER = "__NONCE__"
NONCE_BYTES = 18
# The build writes it where the page learns how people log in.
LOGIN_PLACEHOLDER = "__LOGIN__"
# Not 'self' for scripts: site apps and scripts of SDKs on this origin are written by others. The
# viewer of the API documentation writes HTML that it has cleaned, so that it has no trusted types.
# Forms are sent by scripts: without them a password must not end up in an address.
VIEWER_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; "
    "connect-src 'self'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
POLICY = f"{VIEWER_POLICY}; require-trusted-types-for 'script'"
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
FILE_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
MISSING_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hedgerow</title>
<style nonce="__NONCE__">
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 15vh auto }}
</style></head>
<body>
<h1>The web console is not built</h1>
<p>The service is running. Its API works: see its <a href="/api/docs/">documentation</a>.</p>
<p>{reason}</p>
</body></html>
"""
NOT_BUILT = (
    "This installation runs from a clone of the repository. <code>make console</code> builds the "
    "console; it needs access to the npm registry, and Node 20.19 or newer or access to PyPI. "
    "Then start the service again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginMethods:
    """How people can log in. The page reads it. `provider` is its name, "" without one."""

    password: bool
    reset: bool
    provider: str


class ConsoleEndpoints:
    """The page learns from the service how people can log in."""

    tag = "Console"

    def __init__(self, files: ConsoleFileCache, methods: LoginMethods) -> None:
        self._login = escape(jsonio.encode(methods).decode())
        self._files = files

    @endpoint("GET", *PAGE_PATHS, access=None, is_documented=False)
    async def show_page(self, call: PublicCall) -> Response:
        """Show the console. Its own router reads the address."""
        files = await self._files.load()
        page = files.shell or MISSING_PAGE.format(reason=NOT_BUILT)
        return respond_with_page(page.replace(LOGIN_PLACEHOLDER, self._login), POLICY)

    @endpoint("GET", "/console/{name}", access=None, is_documented=False)
    async def retrieve_file(self, call: PublicCall) -> Response:
        """Retrieve a file of the console. Its name contains a hash of its content."""
        files = await self._files.load()
        found = files.files.get(call.path_param("name"))
        if found is None:
            raise NotFound("There is no such file of the console. Reload the page.")
        encoding = select_encoding(found, read_encodings(call.request.scope))
        return Response(
            found.compressed[encoding] if encoding else found.content,
            media_type=found.media_type,
            headers=FILE_HEADERS | ({"Content-Encoding": encoding} if encoding else {}),
        )


def respond_with_page(page: str, policy: str) -> Response:
    """Respond with a page whose scripts and styles have a nonce of their own."""
    nonce = secrets.token_urlsafe(NONCE_BYTES)
    return Response(
        page.replace(NONCE_PLACEHOLDER, escape(nonce)),
        media_type="text/html",
        headers=PAGE_HEADERS | {"Content-Security-Policy": policy.format(nonce=nonce)},
    )


def select_encoding(file: ConsoleFile, accepted: Collection[str]) -> str:
    """Return the best encoding that the client accepts, "" for none."""
    return next((each for each in ENCODINGS if each in accepted and each in file.compressed), "")
