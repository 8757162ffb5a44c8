"""What is kept of a computed insight, and of a failed computation, as bytes and text."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hedgerow.errors import AppError, Invalid, Throttled, Unavailable
from hedgerow.events.query.result_json import encode_result as encode_json
from hedgerow.lib import jsonio
from hedgerow.queries.model import QueryResponse

MAX_RESULT_BYTES = 4 << 20
RETRY_AFTER_S = 5


class KeptResult(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of the response to a query. `results` is encoded JSON."""

    results: msgspec.Raw
    columns: Sequence[str] = ()
    types: Sequence[Any] = ()
    hogql: str = ""
    has_more: bool = False
    resolved_date_range: Mapping[str, str] | None = None
    timezone: str

    @property
    def size(self) -> int:
        return len(memoryview(self.results))


_decoder = msgspec.json.Decoder(KeptResult)


def encode_response(response: QueryResponse) -> bytes:
    """Encode the response to a query. Raises Invalid for one that is too large to keep."""
    if response.size > MAX_RESULT_BYTES:
        detail = (
            f"The result of an insight has at most {MAX_RESULT_BYTES >> 20} MiB. Use fewer "
            "columns, rows, intervals or values of the breakdown."
        )
        raise Invalid(detail, attr="query", code="query_limit_exceeded")
    dates = response.resolved_date_range
    kept = KeptResult(
        results=response.results or msgspec.Raw(b"null"),
        columns=response.columns,
        types=response.types,
        hogql=response.hogql,
        has_more=response.has_more,
        resolved_date_range=None if dates is msgspec.UNSET else dates,
        timezone=response.timezone,
    )
    return zlib.compress(encode_json(kept), 1)


def decode_result(compressed: bytes) -> KeptResult:
    return _decoder.decode(zlib.decompress(compressed))


def encode_error(error: AppError) -> str:
    return jsonio.encode([error.status, error.code, error.detail, error.attr]).decode()


def decode_error(text: str) -> AppError:
    status, code, detail, attr = jsonio.parse(text.encode())
    if status == Throttled.status:
        return Throttled(RETRY_AFTER_S)
    if status == Unavailable.status:
        return Unavailable(detail, retry_after_s=RETRY_AFTER_S)
    return Invalid(detail, attr=attr, code=code)
