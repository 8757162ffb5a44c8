"""Events as any database can keep them: their text made whole, their size and depth bounded."""

from typing import Any

from hedgerow.errors import Invalid, TooLarge
from hedgerow.lib.jsonio import MAX_DEPTH, MAX_DIGITS, encode, is_deeper
from hedgerow.lib.text import storable_text

MAX_EVENT_BYTES = 1_000_000

_BITS_OF_A_DIGIT = 3.32


def storable(event: dict[str, Any]) -> dict[str, Any]:
    """The event itself if it can be stored as it is, else a mended copy. Writing it once as JSON
    tells all that there is to ask: its size, its depth, and whether each text can be stored."""
    try:
        written = _written(event)
    except ValueError:
        written = b""
    if written and b"\\u0000" not in written:
        return event
    mended = _mended(event)
    return event if _written(mended) == written else mended


def _written(event: dict[str, Any]) -> bytes:
    try:
        written = encode(event)
    except RecursionError:
        raise _too_deep() from None
    # Few have so many brackets; counting them is next to free.
    if written.count(b"{") + written.count(b"[") > MAX_DEPTH and is_deeper(event, MAX_DEPTH):
        raise _too_deep()
    if len(written) > MAX_EVENT_BYTES:
        raise TooLarge(
            f"The event has {len(written)} bytes; at most {MAX_EVENT_BYTES} are taken.",
            code="event_too_large",
        )
    return written


def _too_deep() -> Invalid:
    detail = f"The event is nested deeper than {MAX_DEPTH} levels."
    return Invalid(detail, code="event_too_deep")


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
