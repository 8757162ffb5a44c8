"""What text can be stored anywhere, what text is a whole number, and how much of one is shown."""

import re
from typing import Any

SHOWN_CHARS = 100

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_WHOLE = re.compile(r"\s{0,9}-?[0-9]{1,25}\s{0,9}", re.ASCII)


def why_unstorable(text: str) -> tuple[str, str] | None:
    """A code and a sentence for text that cannot be stored, None for all other."""
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


def storable_text(text: str) -> str:
    """The text with U+FFFD for each character that cannot be stored."""
    return _UNSTORABLE.sub("\ufffd", text)


def whole_number(text: str) -> int | None:
    """The number that the text is, None for any other text. Never fails, however long it is."""
    return int(text) if _WHOLE.fullmatch(text) else None


def cut_short(value: Any) -> str:
    """What somebody sent, as much of it as a message may repeat."""
    return str(value)[:SHOWN_CHARS]


def on_one_line(text: str) -> str:
    """The text with line breaks and other control characters written out."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
