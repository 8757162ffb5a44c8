"""From a row of a source to an event: which column is what. Pure.

A mapping names columns, or constants that begin with "=". What it does not mention is found by the
column's own name, and all that is left are properties.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID, uuid5

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.pipelines.imports.model import SourceRow

FIELDS = ("event", "distinct_id", "timestamp", "uuid")
PROPERTIES, REST = "properties", "rest"
CONSTANT = "="
MAX_PROPERTIES = 1000
ATTR = "config__mapping"

_NAMESPACE = UUID("0b4cbe3a-6d5c-5b0e-9a0c-6d6e8f9f2f11")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?", re.ASCII)
_WORDS = {"true": True, "false": False}

ToEvent = Callable[[SourceRow], dict[str, Any]]


def check_mapping(mapping: Any) -> None:
    """Raise Invalid for what is no mapping."""
    if not isinstance(mapping, Mapping):
        raise Invalid('An object such as {"event": "name"} is required.', attr=ATTR)
    for key, value in mapping.items():
        if key == REST:
            is_good = isinstance(value, bool)
        elif key == PROPERTIES:
            is_good = (
                isinstance(value, Mapping)
                and len(value) <= MAX_PROPERTIES
                and all(isinstance(each, str) and each for each in value.values())
            )
        elif key in FIELDS:
            is_good = isinstance(value, str) and bool(value)
        else:
            known = ", ".join((*FIELDS, PROPERTIES, REST))
            raise Invalid(f'"{key}" is nothing that can be mapped: {known}.', attr=ATTR)
        if not is_good:
            raise Invalid(f"{key}: {_WANTED.get(key, _COLUMN)}", attr=ATTR)


_COLUMN = 'the name of a column, or a constant such as "=signup", is required.'
_WANTED = {
    REST: "true or false is required.",
    PROPERTIES: f"an object of at most {MAX_PROPERTIES} columns by property is required.",
}


def mapped_by(mapping: Mapping[str, Any]) -> ToEvent:
    """Rows to events, by a mapping that has passed the check."""
    fields = {name: mapping.get(name, name) for name in FIELDS}
    chosen: Mapping[str, str] = mapping.get(PROPERTIES) or {}
    used = {*fields.values(), *chosen.values(), PROPERTIES}
    rest = mapping.get(REST)

    def to_event(row: SourceRow) -> dict[str, Any]:
        values = row.values
        event = {name: _value(values, column) for name, column in fields.items()}
        if not event["uuid"]:
            event["uuid"] = str(uuid5(_NAMESPACE, row.identity))
        typed = _typed if row.is_text else _as_it_is
        own = _own_properties(values.get(PROPERTIES))
        properties = dict(own or {})
        # A row with properties of its own says what they are.
        if rest if rest is not None else own is None:
            for column, value in values.items():
                if column not in used and value not in (None, ""):
                    properties[column] = typed(value)
        for name, column in chosen.items():
            if (value := _value(values, column)) not in (None, ""):
                properties[name] = typed(value)
        if own is not None and values.get("elements_chain"):
            properties["$elements_chain"] = values["elements_chain"]
        event[PROPERTIES] = properties
        return {name: value for name, value in event.items() if value not in (None, "")}

    return to_event


def _value(values: Mapping[str, Any], column: str) -> Any:
    return column[1:] if column.startswith(CONSTANT) else values.get(column)


def _own_properties(value: Any) -> dict[str, Any] | None:
    """The properties of a row that has some, as an object or as JSON of one."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = jsonio.parse(value.encode())
        except (jsonio.JsonError, UnicodeEncodeError):
            return None
    return value if isinstance(value, dict) else None


def _as_it_is(value: Any) -> Any:
    return value


def _typed(value: Any) -> Any:
    """Numbers and true or false as such, unless they would not be written the same again: 007 is
    no number."""
    if not isinstance(value, str):
        return value
    if value in _WORDS:
        return _WORDS[value]
    if _NUMBER.fullmatch(value) and value != "-0":
        return float(value) if "." in value else int(value)
    return value
