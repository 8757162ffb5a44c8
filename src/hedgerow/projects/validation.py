"""Validation of text, dates and documents that clients send."""

from datetime import datetime, tzinfo
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.lib.dates import parse_query_date
from hedgerow.lib.shape import AnyShape, find_unknown_fields
from hedgerow.lib.text import explain_unstorable, truncate


def validate_text(field: str, value: str, max_chars: int) -> str:
    """Return the text without surrounding whitespace. Raises Invalid with the name of the field."""
    text = value.strip()
    if not text:
        raise Invalid("This field may not be blank.", attr=field, code="blank")
    if problem := explain_unstorable(text):
        code, detail = problem
        raise Invalid(detail, attr=field, code=code)
    if len(text) > max_chars:
        raise Invalid(
            f"Ensure this field has no more than {max_chars} characters.",
            attr=field,
            code="max_length",
        )
    return text


def check_storable(value: Any, attr: str) -> None:
    """Raise Invalid for the first text in the value, keys included, that cannot be stored."""
    if jsonio.is_storable(value):
        return
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, str) and (problem := explain_unstorable(node)):
            code, detail = problem
            raise Invalid(detail, attr=attr, code=code)
        if isinstance(node, dict):
            pending += [*node, *node.values()]
        elif isinstance(node, list):
            pending += node


def check_known_fields(value: Any, shape: AnyShape, place: str) -> None:
    """Raise Invalid for the first field that the shape does not have. `place` is the path of the
    value, "" for a whole body."""
    for found in find_unknown_fields(value, shape, place):
        raise Invalid(found.detail, attr=found.path or None, code="unknown_field")


def parse_date_parameter(text: str, now: datetime, zone: tzinfo, attr: str) -> datetime:
    """Parse a date with `parse_query_date`. Raises Invalid with the name of the parameter."""
    try:
        return parse_query_date(text, now, zone)
    except ValueError:
        detail = (
            f'"{truncate(text)}" is not a date. Expected a date such as 2026-01-31, '
            "2026-01-31T12:00:00Z, -7d or -1mStart."
        )
        raise Invalid(detail, attr=attr, code="invalid_date") from None
