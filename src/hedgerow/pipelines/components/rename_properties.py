"""Rename properties: another name for the same value."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import CONCERNED
from hedgerow.pipelines.components.property_names import MAX_NAMES, Properties, check_name
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.transforming import Incoming, Transform

NAMES = "config__names"


def transform(settings: Mapping[str, Any]) -> Transform:
    names = tuple(settings["names"].items())

    def rename(event: Incoming) -> Incoming:
        properties = Properties(event.properties)
        found = [(old, new) for old, new in names if properties.has(old)]
        # All are taken out before any is put back, so that two can change places.
        values = [(old, new, properties.pop(old)) for old, new in found]
        is_changed = False
        for old, new, value in values:
            is_taken = properties.has(new)
            properties.put(old if is_taken else new, value)
            is_changed = is_changed or not is_taken
        return event.having(properties.changed or {}) if is_changed else event

    return rename


def check(config: Mapping[str, Any]) -> None:
    names = config.get("names")
    if not isinstance(names, Mapping) or not 0 < len(names) <= MAX_NAMES:
        raise Invalid(f"An object of 1 to {MAX_NAMES} names is required.", attr=NAMES)
    for old, new in names.items():
        check_name(old, NAMES)
        check_name(new, NAMES)
    if len(set(names.values())) != len(names):
        raise Invalid("Two properties cannot get one name.", attr=NAMES)


COMPONENT = Component(
    key="hedgerow/rename-properties",
    family=Family.TRANSFORMATION,
    name="Rename properties",
    description="Gives properties of events other names.",
    version="1.0.0",
    settings=(
        SettingField(
            key="names",
            name="Names",
            type=SettingType.JSON,
            required=True,
            hint='Old names and new ones: {"colour": "color", "$set.mail": "$set.email"}. A '
            "property stays where the new name is taken.",
        ),
        *CONCERNED,
    ),
    check=check,
    transform=transform,
)
