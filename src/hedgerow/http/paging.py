"""Pagination by `limit` and `offset`, with `{count, next, previous, results}` as the response."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from starlette.requests import Request

from hedgerow.http.parameters import Parameter, parse_positive
from hedgerow.http.server.proxies import Origins
from hedgerow.http.server.trace import contains_secret_key

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
# Larger than any table, and still within the integer range of every database.
MAX_OFFSET = 2**62

T = TypeVar("T")

PAGE_PARAMETERS = (
    Parameter(
        "limit",
        f"Results per page. Default: {DEFAULT_LIMIT}, maximum: {MAX_LIMIT}.",
        {"type": "integer"},
    ),
    Parameter("offset", "Number of results to skip.", {"type": "integer"}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWindow:
    """The requested part of a list."""

    limit: int
    offset: int

    def of(self, items: Sequence[T]) -> Sequence[T]:
        return items[self.offset : self.offset + self.limit]


class Page(msgspec.Struct, Generic[T]):
    count: int
    next: str | None
    previous: str | None
    results: Sequence[T]


def parse_window(limit: str | None = None, offset: str | None = None) -> PageWindow:
    """Invalid values fall back to the default, as in PostHog."""
    return PageWindow(
        limit=min(parse_positive(limit) or DEFAULT_LIMIT, MAX_LIMIT),
        offset=min(parse_positive(offset) or 0, MAX_OFFSET),
    )


def build_page(
    request: Request, origins: Origins, window: PageWindow, count: int, results: Sequence[T]
) -> Page[T]:
    after, before = window.offset + window.limit, window.offset - window.limit
    return Page(
        count=count,
        next=_link(request, origins, window.limit, after) if after < count else None,
        previous=_link(request, origins, window.limit, before) if window.offset else None,
        results=results,
    )


def _link(request: Request, origins: Origins, limit: int, offset: int) -> str:
    changes: dict[str, Any] = {"limit": limit, "offset": offset if offset > 0 else None}
    return build_link(request, origins, changes)


def _is_secret(name: str, value: str) -> bool:
    return name == "personal_api_key" or contains_secret_key(value)


def build_link(request: Request, origins: Origins, changes: dict[str, Any]) -> str:
    """The URL of the request with some parameters replaced (None removes one), sorted by name.
    Without keys: a link ends up in logs."""
    query = request.scope["query_string"].decode("latin-1")
    others = [
        pair
        for pair in parse_qsl(query, keep_blank_values=True, max_num_fields=None)
        if pair[0] not in changes and not _is_secret(*pair)
    ]
    pairs = others + [(name, str(value)) for name, value in changes.items() if value is not None]
    address = origins.base_url(request.scope) + quote(request.scope["path"], safe="/@:+")
    return f"{address}?{urlencode(sorted(pairs, key=lambda pair: pair[0]))}"
