"""A record's settings: checked against the component's schema, secrets encrypted and masked.

Pure, given a cipher. Stored settings hold a secret as {"$sealed": "…"}.
"""

import contextlib
from collections.abc import Collection, Mapping
from typing import Any

from hedgerow.errors import Conflict, Invalid
from hedgerow.lib import jsonio
from hedgerow.lib.encryption import Cipher, DecryptionError
from hedgerow.lib.text import parse_whole_number, truncate
from hedgerow.pipelines.model import INT32_MAX, INT32_MIN
from hedgerow.plugin.component import Component, SettingField, SettingType
from hedgerow.projects.validation import check_storable

# Shown instead of a secret. A client that sends it back leaves the secret unchanged.
MASK = "**************** POSTHOG SECRET FIELD ****************"
ENCRYPTED_KEY = "$sealed"
TEXT_MAX = 100_000


def mask_settings(component: Component, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return every setting for display: the stored value or the default, secrets masked."""
    return {
        field.key: MASK
        if field.key in stored and (field.secret or is_encrypted(stored[field.key]))
        else stored.get(field.key, field.default)
        for field in component.settings
    }


def select_site_settings(component: Component, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that web pages may see."""
    return {
        # A value that was stored as a secret stays hidden, even if the schema has changed.
        field.key: field.default
        if is_encrypted(stored.get(field.key))
        else stored.get(field.key, field.default)
        for field in component.settings
        if field.site
    }


def decrypt_settings(
    component: Component, stored: Mapping[str, Any], cipher: Cipher
) -> dict[str, Any]:
    """Return every setting as the component receives it, decrypted."""
    try:
        return {
            field.key: cipher.decrypt(stored[field.key][ENCRYPTED_KEY])
            if field.secret and is_encrypted(stored.get(field.key))
            else stored.get(field.key, field.default)
            for field in component.settings
        }
    except DecryptionError:
        raise Conflict(
            "The secrets of this record are encrypted with a key that is not configured. "
            "Restore the key, or set the secrets again."
        ) from None


def merge_settings(
    component: Component, stored: Mapping[str, Any], changes: Mapping[str, Any], cipher: Cipher
) -> dict[str, Any]:
    """Return the stored settings after a change of some of them.

    The mask or null leaves a secret unchanged, and "" clears a setting, as does the default of a
    secret. Raises Invalid for the first value that breaks its rule.
    """
    fields_by_key = {field.key: field for field in component.settings}
    for key in changes:
        if key not in fields_by_key:
            raise Invalid(
                f'Unknown setting "{key}" of {component.name}. '
                f"Expected one of: {', '.join(fields_by_key)}.",
                attr=f"config__{key}",
            )
    result = {key: value for key, value in stored.items() if key in fields_by_key}
    for key, value in changes.items():
        field = fields_by_key[key]
        if field.secret and value in (MASK, None):
            continue
        if value is None or value == "":
            result.pop(key, None)
        else:
            parsed = parse_value(field.type, field.choices, value, f"config__{key}")
            if field.secret and jsonio.is_equal(parsed, field.default):
                result.pop(key, None)  # nothing secret, and not to be masked
            elif not _is_unchanged(field, stored.get(key), parsed, cipher):
                result[key] = {ENCRYPTED_KEY: cipher.encrypt(parsed)} if field.secret else parsed
    return result


def replace_settings(
    component: Component, stored: Mapping[str, Any], changes: Mapping[str, Any], cipher: Cipher
) -> dict[str, Any]:
    """Return the stored settings after replacing all of them. Secrets that are left out stay."""
    secrets = {key: value for key, value in stored.items() if key in component.secret_keys}
    return merge_settings(component, secrets, changes, cipher)


def reencrypt_settings(stored: Mapping[str, Any], cipher: Cipher) -> dict[str, Any]:
    """Encrypt every secret with the newest key. Secrets with an unknown key stay unchanged."""
    result = dict(stored)
    for key, value in stored.items():
        if is_encrypted(value) and isinstance(value[ENCRYPTED_KEY], str):
            with contextlib.suppress(DecryptionError):
                result[key] = {ENCRYPTED_KEY: cipher.encrypt(cipher.decrypt(value[ENCRYPTED_KEY]))}
    return result


def parse_form(component: Component, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Parse JSON settings of a form, which has only text."""
    as_json = {field.key for field in component.settings if field.type is SettingType.JSON}
    return {
        key: _parse_json_text(value) if key in as_json and isinstance(value, str) else value
        for key, value in changes.items()
    }


def _parse_json_text(text: str) -> Any:
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


def _is_unchanged(field: SettingField, stored: Any, value: Any, cipher: Cipher) -> bool:
    """Compare secrets decrypted, because encryption gives a different text each time."""
    if not (field.secret and is_encrypted(stored)):
        return jsonio.is_equal(stored, value)
    try:
        return jsonio.is_equal(cipher.decrypt(stored[ENCRYPTED_KEY]), value)
    except DecryptionError:
        return False


def is_encrypted(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {ENCRYPTED_KEY}


def parse_value(type: SettingType, choices: Collection[str], value: Any, attr: str) -> Any:
    """Return the value converted to its type, or raise Invalid."""
    match type:
        case SettingType.BOOLEAN:
            return _parse_boolean(value, attr)
        case SettingType.INTEGER:
            return parse_int32(value, attr)
        case SettingType.CHOICE:
            if value not in choices:
                detail = f'"{truncate(value)}" is not a valid choice.'
                raise Invalid(detail, attr=attr, code="invalid_choice")
            return value
        case SettingType.STRING | SettingType.TEXT:
            return _parse_text(value, attr)
        case SettingType.JSON:
            check_storable(value, attr)
            return value


def _parse_boolean(value: Any, attr: str) -> bool:
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise Invalid("Must be a valid boolean.", attr=attr)
    return value


def _parse_text(value: Any, attr: str) -> str:
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


def parse_int32(value: Any, attr: str) -> int:
    if isinstance(value, str):
        value = parse_whole_number(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid("A valid integer is required.", attr=attr)
    if value > INT32_MAX:
        raise int32_overflow(attr)
    if value < INT32_MIN:
        raise Invalid(
            f"Ensure this value is greater than or equal to {INT32_MIN}.",
            attr=attr,
            code="min_value",
        )
    return value


def int32_overflow(attr: str) -> Invalid:
    return Invalid(
        f"Ensure this value is less than or equal to {INT32_MAX}.", attr=attr, code="max_value"
    )
