"""Where an address is: PostHog's seven properties, those that are known, or nothing."""

from ipaddress import ip_address
from pathlib import Path

import pytest

from hedgerow.errors import Unready
from hedgerow.storage import geoip
from hedgerow.storage.geoip import GeoIp

PACKAGED = GeoIp("")


def test_a_known_address_has_seven_properties() -> None:
    assert PACKAGED.is_there
    assert PACKAGED.properties(ip_address("81.2.69.142")) == {
        "$geoip_city_name": "Willesden",
        "$geoip_country_name": "United Kingdom",
        "$geoip_country_code": "GB",
        "$geoip_continent_name": "Europe",
        "$geoip_continent_code": "EU",
        "$geoip_postal_code": "NW10",
        "$geoip_time_zone": "Europe/London",
    }


def test_what_is_not_known_is_left_out() -> None:
    found = PACKAGED.properties(ip_address("8.8.8.8"))
    assert found["$geoip_country_code"] == "US"
    assert "$geoip_city_name" not in found
    assert all(found.values())


def test_addresses_of_the_new_kind_are_known_too() -> None:
    found = PACKAGED.properties(ip_address("2001:4860:4860::8888"))
    assert found["$geoip_country_code"] == "US"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "::1",
        "::",
        "fd00::1",
        "fe80::1",
        "2001:db8::1",
    ],
)
def test_private_and_special_addresses_are_nowhere(address: str) -> None:
    assert PACKAGED.properties(ip_address(address)) == {}


def test_the_file_of_the_setting_is_used() -> None:
    packaged = GeoIp(geoip._packaged())
    assert packaged.properties(ip_address("81.2.69.142"))["$geoip_country_code"] == "GB"


def test_without_the_package_and_without_a_file_nobody_is_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(geoip, "_PACKAGE", "no_such_package_of_places")
    nowhere = GeoIp("")
    assert not nowhere.is_there
    assert nowhere.properties(ip_address("81.2.69.142")) == {}


@pytest.mark.parametrize("content", [None, b"", b"no such format", b"\x00" * 200_000])
def test_a_file_that_cannot_be_read_is_said_with_its_name(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "places.mmdb"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Unready, match=r"HEDGEROW_GEOIP_FILE, .*places\.mmdb, cannot be read"):
        GeoIp(str(file))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unready, match="HEDGEROW_GEOIP_FILE"):
        GeoIp(str(tmp_path))


def test_a_file_that_was_cut_short_does_no_harm(tmp_path: Path) -> None:
    """Its end says what it is, so a whole end on half a file opens; lookups find nonsense."""
    whole = Path(geoip._packaged()).read_bytes()
    file = tmp_path / "half.mmdb"
    file.write_bytes(whole[: len(whole) // 4] + whole[-200_000:])
    try:
        cut = GeoIp(str(file))
    except Unready:
        return
    for address in ("81.2.69.142", "8.8.8.8", "2001:4860:4860::8888"):
        assert isinstance(cut.properties(ip_address(address)), dict)
