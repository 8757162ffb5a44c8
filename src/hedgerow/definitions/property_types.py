"""The type of a property, from its name and a value. Pure.

Evidence: detect_property_type in PostHog's rust/property-defs-rs/src/types.rs. The first type that
a property is seen with stays: a later value of another type does not change it.
"""

import re
from datetime import datetime, timedelta
from typing import Any

from hedgerow.definitions.model import PropertyValueType

_TEXT_PREFIXES = ("utm_", "$feature/", "$feature_flag_response", "$survey_response")
# A number below such a name is a time, if it is a recent or future one in seconds.
_TIME_WORDS = ("time", "date", "_at", "-at", "createdat", "updatedat")
_RECENT = timedelta(days=182)
_DATE_CHARS = 100
_DATE = re.compile(
    r"(?:\d{4}[/-][01]\d[/-][0-3]\d|[0-3]\d[/-][0-3]\d[/-]\d{4})"
    r"(?:[ T][0-2]\d:[0-5]\d(?::[0-6]\d)?(?:\.\d+)?\s?(?:Z|[+-]\d{2}:?(?:\d{2})?)?)?",
    re.ASCII | re.IGNORECASE,
)


def detect_property_type(name: str, value: Any, now: datetime) -> PropertyValueType | None:
    """Return None for null, lists and objects. A number as text is text."""
    if name.lower().startswith(_TEXT_PREFIXES):
        return PropertyValueType.STRING
    if isinstance(value, bool):
        return PropertyValueType.BOOLEAN
    if isinstance(value, str):
        return _detect_text_type(value)
    if isinstance(value, int | float):
        return (
            PropertyValueType.DATETIME if _is_time(name, value, now) else PropertyValueType.NUMERIC
        )
    return None


def _detect_text_type(value: str) -> PropertyValueType:
    if len(value) > _DATE_CHARS:
        return PropertyValueType.STRING
    text = value.strip()
    if text.lower() in ("true", "false"):
        return PropertyValueType.BOOLEAN
    return PropertyValueType.DATETIME if _DATE.fullmatch(text) else PropertyValueType.STRING


def _is_time(name: str, value: float, now: datetime) -> bool:
    lowered = name.lower()
    return value >= (now - _RECENT).timestamp() and any(word in lowered for word in _TIME_WORDS)
