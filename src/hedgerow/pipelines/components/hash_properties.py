"""Hash properties: values that can be told apart and not be read."""

import hmac
from collections.abc import Mapping
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import CONCERNED
from hedgerow.pipelines.components.property_names import Properties, check_listed
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.transforming import Incoming, Transform


def transform(settings: Mapping[str, Any]) -> Transform:
    names = tuple(settings["names"])
    salt = str(settings["salt"]).encode()

    def hashed(value: Any) -> str:
        text = value.encode() if isinstance(value, str) else jsonio.canonical(value)
        return hmac.digest(salt, text, "sha256").hex()

    def hash_all(event: Incoming) -> Incoming:
        properties = Properties(event.properties)
        is_changed = False
        for name in names:
            if properties.has(name) and (value := properties.get(name)) is not None:
                properties.put(name, hashed(value))
                is_changed = True
        return event.having(properties.changed or {}) if is_changed else event

    return hash_all


COMPONENT = Component(
    key="hedgerow/hash-properties",
    family=Family.TRANSFORMATION,
    name="Hash properties",
    description="Replaces values of properties by a keyed hash (HMAC-SHA256).",
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
            hint="The key of the hash. Whoever has it can check guesses of a value.",
        ),
        *CONCERNED,
    ),
    check=check_listed,
    transform=transform,
)
