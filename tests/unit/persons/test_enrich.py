"""What goes into `$set` without being asked: device, campaign, place."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from hedgerow.persons.enrich import enriched
from tests.happenings import happening, nowhere


def berlin(ip: str) -> Mapping[str, Any]:
    assert ip == "192.0.2.1"
    return {"$geoip_city_name": "Berlin", "$geoip_latitude": 52.5}


def of(properties: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    before = deepcopy(properties)
    more = enriched(happening(properties=properties), nowhere)
    assert properties == before
    assert more.properties.get("$set", {}) == more.set
    assert more.properties.get("$set_once", {}) == more.set_once
    return more.set, more.set_once


def test_device_and_campaign_are_copied() -> None:
    assert of({"$browser": "Firefox", "utm_source": "x", "_kx": 1, "other": 1, "$lib": "web"}) == (
        {"$browser": "Firefox", "utm_source": "x", "_kx": 1},
        {"$initial_browser": "Firefox", "$initial_utm_source": "x", "$initial__kx": 1},
    )
    assert of({"other": 1}) == ({}, {})


def test_what_is_set_explicitly_wins() -> None:
    properties = {
        "$os": "Linux",
        "$set": {"$os": "Plan 9", "a": 1},
        "$set_once": {"$initial_os": "CP/M", "b": 1},
    }
    assert of(properties) == ({"$os": "Plan 9", "a": 1}, {"$initial_os": "CP/M", "b": 1})


def test_the_name_of_the_system_stands_in_for_it() -> None:
    assert of({"$os_name": "iOS"}) == ({"$os": "iOS"}, {"$initial_os": "iOS"})
    assert of({"$os_name": "iOS", "$os": "iPadOS"})[0] == {"$os": "iPadOS"}


def test_a_null_does_not_keep_the_first_value_out() -> None:
    assert of({"gclid": None}) == ({"gclid": None}, {})


def test_a_servers_machine_is_not_the_persons() -> None:
    properties = {"$is_server": True, "$os": "Linux", "$os_version": "6", "$browser": "x"}
    assert of(properties) == ({"$browser": "x"}, {"$initial_browser": "x"})
    assert of({"$is_server": True, "$os_name": "Linux"}) == ({}, {})


@pytest.mark.parametrize("value", ["text", 5, None, ["a"], True])
def test_what_is_no_object_is_left_out(value: object) -> None:
    assert of({"$set": value, "$set_once": value, "$os": "Linux"}) == (
        {"$os": "Linux"},
        {"$initial_os": "Linux"},
    )


def test_a_place_is_on_the_event_and_on_the_person() -> None:
    more = enriched(happening(ip="192.0.2.1"), berlin)
    assert more.properties["$geoip_city_name"] == "Berlin"
    assert "$geoip_country_code" not in more.properties
    assert more.set["$geoip_city_name"] == "Berlin"
    assert more.set["$geoip_country_code"] is None
    assert more.set_once["$initial_geoip_latitude"] == 52.5
    assert more.set_once["$initial_geoip_country_code"] is None
    assert len(more.set) == len(more.set_once) == 14


def test_a_place_that_was_found_wins_and_one_that_was_not_does_not() -> None:
    given = {"$geoip_city_name": "Bonn", "$geoip_country_code": "DE"}
    more = enriched(happening(properties={"$set": given}, ip="192.0.2.1"), berlin)
    assert more.set["$geoip_city_name"] == "Berlin"
    assert more.set["$geoip_country_code"] == "DE"


def test_the_address_is_that_of_the_event_first() -> None:
    more = enriched(happening(properties={"$ip": "192.0.2.1"}, ip="198.51.100.7"), berlin)
    assert more.properties["$ip"] == "192.0.2.1"
    assert more.set["$geoip_city_name"] == "Berlin"
    assert enriched(happening(ip="192.0.2.1"), nowhere).properties == {"$ip": "192.0.2.1"}


@pytest.mark.parametrize(
    "properties", [{"$geoip_disable": True, "$ip": "192.0.2.1"}, {"$ip": ""}, {"$ip": 5}, {}]
)
def test_no_place_where_none_is_wanted_or_known(properties: dict[str, Any]) -> None:
    assert of(properties) == ({}, {})
    assert not enriched(happening(properties=properties), berlin).set
