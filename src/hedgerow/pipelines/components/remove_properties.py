"""Remove properties: what nobody may keep is not stored."""

from collections.abc import Mapping
from typing import Any

from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import CONCERNED
from hedgerow.pipelines.components.property_names import Properties, check_listed
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.transforming import Incoming, Transform


def transform(settings: Mapping[str, Any]) -> Transform:
    names = tuple(settings["names"])

    def remove(event: Incoming) -> Incoming:
        properties = Properties(event.properties)
        for name in names:
            if properties.has(name):
                properties.pop(name)
        return event if properties.changed is None else event.having(properties.changed)

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
            hint='A list: ["email", "$set.email"]. The second is what the event sets on its '
            "person.",
        ),
        *CONCERNED,
    ),
    check=check_listed,
    transform=transform,
)
