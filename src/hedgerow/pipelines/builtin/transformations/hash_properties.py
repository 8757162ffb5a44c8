"""Hash properties: replaces values by a keyed hash, so that they can be compared but not read."""

import hmac
from collections.abc import Mapping
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.pipelines.builtin.transformations.property_names import (
    EditableProperties,
    check_names,
)
from hedgerow.plugin.component import Component, Family, SettingField, SettingType
from hedgerow.plugin.presets import TRANSFORMATION_FILTER_SETTINGS
from hedgerow.plugin.transform import IncomingEvent, Transform


def transform(settings: Mapping[str, Any]) -> Transform:
    names = tuple(settings["names"])
    salt = str(settings["salt"]).encode()

    def hash_value(value: Any) -> str:
        text = value.encode() if isinstance(value, str) else jsonio.encode_canonical(value)
        return hmac.digest(salt, text, "sha256").hex()

    def hash_all(event: IncomingEvent) -> IncomingEvent:
        properties = EditableProperties(event.properties)
        is_changed = False
        for name in names:
            if properties.has(name) and (value := properties.get(name)) is not None:
                properties.put(name, hash_value(value))
                is_changed = True
        return event.with_properties(properties.changed or {}) if is_changed else event

    return hash_all


COMPONENT = Component(
    key="hedgerow/hash-properties",
    family=Family.TRANSFORMATION,
    name="Hash properties",
    description="Replaces property values by a keyed hash (HMAC-SHA256).",
    version="1.0.0",
    settings=(
        SettingField(
            key="names",
            name="Names",
            type=SettingType.JSON,
            required=True,
            hint='A list: ["email", "$set.email"]. The same value always gets the same hash.',
        ),
        SettingField(
            key="salt",
            name="Salt",
            required=True,
            secret=True,
            hint="The key of the hash. Anyone who has it can verify guesses of a value.",
        ),
        *TRANSFORMATION_FILTER_SETTINGS,
    ),
    check=check_names,
    transform=transform,
)
