"""Events as any database can keep them: their text made whole, their size and depth bounded."""

import re
from typing import Any

from hedgerow.errors import Invalid, TooLarge
from hedgerow.kit.jsonio import MAX_DIGITS, encode

MAX_EVENT_BYTES = 1_000_000
REPLACED = "replaced_characters"

# NUL, and halves of surrogate pairs.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_BITS_OF_A_DIGIT = 3.32


def storable_text(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def storable(event: dict[str, Any]) -> dict[str, Any]:
    """The event itself if it can be stored as it is, else a mended copy. Writing it once as JSON
    tells all that there is to ask: its size, its depth, and whether each text can be stored."""
    try:
        written = encode(event)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        return _mended(event)
    if len(written) > MAX_EVENT_BYTES:
        raise _too_large(len(written))
    if b"\\u0000" in written:
        return _mended(event)
    return event


def _mended(event: dict[str, Any]) -> dict[str, Any]:
    mended: dict[str, Any] = {}
    waiting: list[tuple[Any, Any]] = [(event, mended)]
    while waiting:
        source, copy = waiting.pop()
        if isinstance(source, dict):
            for key, value in source.items():
                copy[storable_text(key)] = _mended_value(value, waiting)
        else:
            copy.extend(_mended_value(value, waiting) for value in source)
    try:
        size = len(encode(mended))
    except RecursionError:
        raise _too_deep() from None
    if size > MAX_EVENT_BYTES:
        raise _too_large(size)
    return mended


def _mended_value(value: Any, waiting: list[tuple[Any, Any]]) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict | list):
        copy: dict[str, Any] | list[Any] = {} if isinstance(value, dict) else []
        waiting.append((value, copy))
        return copy
    if isinstance(value, int) and value.bit_length() > MAX_DIGITS * _BITS_OF_A_DIGIT:
        return None
    return value


def _too_large(size: int) -> TooLarge:
    return TooLarge(
        f"The event has {size} bytes; at most {MAX_EVENT_BYTES} are taken.", code="event_too_large"
    )


def _too_deep() -> Invalid:
    return Invalid("The event is nested too deep.", code="event_too_deep")
