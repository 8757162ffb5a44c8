"""The fields of one event: what each must be, and what is made of the ways clients send it."""

from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.ids import canonical_uuid
from hedgerow.lib.jsonio import encode

_JSON_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def json_type(value: Any) -> str:
    return _JSON_TYPES[type(value)]


def event_of(item: Any) -> dict[str, Any]:
    if isinstance(item, dict):
        return item
    raise Invalid(
        f"An event must be a JSON object, received {json_type(item)}.", code="invalid_event"
    )


def name_of(event: dict[str, Any]) -> str:
    """ "" if it has none."""
    name = event.get("event")
    if name is None:
        return ""
    if isinstance(name, str):
        return name
    raise Invalid(
        f"The event's name must be a string, received {json_type(name)}.",
        attr="event",
        code="invalid_event_name",
    )


def uuid_of(event: dict[str, Any]) -> str:
    """ "" if it has none."""
    said = event.get("uuid")
    if said is None or said == "":
        return ""
    uuid = canonical_uuid(said) if isinstance(said, str) else None
    if uuid is None:
        raise Invalid('Event field "uuid" is not a valid UUID!', attr="uuid", code="invalid_uuid")
    return uuid


def properties_of(event: dict[str, Any]) -> dict[str, Any]:
    """`$set` and `$set_once` beside the properties go over those in them."""
    properties = _object(event, "properties") or {}
    for name in ("$set", "$set_once"):
        if over := _object(event, name):
            under = properties.get(name)
            merged = {**under, **over} if isinstance(under, dict) else over
            properties = {**properties, name: merged}
    return properties


def distinct_id_of(event: dict[str, Any], properties: dict[str, Any]) -> str:
    said = event.get("distinct_id")
    if said is None:
        said = event.get("$distinct_id")
    if said is None:
        said = properties.get("distinct_id")
    if said is None:
        raise _no_distinct_id("An event must have a distinct_id.")
    distinct_id = said if isinstance(said, str) else encode(said).decode()
    if not distinct_id or distinct_id.isspace():
        raise _no_distinct_id("The distinct_id should not be blank.")
    return distinct_id


def _object(event: dict[str, Any], name: str) -> dict[str, Any] | None:
    value = event.get(name)
    if value is None or isinstance(value, dict):
        return value
    raise Invalid(
        f"{name} must be a JSON object, received {json_type(value)}.",
        attr=name,
        code="invalid_properties",
    )


def _no_distinct_id(detail: str) -> Invalid:
    return Invalid(detail, attr="distinct_id", code="missing_distinct_id")
