"""Requests that were refused because a project or an address reached a limit, or because the
service is overloaded: counted for the metrics, and logged with the project."""

import re
import time
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import structlog

from hedgerow.errors import Unavailable
from hedgerow.http.server.errors import build_error_reply
from hedgerow.http.server.metrics import LabelledMetric
from hedgerow.http.server.response import Header, header_lines
from hedgerow.projects.model import ProjectId

LOG_INTERVAL_S = 60.0
# Each project adds time series. Projects above this limit share one.
MAX_LABELLED = 200
# Longer heads are not simple: known ones are kept.
MAX_SIMPLE_BYTES = 4096

# Pages of other sites may read it: what they requested is not examined before it is refused.
OVERLOADED = build_error_reply(
    Unavailable("The service has more requests than it can answer. Try again shortly."),
    (b"access-control-allow-origin", b"*"),
)

OVERLOADED_HEAD = OVERLOADED.head
CLOSING = b"connection: close\r\n\r\n"
# The headers that all responses have and their rendered bytes. The server makes a new list every
# second, because of the date.
_rendered_headers: tuple[object, bytes] = None, b""
# The same list, and whole refusals.
_rendered_refusals: tuple[object, tuple[bytes, bytes]] = None, (b"", b"")

_REQUEST_LINE = re.compile(rb"(?:GET|POST) (/[^ ?\r\n]*)(?:\?[^ \r\n]*)? HTTP/1\.1(?=\r\n)")
# Headers that decide where a request ends, and whether the connection stays open.
_FRAMING_HEADER = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|expect|upgrade)[ \t]*:[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)

_log = structlog.get_logger("hedgerow.limits")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleHead:
    """`request_bytes` is the size of head and body, `closes` is whether the client wants the
    connection to be closed."""

    raw: bytes
    path: str
    request_bytes: int
    closes: bool


class Refusals:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._logged_at_s: dict[tuple[str, str], float] = {}

    def count(self, limit: str, project_id: ProjectId | None, number: int = 1) -> None:
        """Count refused requests. Logs a limit and a project at most once a minute."""
        key = limit, "" if project_id is None else str(project_id)
        if key not in self._counts and len(self._counts) >= MAX_LABELLED:
            key = limit, "other"
        self._counts[key] += number
        now_s = time.monotonic()
        if now_s - self._logged_at_s.get(key, -LOG_INTERVAL_S) >= LOG_INTERVAL_S:
            self._logged_at_s[key] = now_s
            _log.warning(
                "requests refused by a limit",
                limit=limit,
                project_id=project_id,
                refused=self._counts[key],
            )

    def metric(self) -> LabelledMetric:
        return LabelledMetric(
            name="hedgerow_requests_refused_total",
            help="Requests that were refused because of a limit of a project or an address.",
            labels=("limit", "project"),
            values={key: float(count) for key, count in list(self._counts.items())},
        )


def find_simple_head(data: bytes) -> SimpleHead | None:
    """Return the head of a request if the bytes are exactly that request, and a plain one."""
    end = data.find(b"\r\n\r\n", 0, MAX_SIMPLE_BYTES)
    head = parse_simple_head(data[: end + 4]) if end > 0 else None
    return head if head is not None and len(data) == head.request_bytes else None


@lru_cache(maxsize=1024)
def parse_simple_head(head: bytes) -> SimpleHead | None:
    """Parse the head of a request, with the empty line at its end. Return None for all but the
    plainest requests. Clients repeat themselves, so that most heads are known."""
    line = _REQUEST_LINE.match(head)
    if line is None:
        return None
    body_bytes, closes = 0, False
    for name, value in _FRAMING_HEADER.findall(head, line.end()):
        name, value = name.lower(), value.strip().lower()
        if name == b"content-length" and value.isdigit() and not body_bytes:
            body_bytes = int(value[:20])
        elif name == b"connection" and value in (b"close", b"keep-alive"):
            closes = value == b"close"
        else:
            return None
    path = line[1].decode("latin-1")
    return SimpleHead(raw=head, path=path, request_bytes=len(head) + body_bytes, closes=closes)


def render_headers(headers: list[Header]) -> bytes:
    global _rendered_headers
    known, lines = _rendered_headers
    if headers is not known:
        lines = header_lines(headers)
        _rendered_headers = headers, lines
    return lines


def render_refusals(headers: list[Header]) -> tuple[bytes, bytes]:
    """Return a refusal that keeps its connection, and one that closes it."""
    global _rendered_refusals
    known, refusals = _rendered_refusals
    if headers is not known:
        head = OVERLOADED_HEAD + render_headers(headers)
        refusals = head + b"\r\n" + OVERLOADED.body, head + CLOSING + OVERLOADED.body
        _rendered_refusals = headers, refusals
    return refusals
