"""Remove properties before events are stored."""

from collections.abc import Mapping
from typing import Any

from hedgerow.pipelines.builtin.transformations.property_names import (
    EditableProperties,
    check_names,
)
from hedgerow.plugin.component import Component, Family, SettingField, SettingType
from hedgerow.plugin.presets import TRANSFORMATION_FILTER_SETTINGS
from hedgerow.plugin.transform import IncomingEvent, Transform


def transform(settings: Mapping[str, Any]) -> Transform:
    names = tuple(settings["names"])

    def remove(event: IncomingEvent) -> IncomingEvent:
        properties = EditableProperties(event.properties)
        for name in names:
            if properties.has(name):
                properties.pop(name)
        return event if properties.changed is None else event.with_properties(properties.changed)

    return remove


COMPONENT = Component(
    key="hedgerow/remove-properties",
    family=Family.TRANSFORMATION,
    name="Remove properties",
    description="Removes properties of events before they are stored.",
    version="1.0.0",
    settings=(
        SettingField(
            key="names",
            name="Names",
            type=SettingType.JSON,
            required=True,
            hint='A list: ["email", "$set.email"]. The second is the person property that the '
            "event sets.",
        ),
        *TRANSFORMATION_FILTER_SETTINGS,
    ),
    check=check_names,
    transform=transform,
)
