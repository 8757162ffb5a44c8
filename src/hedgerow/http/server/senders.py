"""Who sends a request, found in its bytes before they are parsed: senders take turns in the queues.

What it finds decides only whose turn it is. A wrong hint changes no response.
"""

import re
from collections.abc import Callable

from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.request_queues import Sender
from hedgerow.projects.model import ProjectId

# Where a token is: in the URL, at the beginning of the body, or at its end.
HEAD_BYTES = 2048
TAIL_BYTES = 256
# An event may have properties of the same name.
MAX_CANDIDATES = 4
# All requests with tokens of no project count as one sender.
UNKNOWN = "unknown project"

# In JSON, in a form or in a URL. Two patterns, because each is found by its first letters.
_TOKENS = tuple(
    re.compile(name + rb"""["']?\s?[:=]\s?["']?([^"'\\&\s]{1,100})""")
    for name in (b"api_key", b"token")
)
_FORWARDED_FOR = re.compile(rb"\r\nx-forwarded-for[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)


class Senders:
    """`find_project` returns the project of a token, None if there is none."""

    def __init__(self, origins: Origins, find_project: Callable[[str], ProjectId | None]) -> None:
        self._origins = origins
        self._find_project = find_project

    def find(self, peer: str, data: bytes) -> tuple[Sender, bytes]:
        """Return the project of a request, or the address of its client if no token is visible, and
        the token. `data` are the first bytes of the request, `peer` is the other end of the
        connection."""
        tokens = _search(data)
        for token in tokens:
            project_id = self._find_project(token.decode("latin-1"))
            if project_id is not None:
                return project_id, token
        return (UNKNOWN if tokens else self._find_client(peer, data)), b""

    def _find_client(self, peer: str, data: bytes) -> Sender:
        chain = _FORWARDED_FOR.search(data, 0, HEAD_BYTES) if self._origins.is_proxy(peer) else None
        forwarded_for = chain[1].decode("latin-1") if chain is not None else ""
        return self._origins.find_client(peer, forwarded_for).group


def _search(data: bytes) -> list[bytes]:
    """Return possible tokens."""
    for pattern in _TOKENS:
        if found := pattern.findall(data, 0, HEAD_BYTES):
            return found[:MAX_CANDIDATES]
        if len(data) > HEAD_BYTES and (found := pattern.findall(data, len(data) - TAIL_BYTES)):
            return found[-MAX_CANDIDATES:]
    return []
