"""A record's settings: checked against the component's schema, secrets sealed and masked.

Pure but for the sealer that is handed in. Stored settings hold a secret as {"$sealed": "…"}.
"""

import contextlib
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from hedgerow.errors import Conflict, Invalid
from hedgerow.lib import jsonio
from hedgerow.lib.sealing import CannotUnseal
from hedgerow.lib.text import cut_short
from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.numbers import checked_int32
from hedgerow.projects.text import check_storable

# What stands for a secret on every way out; sent back, it means "leave it as it is".
MASK = "**************** POSTHOG SECRET FIELD ****************"
SEALED = "$sealed"
TEXT_MAX = 100_000


class Sealer(Protocol):
    def seal(self, value: Any) -> str: ...
    def unseal(self, sealed: str) -> Any: ...


def masked(component: Component, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting as it may be shown: stored or default, secrets as the mask."""
    return {
        field.key: MASK
        if field.key in stored and (field.secret or is_sealed(stored[field.key]))
        else stored.get(field.key, field.default)
        for field in component.settings
    }


def for_pages(component: Component, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Only what a web page may see."""
    return {
        # What was a secret when it was stored stays here, whatever the schema says by now.
        field.key: field.default
        if is_sealed(stored.get(field.key))
        else stored.get(field.key, field.default)
        for field in component.settings
        if field.site
    }


def unsealed(component: Component, stored: Mapping[str, Any], sealer: Sealer) -> dict[str, Any]:
    """Every setting as the component's code sees it."""
    try:
        return {
            field.key: sealer.unseal(stored[field.key][SEALED])
            if field.secret and is_sealed(stored.get(field.key))
            else stored.get(field.key, field.default)
            for field in component.settings
        }
    except CannotUnseal:
        raise Conflict(
            "The secrets of this record were sealed with a key that is not here. "
            "Bring the key back, or set the secrets again."
        ) from None


def changed(
    component: Component, stored: Mapping[str, Any], given: Mapping[str, Any], sealer: Sealer
) -> dict[str, Any]:
    """The stored settings after a change of some of them. The mask or null leaves a secret as it
    is, "" clears a setting; Invalid names the first that breaks its rule."""
    known = {field.key: field for field in component.settings}
    for key in given:
        if key not in known:
            raise Invalid(f'"{key}" is not a setting of {component.name}.', attr=f"config__{key}")
    result = {key: value for key, value in stored.items() if key in known}
    for key, value in given.items():
        field = known[key]
        if field.secret and value in (MASK, None):
            continue
        if value is None or value == "":
            result.pop(key, None)
        else:
            checked = checked_value(field.type, field.choices, value, f"config__{key}")
            if not _is_same(field, stored.get(key), checked, sealer):
                result[key] = {SEALED: sealer.seal(checked)} if field.secret else checked
    return result


def replaced(
    component: Component, stored: Mapping[str, Any], given: Mapping[str, Any], sealer: Sealer
) -> dict[str, Any]:
    """The settings when all are given anew: what is left out goes, except secrets."""
    secrets = {key: value for key, value in stored.items() if key in component.secret_keys}
    return changed(component, secrets, given, sealer)


def resealed(stored: Mapping[str, Any], sealer: Sealer) -> dict[str, Any]:
    """The same settings with every secret that the keys open sealed anew, by the newest key."""
    result = dict(stored)
    for key, value in stored.items():
        if is_sealed(value) and isinstance(value[SEALED], str):
            with contextlib.suppress(CannotUnseal):
                result[key] = {SEALED: sealer.seal(sealer.unseal(value[SEALED]))}
    return result


def from_form(component: Component, given: Mapping[str, Any]) -> dict[str, Any]:
    """A form has nothing but text, so JSON settings are read from it."""
    as_json = {field.key for field in component.settings if field.type is SettingType.JSON}
    return {
        key: _from_text(value) if key in as_json and isinstance(value, str) else value
        for key, value in given.items()
    }


def _from_text(text: str) -> Any:
    try:
        return text if text in ("", MASK) else jsonio.parse(text.encode())
    except (jsonio.JsonError, UnicodeEncodeError):
        return text


def is_complete(component: Component, stored: Mapping[str, Any]) -> bool:
    return all(field.key in stored for field in component.settings if field.required)


def check_complete(component: Component, stored: Mapping[str, Any]) -> None:
    """Raise Invalid for the first required setting that has no value."""
    for field in component.settings:
        if field.required and field.key not in stored:
            raise Invalid("This field is required.", attr=f"config__{field.key}", code="required")


def _is_same(field: SettingField, stored: Any, value: Any, sealer: Sealer) -> bool:
    """Sealing gives other text each time, so a secret is compared in the clear."""
    if not (field.secret and is_sealed(stored)):
        return jsonio.same(stored, value)
    try:
        return jsonio.same(sealer.unseal(stored[SEALED]), value)
    except CannotUnseal:
        return False


def is_sealed(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {SEALED}


def checked_value(type: SettingType, choices: Collection[str], value: Any, attr: str) -> Any:
    """The value as its type wants it, or Invalid."""
    match type:
        case SettingType.BOOLEAN:
            return _checked_boolean(value, attr)
        case SettingType.INTEGER:
            return checked_int32(value, attr)
        case SettingType.CHOICE:
            if value not in choices:
                detail = f'"{cut_short(value)}" is not a valid choice.'
                raise Invalid(detail, attr=attr, code="invalid_choice")
            return value
        case SettingType.STRING | SettingType.TEXT:
            return _checked_text(value, attr)
        case SettingType.JSON:
            check_storable(value, attr)
            return value


def _checked_boolean(value: Any, attr: str) -> bool:
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise Invalid("Must be a valid boolean.", attr=attr)
    return value


def _checked_text(value: Any, attr: str) -> str:
    if not isinstance(value, str):
        raise Invalid("Not a valid string.", attr=attr)
    if len(value) > TEXT_MAX:
        raise Invalid(
            f"Ensure this field has no more than {TEXT_MAX} characters.",
            attr=attr,
            code="max_length",
        )
    check_storable(value, attr)
    return value
