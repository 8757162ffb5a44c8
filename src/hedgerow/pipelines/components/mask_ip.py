"""Mask IP addresses: where somebody is stays known roughly, or not at all."""

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import CONCERNED
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.transforming import Incoming, Transform

IP = "$ip"
# Whoever sends an event sends more of them.
KEPT = 10_000
# What is left of an address: the network of its site.
_MASK_4 = -1 << (32 - 24)
_MASK_6 = -1 << (128 - 48)


@lru_cache(maxsize=KEPT)
def masked(text: str) -> str | None:
    """None for what is no address: it cannot be known what it would tell."""
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

    def mask(event: Incoming) -> Incoming:
        given = event.properties.get(IP)
        if given is None:
            return event
        kept = None if removes or not isinstance(given, str) else masked(given)
        if kept == given:
            return event
        properties = dict(event.properties)
        if kept is None:
            del properties[IP]
        else:
            properties[IP] = kept
        return event.having(properties)

    return mask


COMPONENT = Component(
    key="hedgerow/mask-ip",
    family=Family.TRANSFORMATION,
    name="Mask IP addresses",
    description="Cuts addresses of senders short, or removes them, before events are stored.",
    version="1.0.0",
    settings=(
        SettingField(
            key="mode",
            name="Mode",
            type=SettingType.CHOICE,
            choices=("mask", "remove"),
            default="mask",
            hint="mask keeps the first 24 bits (IPv6: 48), enough for a country; remove keeps "
            "nothing, and no place is looked up.",
        ),
        *CONCERNED,
    ),
    transform=transform,
)
