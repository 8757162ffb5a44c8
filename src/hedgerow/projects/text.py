"""Rules for text and other values that people send, wherever they come from."""

from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.text import why_unstorable


def checked_text(field: str, value: str, most: int) -> str:
    """The text without blanks around it, or Invalid naming the field."""
    text = value.strip()
    if not text:
        raise Invalid("This field may not be blank.", attr=field, code="blank")
    if unstorable := why_unstorable(text):
        code, detail = unstorable
        raise Invalid(detail, attr=field, code=code)
    if len(text) > most:
        raise Invalid(
            f"Ensure this field has no more than {most} characters.", attr=field, code="max_length"
        )
    return text


def check_storable(value: Any, attr: str) -> None:
    """Raise Invalid for the first text inside, keys included, that cannot be stored."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str) and (unstorable := why_unstorable(node)):
            code, detail = unstorable
            raise Invalid(detail, attr=attr, code=code)
        if isinstance(node, dict):
            waiting += [*node, *node.values()]
        elif isinstance(node, list):
            waiting += node
