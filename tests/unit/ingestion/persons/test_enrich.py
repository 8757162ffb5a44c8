"""Derived person properties: device, campaign, location."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from hedgerow.ingestion.persons.enrich import enrich
from tests.support.factories import captured_event, no_location


def berlin(ip: str) -> Mapping[str, Any]:
    assert ip == "192.0.2.1"
    return {"$geoip_city_name": "Berlin", "$geoip_latitude": 52.5}


def derive(properties: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    before = deepcopy(properties)
    enriched = enrich(captured_event(properties=properties), no_location)
    assert properties == before
    assert enriched.properties.get("$set", {}) == enriched.set
    assert enriched.properties.get("$set_once", {}) == enriched.set_once
    return enriched.set, enriched.set_once


def test_device_and_campaign_are_copied() -> None:
    assert derive(
        {"$browser": "Firefox", "utm_source": "x", "_kx": 1, "other": 1, "$lib": "web"}
    ) == (
        {"$browser": "Firefox", "utm_source": "x", "_kx": 1},
        {"$initial_browser": "Firefox", "$initial_utm_source": "x", "$initial__kx": 1},
    )
    assert derive({"other": 1}) == ({}, {})


def test_explicit_values_take_precedence() -> None:
    properties = {
        "$os": "Linux",
        "$set": {"$os": "Plan 9", "a": 1},
        "$set_once": {"$initial_os": "CP/M", "b": 1},
    }
    assert derive(properties) == ({"$os": "Plan 9", "a": 1}, {"$initial_os": "CP/M", "b": 1})


def test_os_falls_back_to_os_name() -> None:
    assert derive({"$os_name": "iOS"}) == ({"$os": "iOS"}, {"$initial_os": "iOS"})
    assert derive({"$os_name": "iOS", "$os": "iPadOS"})[0] == {"$os": "iPadOS"}


def test_null_sets_no_initial_value() -> None:
    assert derive({"gclid": None}) == ({"gclid": None}, {})


def test_os_of_a_server_is_not_copied() -> None:
    properties = {"$is_server": True, "$os": "Linux", "$os_version": "6", "$browser": "x"}
    assert derive(properties) == ({"$browser": "x"}, {"$initial_browser": "x"})
    assert derive({"$is_server": True, "$os_name": "Linux"}) == ({}, {})


@pytest.mark.parametrize("value", ["text", 5, None, ["a"], True])
def test_set_that_is_not_an_object_is_ignored(value: object) -> None:
    assert derive({"$set": value, "$set_once": value, "$os": "Linux"}) == (
        {"$os": "Linux"},
        {"$initial_os": "Linux"},
    )


def test_location_is_set_on_event_and_person() -> None:
    enriched = enrich(captured_event(ip="192.0.2.1"), berlin)
    assert enriched.properties["$geoip_city_name"] == "Berlin"
    assert "$geoip_country_code" not in enriched.properties
    assert enriched.set["$geoip_city_name"] == "Berlin"
    assert enriched.set["$geoip_country_code"] is None
    assert enriched.set_once["$initial_geoip_latitude"] == 52.5
    assert enriched.set_once["$initial_geoip_country_code"] is None
    assert len(enriched.set) == len(enriched.set_once) == 14


def test_found_location_overrides_sent_values() -> None:
    sent = {"$geoip_city_name": "Bonn", "$geoip_country_code": "DE"}
    enriched = enrich(captured_event(properties={"$set": sent}, ip="192.0.2.1"), berlin)
    assert enriched.set["$geoip_city_name"] == "Berlin"
    assert enriched.set["$geoip_country_code"] == "DE"


def test_ip_of_the_event_properties_takes_precedence() -> None:
    enriched = enrich(captured_event(properties={"$ip": "192.0.2.1"}, ip="198.51.100.7"), berlin)
    assert enriched.properties["$ip"] == "192.0.2.1"
    assert enriched.set["$geoip_city_name"] == "Berlin"
    assert enrich(captured_event(ip="192.0.2.1"), no_location).properties == {"$ip": "192.0.2.1"}


@pytest.mark.parametrize(
    "properties", [{"$geoip_disable": True, "$ip": "192.0.2.1"}, {"$ip": ""}, {"$ip": 5}, {}]
)
def test_no_location_if_disabled_or_without_an_ip(properties: dict[str, Any]) -> None:
    assert derive(properties) == ({}, {})
    assert not enrich(captured_event(properties=properties), berlin).set
