"""What `$set`, `$set_once` and `$unset` make of properties, and how large these may become."""

from collections.abc import Iterable, Mapping
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.persons.enrich import COPIED

# PostHog's numbers.
MAX_BYTES = 640 * 1024
TRIMMED_BYTES = 512 * 1024

NEVER_UPDATE = frozenset({"$exception", "$$heatmap"})
ALWAYS_UPDATE = frozenset({"$identify", "$create_alias", "$merge_dangerously", "$set"})

# These change with every page: a new value alone is not worth a write.
_NOISE = frozenset(
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
        *COPIED,
        *COPIED.values(),
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


def unset_names(value: Any) -> Iterable[str]:
    """`$unset` is a list of names, or an object with these names."""
    if isinstance(value, list | dict):
        return [jsonio.storable(name) for name in value if isinstance(name, str)]
    return ()


def updated(
    before: Mapping[str, Any],
    to_set: Mapping[str, Any],
    to_set_once: Mapping[str, Any],
    to_unset: Iterable[str],
    *,
    is_worth_all: bool,
) -> dict[str, Any] | None:
    """The properties after an event, None when it brings nothing that is worth a write. With
    `is_worth_all` every difference is."""
    changed: dict[str, Any] = {}
    is_worth = is_worth_all
    for name, value in to_set_once.items():
        if name not in before:
            changed[name] = value
            is_worth = is_worth or name not in _NOISE
    for name, value in to_set.items():
        old = before.get(name, _ABSENT)
        if old == value and (type(value) is str or _same(old, value)):
            continue
        changed[name] = value
        is_worth = is_worth or old is _ABSENT or name not in _NOISE
    for name in to_unset:
        changed.pop(name, None)
        is_worth = is_worth or name in before
    gone = [name for name in to_unset if name in before]
    if not is_worth or not (changed or gone):
        return None
    if changed and not _is_storable(changed):
        changed = {
            name: value
            for name, value in jsonio.storable(changed).items()
            if not _same(before.get(name, _ABSENT), value)
        }
    after = {**before, **changed}
    for name in gone:
        after.pop(name, None)
    return after if changed or gone else None


def laid_over(properties: Mapping[str, Any], to_set: Mapping[str, Any]) -> dict[str, Any] | None:
    """The properties with an event's `$set` over them, None when that is no difference."""
    # One comparison for all: that it takes 1 for true is no harm where nothing is stored.
    return None if to_set.items() <= properties.items() else {**properties, **to_set}


def trimmed(properties: dict[str, Any], size: int) -> tuple[dict[str, Any], list[str]]:
    """Properties of `size` bytes that fit, and the names of those that went: the largest first,
    whatever order they are stored in. What identifies a person stays, even if it is too large."""
    sizes = sorted(
        (-len(jsonio.encode(value)) - len(name), name)
        for name, value in properties.items()
        if name not in _PROTECTED and not name.startswith(("utm", "$initial_"))
    )
    gone: list[str] = []
    for negative, name in sizes:
        if size <= TRIMMED_BYTES:
            break
        size += negative
        gone.append(name)
    return {name: value for name, value in properties.items() if name not in gone}, gone


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON is: 1 and 1.0 are, 1 and true are not."""
    if one != other:
        return False
    if isinstance(one, dict | list):
        return jsonio.same(one, other)
    return isinstance(one, bool) is isinstance(other, bool)


def _is_storable(values: dict[str, Any]) -> bool:
    try:
        return b"\\u0000" not in jsonio.encode(values)
    except UnicodeEncodeError:
        return False
