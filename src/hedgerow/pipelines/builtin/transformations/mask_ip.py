"""Mask IP addresses: truncates or removes the address of the client."""

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from hedgerow.plugin.component import Component, Family, SettingField, SettingType
from hedgerow.plugin.presets import TRANSFORMATION_FILTER_SETTINGS
from hedgerow.plugin.transform import IncomingEvent, Transform

IP = "$ip"
# Addresses repeat: a client sends many events.
CACHE_SIZE = 10_000
# The part of an address that is kept: the network of the site.
_MASK_4 = -1 << (32 - 24)
_MASK_6 = -1 << (128 - 48)


@lru_cache(maxsize=CACHE_SIZE)
def mask_address(text: str) -> str | None:
    """Truncate an address; None if it is not an address, because it may be anything."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if isinstance(address, IPv4Address):
        return str(IPv4Address(int(address) & _MASK_4))
    return str(IPv6Address(int(address) & _MASK_6))


def transform(settings: Mapping[str, Any]) -> Transform:
    removes = settings["mode"] == "remove"

    def mask(event: IncomingEvent) -> IncomingEvent:
        address = event.properties.get(IP)
        if address is None:
            return event
        masked = None if removes or not isinstance(address, str) else mask_address(address)
        if masked == address:
            return event
        properties = dict(event.properties)
        if masked is None:
            del properties[IP]
        else:
            properties[IP] = masked
        return event.with_properties(properties)

    return mask


COMPONENT = Component(
    key="hedgerow/mask-ip",
    family=Family.TRANSFORMATION,
    name="Mask IP addresses",
    description="Truncates or removes the IP address of the client before events are stored.",
    version="1.0.0",
    settings=(
        SettingField(
            key="mode",
            name="Mode",
            type=SettingType.CHOICE,
            choices=("mask", "remove"),
            default="mask",
            hint="mask keeps the first 24 bits (IPv6: 48), enough for a country; remove deletes "
            "the address, so no location is looked up.",
        ),
        *TRANSFORMATION_FILTER_SETTINGS,
    ),
    transform=transform,
)
