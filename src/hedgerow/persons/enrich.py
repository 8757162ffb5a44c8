"""What an event says of its person without being asked: browser, campaign, place.

Nothing here changes the event: it is given back with more properties.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hedgerow.persons.known import Happening

Place = Callable[[str], Mapping[str, Any]]

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
_PLACE = (
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
# What a server says of its own machine is not so of the person.
_OF_THE_HOST = ("$os", "$os_version", "$os_name")


def _initial(name: str) -> str:
    return "$initial_" + name.replace("$", "", 1)


COPIED = {name: _initial(name) for name in (*_DEVICE, *_CAMPAIGN)}
_NOWHERE: dict[str, Any] = dict.fromkeys(_PLACE)
_NEVER_ANYWHERE: dict[str, Any] = {_initial(name): None for name in _PLACE}
_FIRST_PLACE = {name: _initial(name) for name in _PLACE}


class Enriched(NamedTuple):
    """`set` and `set_once` are those of the properties."""

    properties: dict[str, Any]
    set: dict[str, Any]
    set_once: dict[str, Any]


def enriched(event: Happening, place: Place) -> Enriched:
    properties = dict(event.properties)
    if event.ip:
        properties.setdefault("$ip", event.ip)
    found = _place(properties, place)
    copied = {name: properties[name] for name in properties if name in COPIED}
    if "$os" not in copied and "$os_name" in properties:
        copied["$os"] = properties["$os_name"]
    if properties.get("$is_server") is True:
        for name in _OF_THE_HOST:
            copied.pop(name, None)
    own_set, own_set_once = properties.get("$set"), properties.get("$set_once")
    to_set, to_set_once = (
        copied,
        {
            # A null here would keep the first real value out for good.
            COPIED[name]: value
            for name, value in copied.items()
            if value is not None
        },
    )
    if found:
        to_set |= _NOWHERE
        to_set_once |= _NEVER_ANYWHERE
    if isinstance(own_set, dict):
        to_set |= own_set
    if isinstance(own_set_once, dict):
        to_set_once |= own_set_once
    if found:
        properties.update(found)
        to_set.update(found)
        for name, value in found.items():
            to_set_once[_FIRST_PLACE.get(name) or _initial(name)] = value
    _keep(properties, "$set", to_set)
    _keep(properties, "$set_once", to_set_once)
    return Enriched(properties, to_set, to_set_once)


def _place(properties: dict[str, Any], place: Place) -> Mapping[str, Any]:
    if properties.get("$geoip_disable"):
        return {}
    ip = properties.get("$ip")
    return place(ip) if ip and isinstance(ip, str) else {}


def _keep(properties: dict[str, Any], name: str, values: dict[str, Any]) -> None:
    if values:
        properties[name] = values
    else:
        properties.pop(name, None)
