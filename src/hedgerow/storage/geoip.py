"""Where an address is, from a file in MaxMind's format. Without a file, nowhere."""

import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import maxminddb

from hedgerow.errors import Unready

Address = IPv4Address | IPv6Address

# The free file of 2018 that the extra `geoip` installs.
_PACKAGE = "_maxminddb_geolite2"
_FILE = "GeoLite2-City.mmdb"


class GeoIp:
    def __init__(self, file: str) -> None:
        path = file or _packaged()
        self.is_there = bool(path)
        self._reader: maxminddb.Reader | None = None
        if path:
            try:
                self._reader = maxminddb.open_database(path)
            except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
                raise Unready(f"HEDGEROW_GEOIP_FILE, {path}, cannot be read: {error}.") from None
        self.properties = lru_cache(maxsize=10_000)(self._properties)
        self.details = lru_cache(maxsize=10_000)(self._details)

    def _details(self, address: str) -> Mapping[str, Any]:
        """All that is known of an address's place, for events."""
        try:
            record = self._record(ip_address(address))
        except ValueError:
            return {}
        location = record.get("location")
        location = location if isinstance(location, dict) else {}
        known: dict[str, Any] = dict(_named(record))
        for name in ("latitude", "longitude", "accuracy_radius"):
            known[f"$geoip_{name}"] = location.get(name)
        subdivisions = record.get("subdivisions")
        parts = subdivisions if isinstance(subdivisions, list) else []
        for number, part in enumerate(parts[:2], start=1):
            known[f"$geoip_subdivision_{number}_code"] = _inside(part, "iso_code")
            known[f"$geoip_subdivision_{number}_name"] = _inside(part, "names", "en")
        return {name: value for name, value in known.items() if value not in (None, "")}

    def _properties(self, address: Address) -> Mapping[str, str]:
        """PostHog's seven properties of a place, those that are known."""
        return _named(self._record(address))

    def _record(self, address: Address) -> dict[str, Any]:
        """What the file says. Private addresses are nowhere."""
        if self._reader is None or not address.is_global:
            return {}
        try:
            found = self._reader.get(address)
        except (ValueError, maxminddb.InvalidDatabaseError):
            return {}
        return found if isinstance(found, dict) else {}


def _named(record: dict[str, Any]) -> dict[str, str]:
    known = {
        "$geoip_city_name": _inside(record, "city", "names", "en"),
        "$geoip_country_name": _inside(record, "country", "names", "en"),
        "$geoip_country_code": _inside(record, "country", "iso_code"),
        "$geoip_continent_name": _inside(record, "continent", "names", "en"),
        "$geoip_continent_code": _inside(record, "continent", "code"),
        "$geoip_postal_code": _inside(record, "postal", "code"),
        "$geoip_time_zone": _inside(record, "location", "time_zone"),
    }
    return {name: value for name, value in known.items() if value}


def _inside(record: Any, *names: str) -> str:
    for name in names:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, str) else ""


def _packaged() -> str:
    spec = importlib.util.find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = [Path(place) / _FILE for place in places if (Path(place) / _FILE).exists()]
    return str(found[0]) if found else ""
