"""Apply `$set`, `$set_once` and `$unset` to properties, and limit their size."""

from collections.abc import Iterable, Mapping
from typing import Any

from hedgerow.ingestion.persons.enrich import COPIED_PROPERTIES
from hedgerow.lib import jsonio

# The same limits as in PostHog.
MAX_PROPERTIES_BYTES = 640 * 1024
TRIMMED_PROPERTIES_BYTES = 512 * 1024

NEVER_UPDATE = frozenset({"$exception", "$$heatmap"})
ALWAYS_UPDATE = frozenset({"$identify", "$create_alias", "$merge_dangerously", "$set"})

# These change with every page view: a new value alone does not justify a write.
_VOLATILE = frozenset(
    {
        "$current_url",
        "$pathname",
        "$referring_domain",
        "$referrer",
        "$screen_height",
        "$screen_width",
        "$viewport_height",
        "$viewport_width",
        "$browser",
        "$browser_version",
        "$device_type",
        "$raw_user_agent",
        "$os",
        "$os_name",
        "$os_version",
        "$geoip_postal_code",
        "$geoip_time_zone",
        "$geoip_latitude",
        "$geoip_longitude",
        "$geoip_accuracy_radius",
        "$geoip_subdivision_1_code",
        "$geoip_subdivision_1_name",
        "$geoip_subdivision_2_code",
        "$geoip_subdivision_2_name",
    }
)
_PROTECTED = frozenset(
    {
        *COPIED_PROPERTIES,
        *COPIED_PROPERTIES.values(),
        "email",
        "name",
        "$os_name",
        "$session_id",
        "$window_id",
        "$pageview_id",
        "$host",
        "$user_id",
        "$device_id",
        "$anon_distinct_id",
        "$creator_event_uuid",
    }
)

_ABSENT = object()
# A tuple, since a union of types takes five times as long to check.
_CONTAINERS = (dict, list)


def parse_unset_names(value: Any) -> Iterable[str]:
    """Return the names in `$unset`: a list of names, or an object with the names as keys."""
    if isinstance(value, list | dict):
        return [jsonio.replace_unstorable(name) for name in value if isinstance(name, str)]
    return ()


def apply_update(
    before: Mapping[str, Any],
    to_set: Mapping[str, Any],
    to_set_once: Mapping[str, Any],
    to_unset: Iterable[str],
    *,
    is_always_worth: bool,
) -> dict[str, Any] | None:
    """Return the properties after an event, None if no change justifies a write. With
    `is_always_worth`, every change does."""
    changed: dict[str, Any] = {}
    is_worth_write = is_always_worth
    # Mostly the person has all of them: one comparison is faster.
    if not to_set_once.keys() <= before.keys():
        for name, value in to_set_once.items():
            if name not in before:
                changed[name] = value
                is_worth_write = is_worth_write or name not in _VOLATILE
    for name, value in to_set.items():
        old = before.get(name, _ABSENT)
        if old == value and (type(value) is str or _is_same(old, value)):
            continue
        changed[name] = value
        is_worth_write = is_worth_write or old is _ABSENT or name not in _VOLATILE
    for name in to_unset:
        changed.pop(name, None)
        is_worth_write = is_worth_write or name in before
    removed = [name for name in to_unset if name in before]
    if not is_worth_write or not (changed or removed):
        return None
    if changed and not _is_storable(changed):
        changed = {
            name: value
            for name, value in jsonio.replace_unstorable(changed).items()
            if not _is_same(before.get(name, _ABSENT), value)
        }
    after = {**before, **changed}
    for name in removed:
        after.pop(name, None)
    return after if changed or removed else None


def build_first(
    to_set: Mapping[str, Any], to_set_once: Mapping[str, Any], to_unset: Iterable[str]
) -> dict[str, Any]:
    """Return the properties of a new person after its first event. They may hold text that cannot
    be stored."""
    first = {**to_set_once, **to_set}
    for name in to_unset:
        first.pop(name, None)
    return first


def overlay(properties: Mapping[str, Any], to_set: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the properties with the `$set` of an event on top, None if nothing differs."""
    # One comparison of all items is fast. It takes 1 for true, which does no harm here because the
    # result is not stored.
    return None if to_set.items() <= properties.items() else {**properties, **to_set}


def trim(properties: dict[str, Any], size: int) -> tuple[dict[str, Any], list[str]]:
    """Remove the largest properties until the rest fits. `size` is the present size in bytes.
    Returns the rest and the removed names. Identifying properties are never removed."""
    sizes = sorted(
        (-len(jsonio.encode(value)) - len(name), name)
        for name, value in properties.items()
        if name not in _PROTECTED and not name.startswith(("utm", "$initial_"))
    )
    removed: list[str] = []
    for negative, name in sizes:
        if size <= TRIMMED_PROPERTIES_BYTES:
            break
        size += negative
        removed.append(name)
    return {name: value for name, value in properties.items() if name not in removed}, removed


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON: 1 and 1.0 are, 1 and true are not."""
    if one != other:
        return False
    if isinstance(one, _CONTAINERS):
        return jsonio.is_equal(one, other)
    return isinstance(one, bool) is isinstance(other, bool)


def _is_storable(values: dict[str, Any]) -> bool:
    try:
        return b"\\u0000" not in jsonio.encode(values)
    except UnicodeEncodeError:
        return False
