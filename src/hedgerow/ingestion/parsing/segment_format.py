"""Segment's tracking API, `/v1/track` and its siblings, converted to the legacy batch format.

The events get the names and properties that PostHog's own clients use, so that insights, cohorts
and flags read them alike: a page is a `$pageview`, traits are properties of the person.
"""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from hedgerow.errors import Invalid
from hedgerow.ingestion.parsing.request import InvalidToken
from hedgerow.lib.ids import normalize_uuid

BATCH = "batch"
TYPES = ("track", "identify", "page", "screen", "group", "alias")
# Segment has groups of one kind, PostHog of several.
GROUP_TYPE = "segment_group"
# Where a value is in `context`, and the property that it becomes.
CONTEXT_PROPERTIES = {
    ("ip",): "$ip",
    ("userAgent",): "$raw_user_agent",
    ("locale",): "$browser_language",
    ("timezone",): "$timezone",
    ("library", "name"): "$lib",
    ("library", "version"): "$lib_version",
    ("page", "url"): "$current_url",
    ("page", "path"): "$pathname",
    ("page", "referrer"): "$referrer",
    ("page", "title"): "$title",
    ("screen", "width"): "$screen_width",
    ("screen", "height"): "$screen_height",
    ("os", "name"): "$os",
    ("os", "version"): "$os_version",
    ("device", "id"): "$device_id",
    ("device", "type"): "$device_type",
    ("device", "manufacturer"): "$device_manufacturer",
    ("device", "model"): "$device_model",
    ("app", "name"): "$app_name",
    ("app", "version"): "$app_version",
    ("app", "build"): "$app_build",
    ("app", "namespace"): "$app_namespace",
    ("campaign", "name"): "utm_campaign",
    ("campaign", "source"): "utm_source",
    ("campaign", "medium"): "utm_medium",
    ("campaign", "term"): "utm_term",
    ("campaign", "content"): "utm_content",
}
MAX_ID_CHARS = 200
MISSING_KEY = (
    "API key not provided: send the project's key as the user name of basic authentication, or as "
    "writeKey. `hedgerow projects list` shows it."
)

Fields = Mapping[str, Any]
# The name of an event and its properties.
Converted = tuple[Any, dict[str, Any]]

_MESSAGE_IDS = uuid5(NAMESPACE_URL, "segment:messageId")


def to_legacy_batch(payload: Any, *, type: str, token: str) -> Any:
    """Convert a request to the endpoint of a type, or to that of batches."""
    if not isinstance(payload, dict):
        raise Invalid("A JSON object is required.", code="malformed_data")
    items = payload.get("batch") if type == BATCH else [payload]
    if not isinstance(items, list):
        raise Invalid("Expected a list of calls.", attr="batch", code="malformed_data")
    key = token or payload.get("writeKey")
    if not key:
        raise InvalidToken(MISSING_KEY)
    common = _get_object(payload, "context") if type == BATCH else {}
    return {
        "api_key": key,
        "sent_at": payload.get("sentAt"),
        "batch": [_to_legacy_event(item, "" if type == BATCH else type, common) for item in items],
    }


def _to_legacy_event(item: Any, type: str, common: Fields) -> Any:
    """Return what is no call of a known type unchanged. `type` is empty in a batch, where each call
    names its own."""
    if not isinstance(item, dict):
        return item
    convert = _CONVERTERS.get(type or _get_text(item, "type"))
    if convert is None:
        return {"uuid": item.get("messageId"), "event": None}
    context = {**common, **_get_object(item, "context")}
    name, properties = convert(item, context)
    time = item.get("timestamp")
    return {
        "event": name,
        "distinct_id": _find_distinct_id(item),
        "properties": {**_read_context(context), **properties},
        "timestamp": item.get("originalTimestamp") if time is None else time,
        "uuid": _to_uuid(item.get("messageId")),
    }


def _find_distinct_id(item: Fields) -> Any:
    return next((item[name] for name in ("userId", "anonymousId") if item.get(name)), None)


def _to_uuid(message_id: Any) -> str | None:
    """A call that is sent again has the same id, so that it counts once."""
    if not isinstance(message_id, str) or not message_id:
        return None
    return normalize_uuid(message_id) or str(uuid5(_MESSAGE_IDS, message_id[:MAX_ID_CHARS]))


def _read_context(context: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, property in CONTEXT_PROPERTIES.items():
        value: Any = context
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            found[property] = value
    return found


def _read_properties(item: Fields, context: Fields) -> dict[str, Any]:
    """Return the properties of a call, and the traits and the group that it mentions."""
    properties = dict(_get_object(item, "properties"))
    if traits := _get_object(context, "traits"):
        properties.setdefault("$set", traits)
    if group := context.get("groupId"):
        properties.setdefault("$groups", {GROUP_TYPE: group})
    return properties


def _convert_track(item: Fields, context: Fields) -> Converted:
    return item.get("event"), _read_properties(item, context)


def _convert_page(item: Fields, context: Fields) -> Converted:
    properties = _read_properties(item, context)
    moved = {"url": "$current_url", "path": "$pathname", "referrer": "$referrer", "title": "$title"}
    known = {moved[name]: value for name, value in properties.items() if name in moved}
    return "$pageview", {**_read_names(item), **properties, **known}


def _convert_screen(item: Fields, context: Fields) -> Converted:
    names = _read_names(item)
    screen = {"$screen_name": names["name"]} if "name" in names else {}
    return "$screen", {**names, **screen, **_read_properties(item, context)}


def _convert_identify(item: Fields, context: Fields) -> Converted:
    properties = _read_properties(item, context)
    properties["$set"] = {**_get_object(properties, "$set"), **_get_object(item, "traits")}
    if item.get("userId") and item.get("anonymousId"):
        properties["$anon_distinct_id"] = item["anonymousId"]
    return "$identify", properties


def _convert_group(item: Fields, context: Fields) -> Converted:
    group = item.get("groupId")
    return "$groupidentify", {
        **_read_properties(item, context),
        "$group_type": GROUP_TYPE,
        "$group_key": group,
        "$group_set": _get_object(item, "traits"),
        "$groups": {GROUP_TYPE: group},
    }


def _convert_alias(item: Fields, context: Fields) -> Converted:
    return "$create_alias", {**_read_properties(item, context), "alias": item.get("previousId")}


def _read_names(item: Fields) -> dict[str, Any]:
    return {name: item[name] for name in ("name", "category") if item.get(name) is not None}


def _get_object(item: Fields, name: str) -> dict[str, Any]:
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def _get_text(item: Fields, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


_CONVERTERS: dict[str, Callable[[Fields, Fields], Converted]] = {
    "track": _convert_track,
    "identify": _convert_identify,
    "page": _convert_page,
    "screen": _convert_screen,
    "group": _convert_group,
    "alias": _convert_alias,
}
