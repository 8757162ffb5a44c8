"""Make an event storable: replace invalid characters, limit size and depth."""

from typing import Any

from hedgerow.errors import Invalid, TooLarge
from hedgerow.lib.jsonio import MAX_DEPTH, MAX_DIGITS, encode, is_deeper_than
from hedgerow.lib.text import replace_unstorable_characters

MAX_EVENT_BYTES = 1_000_000

_BITS_PER_DIGIT = 3.32


def sanitize_event(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event itself if it can be stored unchanged, otherwise a sanitized copy.

    Encoding the event once answers every question: size, depth, and whether all text is valid.
    """
    try:
        encoded = _encode_within_limits(event)
    except ValueError:
        encoded = b""
    if encoded and b"\\u0000" not in encoded:
        return event
    sanitized = _copy_sanitized(event)
    return event if _encode_within_limits(sanitized) == encoded else sanitized


def _encode_within_limits(event: dict[str, Any]) -> bytes:
    try:
        encoded = encode(event)
    except RecursionError:
        raise _too_deep() from None
    # Counting brackets is cheap and rules out deep nesting for most events.
    if encoded.count(b"{") + encoded.count(b"[") > MAX_DEPTH and is_deeper_than(event, MAX_DEPTH):
        raise _too_deep()
    if len(encoded) > MAX_EVENT_BYTES:
        raise TooLarge(
            f"The event has {len(encoded)} bytes. The limit is {MAX_EVENT_BYTES} bytes.",
            code="event_too_large",
        )
    return encoded


def _too_deep() -> Invalid:
    detail = f"The event is nested deeper than {MAX_DEPTH} levels."
    return Invalid(detail, code="event_too_deep")


def _copy_sanitized(event: dict[str, Any]) -> dict[str, Any]:
    sanitized: dict[str, Any] = {}
    pending: list[tuple[Any, Any]] = [(event, sanitized)]
    while pending:
        source, copy = pending.pop()
        if isinstance(source, dict):
            for key, value in source.items():
                copy[replace_unstorable_characters(key)] = _sanitize_value(value, pending)
        else:
            copy.extend(_sanitize_value(value, pending) for value in source)
    return sanitized


def _sanitize_value(value: Any, pending: list[tuple[Any, Any]]) -> Any:
    if isinstance(value, str):
        return replace_unstorable_characters(value)
    if isinstance(value, dict | list):
        copy: dict[str, Any] | list[Any] = {} if isinstance(value, dict) else []
        pending.append((value, copy))
        return copy
    if isinstance(value, int) and value.bit_length() > MAX_DIGITS * _BITS_PER_DIGIT:
        return None
    return value
