"""GeoIP lookup in a MaxMind database file, or of the country alone without a file."""

import importlib.util
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import maxminddb

from hedgerow.errors import OperatorError
from hedgerow.outbound.countries import CONTINENTS, COUNTRIES

Address = IPv4Address | IPv6Address

# The free database of 2018 that the extra `geoip` installs.
_PACKAGE = "_maxminddb_geolite2"
_FILE = "GeoLite2-City.mmdb"
# Knows the country to which a registry assigned an address. A release has the data of its day.
_COUNTRY_PACKAGE = "iptocc"

FindCountry = Callable[[str], str | None]


class GeoIp:
    def __init__(self, file: str) -> None:
        path = file or _find_packaged_file()
        self._find_country = None if path else _load_country_package()
        self.is_available = bool(path) or self._find_country is not None
        self._reader: maxminddb.Reader | None = None
        if path:
            try:
                self._reader = maxminddb.open_database(path)
            except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
                raise OperatorError(f"Cannot read HEDGEROW_GEOIP_FILE, {path}: {error}.") from None
        self.properties = lru_cache(maxsize=10_000)(self._properties)
        self.details = lru_cache(maxsize=10_000)(self._details)

    def _details(self, address: str) -> Mapping[str, Any]:
        """Return all GeoIP properties of an address, for events."""
        try:
            record = self._lookup(ip_address(address))
        except ValueError:
            return {}
        location = record.get("location")
        location = location if isinstance(location, dict) else {}
        known: dict[str, Any] = dict(_build_properties(record))
        for name in ("latitude", "longitude", "accuracy_radius"):
            known[f"$geoip_{name}"] = location.get(name)
        subdivisions = record.get("subdivisions")
        parts = subdivisions if isinstance(subdivisions, list) else []
        for number, part in enumerate(parts[:2], start=1):
            known[f"$geoip_subdivision_{number}_code"] = _get_text(part, "iso_code")
            known[f"$geoip_subdivision_{number}_name"] = _get_text(part, "names", "en")
        return {name: value for name, value in known.items() if value not in (None, "")}

    def _properties(self, address: Address) -> Mapping[str, str]:
        """Return those of PostHog's seven GeoIP properties that are known, for flags."""
        return _build_properties(self._lookup(address))

    def _lookup(self, address: Address) -> dict[str, Any]:
        """Look up an address. Private addresses have no record."""
        if not address.is_global:
            return {}
        if self._reader is None:
            code = self._find_country(str(address)) if self._find_country else None
            return _build_country_record(code) if code else {}
        try:
            found = self._reader.get(address)
        except (ValueError, maxminddb.InvalidDatabaseError):
            return {}
        return found if isinstance(found, dict) else {}


def _build_properties(record: dict[str, Any]) -> dict[str, str]:
    known = {
        "$geoip_city_name": _get_text(record, "city", "names", "en"),
        "$geoip_country_name": _get_text(record, "country", "names", "en"),
        "$geoip_country_code": _get_text(record, "country", "iso_code"),
        "$geoip_continent_name": _get_text(record, "continent", "names", "en"),
        "$geoip_continent_code": _get_text(record, "continent", "code"),
        "$geoip_postal_code": _get_text(record, "postal", "code"),
        "$geoip_time_zone": _get_text(record, "location", "time_zone"),
    }
    return {name: value for name, value in known.items() if value}


def _get_text(record: Any, *names: str) -> str:
    for name in names:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, str) else ""


def _build_country_record(code: str) -> dict[str, Any]:
    """Return what is known of a country as MaxMind's files have it; empty for a region such as EU,
    which is no country."""
    if code not in COUNTRIES:
        return {}
    name, continent = COUNTRIES[code]
    return {
        "country": {"iso_code": code, "names": {"en": name}},
        "continent": {"code": continent, "names": {"en": CONTINENTS[continent]}},
    }


def describe_geoip(file: str) -> str:
    """Say where locations come from, for `hedgerow doctor`."""
    if path := file or _find_packaged_file():
        return f"locations from {path}"
    city = "Set HEDGEROW_GEOIP_FILE for cities and time zones."
    if importlib.util.find_spec(_COUNTRY_PACKAGE) is None:
        return f"no locations: the package {_COUNTRY_PACKAGE} is missing. {city}"
    return f"countries and continents from {_COUNTRY_PACKAGE} {version(_COUNTRY_PACKAGE)}. {city}"


def _load_country_package() -> FindCountry | None:
    """Platforms without a wheel can lack the package."""
    if importlib.util.find_spec(_COUNTRY_PACKAGE) is None:
        return None
    find_country: FindCountry = import_module(_COUNTRY_PACKAGE).country_code
    return find_country


def _find_packaged_file() -> str:
    spec = importlib.util.find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [Path(folder) / _FILE for folder in folders if (Path(folder) / _FILE).exists()]
    return str(found[0]) if found else ""
