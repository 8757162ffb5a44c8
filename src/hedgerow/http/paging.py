"""Pages of a list: `limit` and `offset` in, `{count, next, previous, results}` with absolute
links out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from starlette.requests import Request

from hedgerow.http.describe import Parameter
from hedgerow.http.origin import Origins

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
# Past any table, and still a number that every database takes.
MAX_OFFSET = 2**62

T = TypeVar("T")

WINDOW = (
    Parameter(
        "limit",
        f"Results per page: {DEFAULT_LIMIT} unless told, {MAX_LIMIT} at most.",
        {"type": "integer"},
    ),
    Parameter("offset", "Initial index from which to return the results.", {"type": "integer"}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which part of a list is asked for."""

    limit: int
    offset: int

    def of(self, items: Sequence[T]) -> Sequence[T]:
        return items[self.offset : self.offset + self.limit]


class Page(msgspec.Struct, Generic[T]):
    count: int
    next: str | None
    previous: str | None
    results: Sequence[T]


def window(limit: str | None = None, offset: str | None = None) -> Window:
    """Bad values never fail: they mean the default, as in PostHog."""
    return Window(
        limit=min(positive(limit) or DEFAULT_LIMIT, MAX_LIMIT),
        offset=min(positive(offset) or 0, MAX_OFFSET),
    )


def positive(text: str | None) -> int | None:
    """A whole number above zero, or None for anything else. Never fails, however long the text."""
    text = (text or "").strip()
    return int(text[:30]) or None if text.isascii() and text.isdecimal() else None


def page(
    request: Request, origins: Origins, asked: Window, count: int, results: Sequence[T]
) -> Page[T]:
    after, before = asked.offset + asked.limit, asked.offset - asked.limit
    return Page(
        count=count,
        next=_link(request, origins, asked.limit, after) if after < count else None,
        previous=_link(request, origins, asked.limit, before) if asked.offset else None,
        results=results,
    )


def _link(request: Request, origins: Origins, limit: int, offset: int) -> str:
    changes: dict[str, Any] = {"limit": limit, "offset": offset if offset > 0 else None}
    return link_with(request, origins, changes)


def link_with(request: Request, origins: Origins, changes: dict[str, Any]) -> str:
    """The request's own address with some parameters replaced (None drops one), sorted by name."""
    query = request.scope["query_string"].decode("latin-1")
    kept = [
        pair
        for pair in parse_qsl(query, keep_blank_values=True, max_num_fields=None)
        if pair[0] not in changes
    ]
    pairs = kept + [(name, str(value)) for name, value in changes.items() if value is not None]
    address = origins.base_url(request.scope) + quote(request.scope["path"], safe="/@:+")
    return f"{address}?{urlencode(sorted(pairs, key=lambda pair: pair[0]))}"
