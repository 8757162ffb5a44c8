"""JSON encoding of query results, which may contain values and keys that JSON lacks."""

from typing import Any

import msgspec

from hedgerow.lib.jsonio import replace_unstorable

_encoder = msgspec.json.Encoder(enc_hook=str)


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
