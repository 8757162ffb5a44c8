"""The environments of a product in a flag document. Pure.

    flags:
      - key: beta
        filters: {groups: [{rollout_percentage: 100}]}
        environments:
          production: {active: false, filters: {groups: [{rollout_percentage: 5}]}}
          staging: {absent: true}

A flag has the values that its environments share, and each environment the fields in which it
differs. In `filters`, only the given parts (`groups`, `payloads`, ...) replace the shared ones.
`absent` stands for an environment without the flag.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.projects.document import check_field_names

ENVIRONMENTS = "environments"
ABSENT = "absent"
FILTERS = "filters"

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentChoice:
    """The environment whose flags a document is read for, and all of its product."""

    name: str
    known: Sequence[str]


def select_environment(
    item: Item, choice: EnvironmentChoice | None, fields: Collection[str], place: str
) -> Item | None:
    """Return a flag of a document as it is in one environment, None if it is absent there."""
    overrides = item.get(ENVIRONMENTS)
    if overrides is None:
        return {name: value for name, value in item.items() if name != ENVIRONMENTS}
    place = f"{place}: {ENVIRONMENTS}"
    if not isinstance(overrides, dict):
        raise Invalid("Expected an object with the names of environments.", attr=place)
    if choice is None:
        raise Invalid(
            "The project is not an environment of a product. Choose the product with --product.",
            attr=place,
        )
    for name, override in overrides.items():
        _check_override(name, override, choice, fields, place)
    shared = {name: value for name, value in item.items() if name != ENVIRONMENTS}
    own = dict(overrides.get(choice.name) or {})
    if own.pop(ABSENT, False):
        return None
    filters = own.pop(FILTERS, {})
    common = shared.get(FILTERS, {})
    if filters and isinstance(common, dict):
        own[FILTERS] = {**common, **filters}
    return {**shared, **own}


def _check_override(
    name: Any, override: Any, choice: EnvironmentChoice, fields: Collection[str], place: str
) -> None:
    if name not in choice.known:
        known = ", ".join(choice.known)
        detail = f'There is no environment "{truncate(name)}" in the product. It has: {known}.'
        raise Invalid(detail, attr=place)
    place = f"{place}.{name}"
    if not isinstance(override, dict | None):
        raise Invalid("Expected an object with the fields that differ.", attr=place)
    override = override or {}
    check_field_names(override, (ABSENT, FILTERS, *fields), place)
    absent = override.get(ABSENT, False)
    if not isinstance(absent, bool):
        raise Invalid("Must be true or false.", attr=f"{place}.{ABSENT}")
    if absent and len(override) > 1:
        raise Invalid("An environment without the flag has no other fields.", attr=place)
    if not isinstance(override.get(FILTERS, {}), dict):
        raise Invalid("Expected an object with the parts that differ.", attr=f"{place}.{FILTERS}")


def combine_environments(
    items: Mapping[str, Mapping[str, Item]], defaults: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the flags of a product, from the flags of each environment by key: the shared part,
    and the differences."""
    keys = sorted({key for each in items.values() for key in each})
    return [
        _combine(key, {name: each.get(key) for name, each in items.items()}, defaults)
        for key in keys
    ]


def _combine(
    key: str, found: Mapping[str, Item | None], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    present = {name: item for name, item in found.items() if item is not None}
    values = {
        field: {name: item.get(field, default) for name, item in present.items()}
        for field, default in defaults.items()
    }
    shared = {field: _find_commonest(each.values()) for field, each in values.items()}
    filters = _share_filters([item[FILTERS] for item in present.values()])
    overrides = {
        name: {ABSENT: True}
        if name not in present
        else _find_override(present[name], shared, filters, defaults)
        for name in found
    }
    result: dict[str, Any] = {"key": key}
    result |= {field: value for field, value in shared.items() if value != defaults[field]}
    result[FILTERS] = filters
    overrides = {name: override for name, override in overrides.items() if override}
    return result | ({ENVIRONMENTS: overrides} if overrides else {})


def _share_filters(found: Sequence[Any]) -> Any:
    """Return the parts that all environments have, with their commonest value. A part that one
    lacks is not shared: an override cannot remove it."""
    if not all(isinstance(each, dict) for each in found):
        return _find_commonest(found)
    common = [name for name in found[0] if all(name in each for each in found)]
    return {name: _find_commonest([each[name] for each in found]) for name in common}


def _find_override(
    item: Item, shared: Item, filters: Any, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    override = {
        field: item.get(field, default)
        for field, default in defaults.items()
        if not jsonio.is_equal(item.get(field, default), shared[field])
    }
    own = item[FILTERS]
    if isinstance(own, dict) and isinstance(filters, dict):
        parts = {
            name: part
            for name, part in own.items()
            if name not in filters or not jsonio.is_equal(part, filters[name])
        }
        return override | ({FILTERS: parts} if parts else {})
    return override


def _find_commonest(values: Collection[Any]) -> Any:
    """Return the value that occurs most often; of several, the first."""
    encoded = [jsonio.encode_canonical(value) for value in values]
    most = max(encoded, key=encoded.count)
    return next(value for value, each in zip(values, encoded, strict=True) if each == most)
