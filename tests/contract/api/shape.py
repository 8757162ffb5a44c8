"""Checks the common error format of responses."""

import json
import re
from collections.abc import Iterator
from typing import Any

# `a.b[0]`, but not the location of an object in a document.
_PATH = re.compile(r"[^\s.\[\]]+(?:\[\d+\]|\.[^\s.\[\]]+)+")
FIELDS = ["type", "code", "detail", "attr"]

# The error types allowed for each status, as in PostHog.
TYPES = {
    400: {"validation_error", "invalid_request"},
    401: {"authentication_error"},
    403: {"authentication_error"},
    404: {"invalid_request"},
    405: {"invalid_request"},
    406: {"invalid_request"},
    408: {"invalid_request"},
    409: {"invalid_request"},
    413: {"invalid_request"},
    415: {"invalid_request"},
    429: {"throttled_error"},
    431: {"invalid_request"},
    503: {"server_error"},
}


def find_format_errors(status: int, content_type: str | None, body: bytes) -> Iterator[str]:
    """Yield the deviations of an error response from the common format."""
    if status not in TYPES:
        yield f"{status} is not an error status of the API"
        return
    if content_type != "application/json":
        yield f"the content type is {content_type}"
        return
    error: Any = json.loads(body)
    if not isinstance(error, dict) or list(error) != FIELDS:
        yield f"the fields are not {FIELDS}: {error}"
        return
    if error["type"] not in TYPES[status]:
        yield f"{status} carries the type {error['type']!r}"
    for name in ("code", "detail"):
        if not isinstance(error[name], str) or not error[name]:
            yield f"{name} is {error[name]!r}"
    if not (error["attr"] is None or (isinstance(error["attr"], str) and error["attr"])):
        yield f"attr is {error['attr']!r}"
    elif error["attr"] and _PATH.fullmatch(error["attr"]):
        yield f"attr is not joined with __: {error['attr']!r}"
