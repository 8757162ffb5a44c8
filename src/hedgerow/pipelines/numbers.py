"""Whole numbers as the specification means them: 32 bits, and text that is one counts."""

from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.text import whole_number

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def checked_int32(value: Any, attr: str) -> int:
    if isinstance(value, str):
        value = whole_number(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid("A valid integer is required.", attr=attr)
    if value > INT32_MAX:
        raise too_large(attr)
    if value < INT32_MIN:
        raise Invalid(
            f"Ensure this value is greater than or equal to {INT32_MIN}.",
            attr=attr,
            code="min_value",
        )
    return value


def too_large(attr: str) -> Invalid:
    return Invalid(
        f"Ensure this value is less than or equal to {INT32_MAX}.", attr=attr, code="max_value"
    )
