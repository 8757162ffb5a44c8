"""Rename properties of events."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.pipelines.builtin.transformations.property_names import (
    MAX_NAMES,
    EditableProperties,
    check_name,
)
from hedgerow.plugin.component import Component, Family, SettingField, SettingType
from hedgerow.plugin.presets import TRANSFORMATION_FILTER_SETTINGS
from hedgerow.plugin.transform import IncomingEvent, Transform

NAMES = "config__names"


def transform(settings: Mapping[str, Any]) -> Transform:
    names = tuple(settings["names"].items())

    def rename(event: IncomingEvent) -> IncomingEvent:
        properties = EditableProperties(event.properties)
        found = [(old, new) for old, new in names if properties.has(old)]
        # All values are removed before any is set, so that two properties can swap names.
        values = [(old, new, properties.pop(old)) for old, new in found]
        is_changed = False
        for old, new, value in values:
            is_taken = properties.has(new)
            properties.put(old if is_taken else new, value)
            is_changed = is_changed or not is_taken
        return event.with_properties(properties.changed or {}) if is_changed else event

    return rename


def check(config: Mapping[str, Any]) -> None:
    names = config.get("names")
    if not isinstance(names, Mapping) or not 0 < len(names) <= MAX_NAMES:
        raise Invalid(f"An object of 1 to {MAX_NAMES} names is required.", attr=NAMES)
    for old, new in names.items():
        check_name(old, NAMES)
        check_name(new, NAMES)
    if len(set(names.values())) != len(names):
        raise Invalid("Two properties cannot get the same name.", attr=NAMES)


COMPONENT = Component(
    key="hedgerow/rename-properties",
    family=Family.TRANSFORMATION,
    name="Rename properties",
    description="Renames properties of events.",
    version="1.0.0",
    settings=(
        SettingField(
            key="names",
            name="Names",
            type=SettingType.JSON,
            required=True,
            hint='New names by old names: {"colour": "color", "$set.mail": "$set.email"}. A '
            "property keeps its name if the new one exists already.",
        ),
        *TRANSFORMATION_FILTER_SETTINGS,
    ),
    check=check,
    transform=transform,
)
