"""Derive person properties from an event: browser, campaign, location.

The event itself is not changed; the result holds a copy of its properties.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hedgerow.ingestion.model import CapturedEvent

# Returns the GeoIP properties of an IP address.
LocateIp = Callable[[str], Mapping[str, Any]]

_DEVICE = (
    "$app_build",
    "$app_name",
    "$app_namespace",
    "$app_version",
    "$browser",
    "$browser_version",
    "$device_type",
    "$current_url",
    "$pathname",
    "$os",
    "$os_version",
    "$referring_domain",
    "$referrer",
    "$screen_height",
    "$screen_width",
    "$viewport_height",
    "$viewport_width",
    "$raw_user_agent",
)
_CAMPAIGN = (
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_content",
    "utm_name",
    "utm_term",
    "gclid",
    "gad_source",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "fbclid",
    "msclkid",
    "twclid",
    "li_fat_id",
    "mc_cid",
    "igshid",
    "ttclid",
    "rdt_cid",
    "irclid",
    "_kx",
    "epik",
    "qclid",
    "sccid",
)
_LOCATION = (
    "$geoip_city_name",
    "$geoip_country_name",
    "$geoip_country_code",
    "$geoip_continent_name",
    "$geoip_continent_code",
    "$geoip_postal_code",
    "$geoip_latitude",
    "$geoip_longitude",
    "$geoip_accuracy_radius",
    "$geoip_time_zone",
    "$geoip_subdivision_1_code",
    "$geoip_subdivision_1_name",
    "$geoip_subdivision_2_code",
    "$geoip_subdivision_2_name",
)
# A server SDK sends these about its host, not about the person.
_HOST_PROPERTIES = ("$os", "$os_version", "$os_name")


def _initial_name(name: str) -> str:
    return "$initial_" + name.replace("$", "", 1)


COPIED_PROPERTIES = {name: _initial_name(name) for name in (*_DEVICE, *_CAMPAIGN)}
_NO_LOCATION: dict[str, Any] = dict.fromkeys(_LOCATION)
_NO_INITIAL_LOCATION: dict[str, Any] = {_initial_name(name): None for name in _LOCATION}
_INITIAL_LOCATION = {name: _initial_name(name) for name in _LOCATION}


class Enrichment(NamedTuple):
    """`set` and `set_once` are the values of `$set` and `$set_once` in `properties`."""

    properties: dict[str, Any]
    set: dict[str, Any]
    set_once: dict[str, Any]


def enrich(event: CapturedEvent, locate_ip: LocateIp) -> Enrichment:
    properties = dict(event.properties)
    if event.ip:
        properties.setdefault("$ip", event.ip)
    location = _find_location(properties, locate_ip)
    copied = {name: properties[name] for name in properties if name in COPIED_PROPERTIES}
    if "$os" not in copied and "$os_name" in properties:
        copied["$os"] = properties["$os_name"]
    if properties.get("$is_server") is True:
        for name in _HOST_PROPERTIES:
            copied.pop(name, None)
    own_set, own_set_once = properties.get("$set"), properties.get("$set_once")
    to_set, to_set_once = (
        copied,
        {
            # A null would block the first real value for good.
            COPIED_PROPERTIES[name]: value
            for name, value in copied.items()
            if value is not None
        },
    )
    if location:
        to_set |= _NO_LOCATION
        to_set_once |= _NO_INITIAL_LOCATION
    if isinstance(own_set, dict):
        to_set |= own_set
    if isinstance(own_set_once, dict):
        to_set_once |= own_set_once
    if location:
        properties.update(location)
        to_set.update(location)
        for name, value in location.items():
            to_set_once[_INITIAL_LOCATION.get(name) or _initial_name(name)] = value
    _put_or_remove(properties, "$set", to_set)
    _put_or_remove(properties, "$set_once", to_set_once)
    return Enrichment(properties, to_set, to_set_once)


def _find_location(properties: dict[str, Any], locate_ip: LocateIp) -> Mapping[str, Any]:
    if properties.get("$geoip_disable"):
        return {}
    ip = properties.get("$ip")
    return locate_ip(ip) if ip and isinstance(ip, str) else {}


def _put_or_remove(properties: dict[str, Any], name: str, values: dict[str, Any]) -> None:
    if values:
        properties[name] = values
    else:
        properties.pop(name, None)
