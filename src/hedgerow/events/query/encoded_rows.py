"""Rows of a query whose size a client has chosen, as JSON of a bounded size."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.events.query.result_json import encode_result
from hedgerow.events.store import QueryResult, ResultTooLarge

# A larger response would stall the event loop while it is copied.
MAX_ENCODED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """The first rows of a result as JSON, and whether there are more."""

    types: Sequence[str]
    rows: bytes
    has_more: bool


def encode_rows(result: QueryResult, limit: int | None) -> EncodedRows:
    has_more = limit is not None and len(result.rows) > limit
    rows = encode_bounded(result.rows[:limit] if has_more else result.rows)
    return EncodedRows(types=result.types, rows=rows, has_more=has_more)


def encode_bounded(value: Any) -> bytes:
    """Encode a value whose size a client has chosen. Raises ResultTooLarge."""
    return check_size(encode_result(value))


def check_size(encoded: bytes) -> bytes:
    if len(encoded) > MAX_ENCODED_BYTES:
        raise ResultTooLarge
    return encoded
