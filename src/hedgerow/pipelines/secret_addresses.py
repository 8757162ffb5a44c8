"""Keeps a secret from being sent to an address that its owner did not choose.

A key that may change settings must not read secrets. It could, if it changed the address and kept
the secret: so a change of the address requires the secrets again. Pure.
"""

import re
from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.pipelines.config import MASK
from hedgerow.plugin.component import Component, SettingField, SettingType

# Words in the key of a setting that holds an address, unless the component declares otherwise.
ADDRESS_WORDS = frozenset(
    {
        *("address", "addresses", "broker", "brokers", "dsn", "domain", "endpoint", "host"),
        *("hostname", "hosts", "ip", "origin", "port", "proxy", "region", "server", "servers"),
        *("site", "subdomain", "uri", "url", "urls", "webhook"),
    }
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\](:\d+)?|([\w-]+\.)+[\w-]*[A-Za-z][\w-]*(:\d+)?(/\S*)?")
_IPV4 = re.compile(r"\d+(\.\d+){3}(:\d+)?(/\S*)?")


def check_secrets_sent_again(
    component: Component,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    given: Mapping[str, Any],
) -> None:
    """Raise Invalid if an address changes while stored secrets stay. `before` and `after` are
    stored settings, `given` the settings that the client sent."""
    kept = [
        field.key
        for field in component.settings
        if field.secret
        and field.key in before
        and field.key in after
        and given.get(field.key) in (None, MASK)
    ]
    if not kept:
        return
    for field in component.settings:
        old, new = (each.get(field.key, field.default) for each in (before, after))
        if not jsonio.is_equal(old, new) and is_address(field, old, new):
            raise Invalid(
                f"`{field.key}` decides where secrets are sent. To change it, send these settings "
                f"again in the same request: {', '.join(kept)}.",
                attr=f"config__{field.key}",
            )


def is_address(field: SettingField, *values: Any) -> bool:
    """Whether a setting decides where a component connects: declared, or recognized by its key or
    by one of its values."""
    if field.secret or field.site:
        return False
    if field.is_address is not None:
        return field.is_address
    if any(word.lower() in ADDRESS_WORDS for word in _WORDS.findall(field.key)):
        return True
    return field.type is SettingType.STRING and any(map(_looks_like_address, values))


def _looks_like_address(value: Any) -> bool:
    return isinstance(value, str) and any(
        pattern.fullmatch(value.strip()) for pattern in (_URL, _HOST, _IPV4)
    )
