"""The type of a property follows from its name and its value."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hedgerow.definitions.property_types import detect_property_type

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("a", 1, "Numeric"),
        ("a", 1.5, "Numeric"),
        ("a", 10**400, "Numeric"),
        ("a", "1.5", "String"),
        ("a", "", "String"),
        ("a", True, "Boolean"),
        ("a", " TRUE ", "Boolean"),
        ("a", "2026-01-31", "DateTime"),
        ("a", "31/01/2026", "DateTime"),
        ("a", "2026-01-31 12:00:00", "DateTime"),
        ("a", "2026-01-31T12:00:00.123+02:00", "DateTime"),
        ("a", "2026-01-31 is a date", "String"),
        ("a", "9999-99-99", "String"),
        ("created_at", 1772323200, "DateTime"),
        ("created_at", 1772323200123, "DateTime"),
        ("created_at", 12, "Numeric"),
        ("price", 1772323200, "Numeric"),
        ("utm_source", 5, "String"),
        ("$feature/beta", True, "String"),
        ("a", None, None),
        ("a", [1], None),
        ("a", {"b": 1}, None),
    ],
)
def test_type_is_detected(name: str, value: Any, expected: str | None) -> None:
    assert detect_property_type(name, value, NOW) == expected
