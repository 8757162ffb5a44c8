"""Text rules: characters that databases accept, whole numbers, text in error messages."""

import json
import re
from typing import Any

TRUNCATED_CHARS = 100
MAX_VALUE_CHARS = 100

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# The steps of a path, and a path with at least one of them.
_PATH_STEP = re.compile(r"\[(\d+)\]|\.")
_PATH = re.compile(r"[^\s.\[\]]+(?:\[\d+\]|\.[^\s.\[\]]+)+")
_WHOLE = re.compile(r"\s{0,9}-?[0-9]{1,25}\s{0,9}", re.ASCII)
# The conversion of a text with ten thousand digits takes 25 ms.
MAX_NUMBER_CHARS = 400
_NUMBER = re.compile(r"[+-]?(\d{1,400}\.?\d{0,400}|\.\d{1,400})([eE][+-]?\d{1,5})?", re.ASCII)


def explain_unstorable(text: str) -> tuple[str, str] | None:
    """Return an error code and a message if the text cannot be stored, otherwise None."""
    if text.isascii() and "\x00" not in text:
        return None
    if "\x00" in text:
        return "null_characters_not_allowed", "Null characters are not allowed."
    if found := _SURROGATE.search(text):
        return (
            "surrogate_characters_not_allowed",
            f"Surrogate characters are not allowed: U+{ord(found[0]):04X}.",
        )
    return None


def replace_unstorable_characters(text: str) -> str:
    """Replace each character that cannot be stored with U+FFFD."""
    if text.isascii() and "\x00" not in text:  # several times as fast
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def is_plain_email(text: str) -> bool:
    """Whether a text is an email address and nothing else: no name, no quotes, no white space."""
    local, at, domain = text.rpartition("@")
    is_whole = bool(local and at and domain and "@" not in local)
    return is_whole and text.isprintable() and not any(each in ' <>()[]",;:\\' for each in text)


def parse_whole_number(text: str) -> int | None:
    """Parse a whole number, None for any other text. Never raises, however long the text is."""
    return int(text) if _WHOLE.fullmatch(text) else None


def parse_number(value: Any) -> float | None:
    """Return a number, or text that is one, as a float; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str) and len(value) <= MAX_NUMBER_CHARS and _NUMBER.fullmatch(value):
            return float(value)
    except OverflowError:
        return None
    return None


def truncate(value: Any) -> str:
    """Truncate a client's value for use in an error message."""
    return str(value)[:TRUNCATED_CHARS]


def format_value(value: Any) -> str:
    """Return a value as JSON, cut to a readable length."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def escape_control_characters(text: str) -> str:
    """Write line breaks and other control characters as escape sequences."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


ERROR_MAX_CHARS = 500


def describe_error(error: BaseException) -> str:
    """Return the type and the first line of an error, to be stored and shown."""
    kind = type(error).__name__
    try:
        # The driver's own message, without the statement and its values.
        text = str(getattr(error, "orig", None) or error)
    except Exception:  # noqa: BLE001 - __str__ of a package's error may raise anything
        return kind
    first = escape_control_characters(
        replace_unstorable_characters(text.strip().partition("\n")[0][:ERROR_MAX_CHARS])
    )
    return f"{kind}: {first}" if first else kind


def format_path(place: str) -> str:
    """Return the path of a field as PostHog's errors have it: `filters__groups__0__key` for
    `filters.groups[0].key`. Anything else, such as a location in a document, remains as it is."""
    if not _PATH.fullmatch(place):
        return place
    return _PATH_STEP.sub(lambda step: f"__{step[1] or ''}", place)
