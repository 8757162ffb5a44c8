"""GeoIP lookup: PostHog's seven properties, or those that are known."""

from ipaddress import ip_address
from pathlib import Path

import pytest

from hedgerow.errors import OperatorError
from hedgerow.outbound import geoip
from hedgerow.outbound.countries import CONTINENTS, COUNTRIES
from hedgerow.outbound.geoip import GeoIp, describe_geoip

PACKAGED = GeoIp("")


def test_known_address_has_seven_properties() -> None:
    assert PACKAGED.is_available
    assert PACKAGED.properties(ip_address("81.2.69.142")) == {
        "$geoip_city_name": "Willesden",
        "$geoip_country_name": "United Kingdom",
        "$geoip_country_code": "GB",
        "$geoip_continent_name": "Europe",
        "$geoip_continent_code": "EU",
        "$geoip_postal_code": "NW10",
        "$geoip_time_zone": "Europe/London",
    }


def test_unknown_properties_are_omitted() -> None:
    found = PACKAGED.properties(ip_address("8.8.8.8"))
    assert found["$geoip_country_code"] == "US"
    assert "$geoip_city_name" not in found
    assert all(found.values())


def test_ipv6_addresses_are_supported() -> None:
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
def test_private_and_special_addresses_have_no_location(address: str) -> None:
    assert PACKAGED.properties(ip_address(address)) == {}


def test_configured_file_is_used() -> None:
    packaged = GeoIp(geoip._find_packaged_file())
    assert packaged.properties(ip_address("81.2.69.142"))["$geoip_country_code"] == "GB"


def test_no_location_without_package_and_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(geoip, "_PACKAGE", "no_such_package_of_places")
    monkeypatch.setattr(geoip, "_COUNTRY_PACKAGE", "no_such_package_of_countries")
    nowhere = GeoIp("")
    assert not nowhere.is_available
    assert nowhere.properties(ip_address("81.2.69.142")) == {}


@pytest.mark.parametrize("content", [None, b"", b"no such format", b"\x00" * 200_000])
def test_error_names_the_unreadable_file(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "places.mmdb"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(OperatorError, match=r"Cannot read HEDGEROW_GEOIP_FILE, .*places\.mmdb"):
        GeoIp(str(file))


def test_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="HEDGEROW_GEOIP_FILE"):
        GeoIp(str(tmp_path))


def test_truncated_file_returns_no_location(tmp_path: Path) -> None:
    """The metadata is at the end, so a truncated file with a valid end opens; lookups fail."""
    whole = Path(geoip._find_packaged_file()).read_bytes()
    file = tmp_path / "half.mmdb"
    file.write_bytes(whole[: len(whole) // 4] + whole[-200_000:])
    try:
        cut = GeoIp(str(file))
    except OperatorError:
        return
    for address in ("81.2.69.142", "8.8.8.8", "2001:4860:4860::8888"):
        assert isinstance(cut.properties(ip_address(address)), dict)


@pytest.fixture
def countries(monkeypatch: pytest.MonkeyPatch) -> GeoIp:
    """A default installation: no file, and no package with one."""
    pytest.importorskip("iptocc")
    monkeypatch.setattr(geoip, "_PACKAGE", "no_such_package_of_places")
    return GeoIp("")


def test_the_country_is_known_without_a_file(countries: GeoIp) -> None:
    assert countries.is_available
    expected = {
        "$geoip_country_name": "United Kingdom",
        "$geoip_country_code": "GB",
        "$geoip_continent_name": "Europe",
        "$geoip_continent_code": "EU",
    }
    assert countries.properties(ip_address("81.2.69.142")) == expected
    assert countries.details("81.2.69.142") == expected
    assert countries.details("2001:4860:4860::8888")["$geoip_country_code"] == "US"
    assert countries.details("::ffff:8.8.8.8") == {}


@pytest.mark.parametrize("address", ["10.1.2.3", "127.0.0.1", "::1", "2001:db8::1", "nonsense"])
def test_other_addresses_have_no_country(countries: GeoIp, address: str) -> None:
    assert countries.details(address) == {}


def test_every_country_has_a_name_and_a_continent() -> None:
    assert len(COUNTRIES) == 250
    assert all(len(code) == 2 and code.isupper() for code in COUNTRIES)
    assert all(name and continent in CONTINENTS for name, continent in COUNTRIES.values())
    assert len({name for name, _ in COUNTRIES.values()}) == len(COUNTRIES)


def test_a_region_is_no_country() -> None:
    assert geoip._build_country_record("EU") == {}
    assert geoip._build_country_record("AP") == {}


def test_doctor_says_where_locations_come_from(
    countries: GeoIp, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe_geoip("/a/file.mmdb") == "locations from /a/file.mmdb"
    assert describe_geoip("").startswith("countries and continents from iptocc ")
    monkeypatch.setattr(geoip, "_COUNTRY_PACKAGE", "no_such_package_of_countries")
    assert describe_geoip("").startswith("no locations: the package ")
