"""Properties as people name them in settings: at the top, or in what changes the person."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid

MAX_NAMES = 200
NAME_MAX = 400
# "$set.email" is the property email that the event sets on its person.
INSIDE = ("$set", "$set_once")


class Properties:
    """A copy that can be changed; what was given never is."""

    __slots__ = ("_given", "changed")

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self.changed: dict[str, Any] | None = None

    def has(self, name: str) -> bool:
        properties = self._given if self.changed is None else self.changed
        if name in properties:
            return True
        inside, _, rest = name.partition(".")
        within = properties.get(inside) if rest and inside in INSIDE else None
        return isinstance(within, dict) and rest in within

    def pop(self, name: str) -> Any:
        """Only of what it has."""
        copy, key = self._place(name)
        return copy.pop(key)

    def put(self, name: str, value: Any) -> None:
        copy, key = self._place(name)
        copy[key] = value

    def get(self, name: str) -> Any:
        """Only of what it has."""
        copy, key = self._place(name)
        return copy[key]

    def _place(self, name: str) -> tuple[dict[str, Any], str]:
        if self.changed is None:
            self.changed = dict(self._given)
        inside, _, rest = name.partition(".")
        if name in self.changed or not rest or inside not in INSIDE:
            return self.changed, name
        within = self.changed.get(inside)
        own = dict(within) if isinstance(within, dict) else {}
        self.changed[inside] = own
        return own, rest


def check_listed(config: Mapping[str, Any]) -> None:
    """Raise Invalid for settings whose `names` are no list of names."""
    names, attr = config.get("names"), "config__names"
    if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
        raise Invalid(f"A list of 1 to {MAX_NAMES} names is required.", attr=attr)
    for name in names:
        check_name(name, attr)


def check_name(name: Any, attr: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
        raise Invalid(f"A property's name has 1 to {NAME_MAX} characters.", attr=attr)
