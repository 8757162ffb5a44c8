"""JSON encoding of query results, which may contain values and keys that JSON lacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hedgerow.events.store import QueryResult, ResultTooLarge
from hedgerow.lib.jsonio import replace_unstorable

MAX_ENCODED_BYTES = 32 << 20

_encoder = msgspec.json.Encoder(enc_hook=str)


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


def encode_result(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except (TypeError, UnicodeEncodeError):  # a key that is not text, or a lone surrogate
        return _encoder.encode(_to_json_types(msgspec.to_builtins(value, enc_hook=str)))


def _to_json_types(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            str(replace_unstorable(_encode_key(name))): _to_json_types(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_to_json_types(each) for each in value]
    return replace_unstorable(value)


def _encode_key(name: Any) -> Any:
    return name if isinstance(name, str) else _encoder.encode(_to_json_types(name)).decode()
