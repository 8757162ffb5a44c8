"""Read the fields of one event: required types, defaults, and the places where SDKs put them."""

from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.ids import normalize_uuid
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


def read_fields(
    event: dict[str, Any], default_name: str
) -> tuple[str, dict[str, Any], str, str | None]:
    """Return the name, properties, distinct id and uuid of an event. The uuid is None if the event
    has none. Raises Invalid for the first field that is missing or malformed."""
    name = _read_name(event) or default_name
    if not name:
        raise Invalid("An event must have a name.", attr="event", code="missing_event_name")
    properties = _read_properties(event)
    return name, properties, _read_distinct_id(event, properties), _read_uuid(event)


def _read_name(event: dict[str, Any]) -> str:
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


def _read_properties(event: dict[str, Any]) -> dict[str, Any]:
    """Merge `$set` and `$set_once` from the top level of the event into the properties. On the top
    level they take precedence."""
    properties = _read_object(event, "properties") or {}
    for name in ("$set", "$set_once"):
        if outer := _read_object(event, name):
            inner = properties.get(name)
            merged = {**inner, **outer} if isinstance(inner, dict) else outer
            properties = {**properties, name: merged}
    return properties


def _read_object(event: dict[str, Any], name: str) -> dict[str, Any] | None:
    value = event.get(name)
    if value is None or isinstance(value, dict):
        return value
    raise Invalid(
        f"{name} must be a JSON object, received {json_type(value)}.",
        attr=name,
        code="invalid_properties",
    )


def _read_distinct_id(event: dict[str, Any], properties: dict[str, Any]) -> str:
    value = event.get("distinct_id")
    if value is None:
        value = event.get("$distinct_id")
    if value is None:
        value = properties.get("distinct_id")
    if value is None:
        raise _missing_distinct_id("An event must have a distinct_id.")
    distinct_id = value if isinstance(value, str) else encode(value).decode()
    if not distinct_id or distinct_id.isspace():
        raise _missing_distinct_id("The distinct_id should not be blank.")
    return distinct_id


def _missing_distinct_id(detail: str) -> Invalid:
    return Invalid(detail, attr="distinct_id", code="missing_distinct_id")


def _read_uuid(event: dict[str, Any]) -> str | None:
    value = event.get("uuid")
    if value is None or value == "":
        return None
    uuid = normalize_uuid(value) if isinstance(value, str) else None
    if uuid is None:
        raise Invalid('Event field "uuid" is not a valid UUID!', attr="uuid", code="invalid_uuid")
    return uuid
