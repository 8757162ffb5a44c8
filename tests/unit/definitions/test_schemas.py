"""Schemas of events: what is checked, and which schemas are refused."""

from typing import Any

import pytest

from hedgerow.definitions.schemas import MAX_PATTERNS, check_schema, find_violation
from hedgerow.errors import Invalid
from hedgerow.lib import jsonio


def violation(schema: dict[str, Any], properties: dict[str, Any]) -> str | None:
    check_schema(schema)
    return find_violation(jsonio.encode(schema).decode(), properties)


def test_properties_of_sdks_count_only_if_the_schema_names_them() -> None:
    closed: dict[str, Any] = {"additionalProperties": False, "maxProperties": 1}
    assert violation(closed, {"$lib": "web", "$set": {}}) is None
    assert violation(closed, {"own": 1}) is not None
    named = {"properties": {"$lib": {"const": "web"}}}
    assert violation(named, {"$lib": "web"}) is None
    assert violation(named, {"$lib": "ios"}) == '$lib: "web" was expected'
    assert violation({"required": ["$lib"]}, {"$lib": 1}) is None


def test_violation_names_the_path_and_is_short() -> None:
    schema = {"properties": {"items": {"items": {"type": "number"}}}}
    assert violation(schema, {"items": [1, "x"]}) == 'items.1: "x" is not of type "number"'
    assert len(violation(schema, {"items": ["x" * 10_000]}) or "") == 300


def test_references_and_formats_are_followed() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"mail": {"$ref": "#/$defs/mail"}, "other": {"$ref": "#/$defs/mail"}},
        "$defs": {"mail": {"format": "email"}},
    }
    assert violation(schema, {"mail": "a@example.com"}) is None
    assert violation(schema, {"other": "a"}) == 'other: "a" is not a "email"'


def test_patterns_run_in_linear_time() -> None:
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    assert violation(schema, {"a": "a" * 100_000}) is None
    assert violation(schema, {"a": "a" * 100_000 + "!"}) is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "other.json"},
        {"$ref": "#"},
        {"$ref": 5},
        {"$ref": "#/$defs/missing"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$id": "https://example.com/"},
        {"$dynamicRef": "#a"},
        {"$schema": "https://example.com/own-schema"},
        {"unevaluatedProperties": False},
        {"properties": {"a": 5}},
        {"properties": 5},
        {"allOf": {}},
        {"pattern": "["},
        {"pattern": "(a{1,1000}){1,1000}"},
        {"patternProperties": {f"a{number}": {} for number in range(MAX_PATTERNS + 1)}},
        {"description": "\ud800"},
        {"description": "\0"},
        {"description": "x" * 40_000},
    ],
)
def test_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        check_schema(schema)
    assert refused.value.attr == "schema"


def test_deep_schema_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"not": deep}
    with pytest.raises(Invalid, match="32 levels"):
        check_schema(deep)
