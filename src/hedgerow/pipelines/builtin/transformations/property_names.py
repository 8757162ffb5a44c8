"""Properties by the names used in settings: top-level, or inside `$set` and `$set_once`."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid

MAX_NAMES = 200
NAME_MAX = 400
# "$set.email" is the person property email that the event sets.
NESTED_PROPERTIES = ("$set", "$set_once")


class EditableProperties:
    """Copy-on-write properties: `changed` is None until the first change."""

    __slots__ = ("_original", "changed")

    def __init__(self, original: Mapping[str, Any]) -> None:
        self._original = original
        self.changed: dict[str, Any] | None = None

    def has(self, name: str) -> bool:
        properties = self._original if self.changed is None else self.changed
        if name in properties:
            return True
        parent, _, rest = name.partition(".")
        nested = properties.get(parent) if rest and parent in NESTED_PROPERTIES else None
        return isinstance(nested, dict) and rest in nested

    def pop(self, name: str) -> Any:
        copy, key = self._locate(name)
        return copy.pop(key)

    def put(self, name: str, value: Any) -> None:
        copy, key = self._locate(name)
        copy[key] = value

    def get(self, name: str) -> Any:
        copy, key = self._locate(name)
        return copy[key]

    def _locate(self, name: str) -> tuple[dict[str, Any], str]:
        if self.changed is None:
            self.changed = dict(self._original)
        parent, _, rest = name.partition(".")
        if name in self.changed or not rest or parent not in NESTED_PROPERTIES:
            return self.changed, name
        nested = self.changed.get(parent)
        own = dict(nested) if isinstance(nested, dict) else {}
        self.changed[parent] = own
        return own, rest


def check_names(config: Mapping[str, Any]) -> None:
    """Raise Invalid unless the setting `names` is a list of property names."""
    names, attr = config.get("names"), "config__names"
    if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
        raise Invalid(f"A list of 1 to {MAX_NAMES} names is required.", attr=attr)
    for name in names:
        check_name(name, attr)


def check_name(name: Any, attr: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
        raise Invalid(f"A property name of 1 to {NAME_MAX} characters is required.", attr=attr)
