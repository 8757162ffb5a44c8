"""Text that some database would refuse: the one rule of what can be stored anywhere."""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def why_unstorable(text: str) -> tuple[str, str] | None:
    """A code and a sentence for text that cannot be stored, None for all other."""
    if "\x00" in text:
        return "null_characters_not_allowed", "Null characters are not allowed."
    if found := _SURROGATE.search(text):
        return (
            "surrogate_characters_not_allowed",
            f"Surrogate characters are not allowed: U+{ord(found[0]):04X}.",
        )
    return None
