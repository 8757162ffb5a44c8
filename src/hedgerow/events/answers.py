"""Whatever a query gives, as JSON: columns may hold what JSON has no word for."""

from typing import Any

import msgspec

from hedgerow.lib.jsonio import storable

_encoder = msgspec.json.Encoder(enc_hook=str)


def encoded(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except (TypeError, UnicodeEncodeError):  # a key that is no text, half a character
        return _encoder.encode(_plain(msgspec.to_builtins(value, enc_hook=str)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(storable(_key(name))): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return storable(value)


def _key(name: Any) -> Any:
    return name if isinstance(name, str) else _encoder.encode(_plain(name)).decode()
