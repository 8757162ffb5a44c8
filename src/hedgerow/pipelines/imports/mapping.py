"""Maps rows of a source to events. Pure.

A mapping assigns columns, or constants that begin with "=", to event fields. A field that it does
not mention takes the column of the same name. Other columns become properties.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID, uuid5

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.plugin.imports import SourceRow

FIELDS = ("event", "distinct_id", "timestamp", "uuid")
PROPERTIES, EXTRA_COLUMNS = "properties", "rest"
CONSTANT_PREFIX = "="
MAX_PROPERTIES = 1000
ATTR = "config__mapping"

_NAMESPACE = UUID("0b4cbe3a-6d5c-5b0e-9a0c-6d6e8f9f2f11")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?", re.ASCII)
_WORDS = {"true": True, "false": False}

RowMapping = Callable[[SourceRow], dict[str, Any]]


def check_mapping(mapping: Any) -> None:
    """Raise Invalid unless this is a valid mapping."""
    if not isinstance(mapping, Mapping):
        raise Invalid('An object such as {"event": "name"} is required.', attr=ATTR)
    for key, value in mapping.items():
        if key == EXTRA_COLUMNS:
            is_valid = isinstance(value, bool)
        elif key == PROPERTIES:
            is_valid = (
                isinstance(value, Mapping)
                and len(value) <= MAX_PROPERTIES
                and all(isinstance(each, str) and each for each in value.values())
            )
        elif key in FIELDS:
            is_valid = isinstance(value, str) and bool(value)
        else:
            fields = ", ".join((*FIELDS, PROPERTIES, EXTRA_COLUMNS))
            raise Invalid(f'Unknown field "{key}". Expected one of: {fields}.', attr=ATTR)
        if not is_valid:
            raise Invalid(f"{key}: {_EXPECTED.get(key, _EXPECTED_COLUMN)}", attr=ATTR)


_EXPECTED_COLUMN = 'the name of a column, or a constant such as "=signup", is required.'
_EXPECTED = {
    EXTRA_COLUMNS: "true or false is required.",
    PROPERTIES: f"an object of at most {MAX_PROPERTIES} columns by property is required.",
}


def compile_mapping(mapping: Mapping[str, Any]) -> RowMapping:
    """Return a function from rows to events. The mapping must have passed the check."""
    fields = {name: mapping.get(name, name) for name in FIELDS}
    property_columns: Mapping[str, str] = mapping.get(PROPERTIES) or {}
    used = {*fields.values(), *property_columns.values(), PROPERTIES}
    extra_columns = mapping.get(EXTRA_COLUMNS)

    def to_event(row: SourceRow) -> dict[str, Any]:
        values = row.values
        event = {name: _value(values, column) for name, column in fields.items()}
        if not event["uuid"]:
            event["uuid"] = str(uuid5(_NAMESPACE, row.identity))
        convert = _infer_type if row.is_text else _keep_value
        own = _parse_properties(values.get(PROPERTIES))
        properties = dict(own or {})
        # A row with a `properties` column has no other properties by default.
        if extra_columns if extra_columns is not None else own is None:
            for column, value in values.items():
                if column not in used and value not in (None, ""):
                    properties[column] = convert(value)
        for name, column in property_columns.items():
            if (value := _value(values, column)) not in (None, ""):
                properties[name] = convert(value)
        if own is not None and values.get("elements_chain"):
            properties["$elements_chain"] = values["elements_chain"]
        event[PROPERTIES] = properties
        return {name: value for name, value in event.items() if value not in (None, "")}

    return to_event


def _value(values: Mapping[str, Any], column: str) -> Any:
    return column[1:] if column.startswith(CONSTANT_PREFIX) else values.get(column)


def _parse_properties(value: Any) -> dict[str, Any] | None:
    """Return the `properties` column, an object or its JSON; None if there is none."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = jsonio.parse(value.encode())
        except (jsonio.JsonError, UnicodeEncodeError):
            return None
    return value if isinstance(value, dict) else None


def _keep_value(value: Any) -> Any:
    return value


def _infer_type(value: Any) -> Any:
    """Convert texts of numbers and booleans, unless that loses information: 007 stays text."""
    if not isinstance(value, str):
        return value
    if value in _WORDS:
        return _WORDS[value]
    if _NUMBER.fullmatch(value) and value != "-0":
        return float(value) if "." in value else int(value)
    return value
