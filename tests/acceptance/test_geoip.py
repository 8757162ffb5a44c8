"""Flags can target locations with the packaged GeoIP database."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import PROJECT_KEY, LiveServer, run_concurrently, run_hedgerow

LONDON, MOUNTAIN_VIEW = "81.2.69.142", "2001:4860:4860::8888"
CLIENT_HEADER, FORWARDED = "HTTP_X_FORWARDED_FOR", "X-Forwarded-For"


def _build_location_flag(key: str, value: str) -> dict[str, Any]:
    groups = [{"properties": [{"key": key, "operator": "exact", "value": value}]}]
    return {"filters": {"groups": groups}}


def _prepare(server: LiveServer) -> None:
    with server.client() as client:
        for key, flag in {
            "uk": _build_location_flag("$geoip_country_code", "GB"),
            "us": _build_location_flag("$geoip_country_code", "US"),
            "london-time": _build_location_flag("$geoip_time_zone", "Europe/London"),
        }.items():
            made = client.post("/api/projects/1/feature_flags/", json={"key": key, **flag})
            assert made.status_code == 201, made.text
        stored = {"distinct_ids": ["ann"], "properties": {"$geoip_country_code": "US"}}
        assert client.post("/api/projects/1/persons/", json=stored).status_code == 201


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("plain")) as server:
        _prepare(server)
        yield server


@pytest.fixture(scope="module")
def behind_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("proxy"), trusted_proxies="127.0.0.1") as server:
        _prepare(server)
        yield server


def _list_enabled_flags(server: LiveServer, headers: dict[str, str], **body: Any) -> set[str]:
    """Return the flags that are on for a request with these headers."""
    with server.client(key=None) as client:
        answer = client.post(
            "/decide?v=3",
            json={"api_key": PROJECT_KEY, "distinct_id": "user", **body},
            headers=headers,
        )
    assert answer.status_code == 200, answer.text
    assert answer.json()["errorsWhileComputingFlags"] is False
    return {key for key, value in answer.json()["featureFlags"].items() if value}


def test_posthog_header_sets_the_client_address(plain: LiveServer) -> None:
    assert _list_enabled_flags(plain, {CLIENT_HEADER: LONDON}) == {"uk", "london-time"}
    assert _list_enabled_flags(plain, {CLIENT_HEADER: MOUNTAIN_VIEW}) == {"us"}
    assert _list_enabled_flags(plain, {CLIENT_HEADER: f"{LONDON}, 10.0.0.1"}) == {
        "uk",
        "london-time",
    }


def test_posthog_header_takes_precedence_over_a_proxy_header(behind_proxy: LiveServer) -> None:
    assert _list_enabled_flags(behind_proxy, {CLIENT_HEADER: LONDON, FORWARDED: MOUNTAIN_VIEW}) == {
        "uk",
        "london-time",
    }


def test_trusted_proxy_sets_the_client_address(behind_proxy: LiveServer) -> None:
    for chain in (LONDON, f"{MOUNTAIN_VIEW}, {LONDON}"):
        browser = {"User-Agent": "Mozilla/5.0", FORWARDED: chain}
        assert _list_enabled_flags(behind_proxy, browser) == {"uk", "london-time"}


def test_standard_header_of_any_client_sets_the_address_of_the_user(plain: LiveServer) -> None:
    assert _list_enabled_flags(plain, {FORWARDED: LONDON}) == {"uk", "london-time"}
    assert _list_enabled_flags(plain, {}) == set()


def test_server_gets_the_stored_location_of_the_user(behind_proxy: LiveServer) -> None:
    """The server is in London, the user's events came from the United States."""
    for agent in ("posthog-python/7.1.0", "python-requests/2.32", "my-backend/1"):
        server = {"User-Agent": agent, FORWARDED: LONDON}
        assert _list_enabled_flags(behind_proxy, server, distinct_id="ann") == {"us"}
        assert _list_enabled_flags(behind_proxy, server, distinct_id="unknown") == set()
        stated = {**server, FORWARDED: f"{LONDON}, {MOUNTAIN_VIEW}"}
        assert _list_enabled_flags(behind_proxy, stated) == {"uk", "london-time"}
    browser = {"User-Agent": "Mozilla/5.0", FORWARDED: LONDON}
    assert _list_enabled_flags(behind_proxy, browser, distinct_id="ann") == {"uk", "london-time"}
    stated = {**server, CLIENT_HEADER: LONDON}
    assert _list_enabled_flags(behind_proxy, stated, distinct_id="ann") == {"uk", "london-time"}


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "192.168.0.1", "::1", "nonsense"])
def test_private_addresses_have_no_location(plain: LiveServer, address: str) -> None:
    assert _list_enabled_flags(plain, {CLIENT_HEADER: address}) == set()
    assert _list_enabled_flags(plain, {}) == set()


def test_request_properties_override_geoip(plain: LiveServer) -> None:
    given = {"person_properties": {"$geoip_country_code": "US"}}
    assert _list_enabled_flags(plain, {CLIENT_HEADER: LONDON}, **given) == {"us", "london-time"}


def test_geoip_overrides_stored_properties(plain: LiveServer) -> None:
    assert _list_enabled_flags(plain, {}, distinct_id="ann") == {"us"}
    assert _list_enabled_flags(plain, {CLIENT_HEADER: LONDON}, distinct_id="ann") == {
        "uk",
        "london-time",
    }


@pytest.mark.parametrize("disable", [True, "true", "1"])
def test_caller_can_disable_geoip(plain: LiveServer, disable: Any) -> None:
    assert _list_enabled_flags(plain, {CLIENT_HEADER: LONDON}, geoip_disable=disable) == set()
    assert (
        _list_enabled_flags(plain, {CLIENT_HEADER: LONDON}, disable_geoip=disable) == set()
    )  # posthog-python 3
    assert _list_enabled_flags(
        plain, {CLIENT_HEADER: LONDON}, distinct_id="ann", geoip_disable=disable
    ) == {"us"}
    assert _list_enabled_flags(plain, {CLIENT_HEADER: LONDON}, geoip_disable=False) == {
        "uk",
        "london-time",
    }


def test_flags_endpoint_uses_geoip_too(plain: LiveServer) -> None:
    with plain.client(key=None) as client:
        body = {"api_key": PROJECT_KEY, "distinct_id": "user"}
        answer = client.post("/flags?v=2", json=body, headers={CLIENT_HEADER: LONDON}).json()
    assert answer["flags"]["uk"]["enabled"] is True


def test_missing_or_broken_geoip_file_is_one_error_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mmdb"
    broken.write_bytes(b"no places here")
    files = {"missing": tmp_path / "missing.mmdb", "broken": broken, "folder": tmp_path}
    calls = [
        partial(
            run_hedgerow,
            "serve",
            "--port",
            "0",
            data=tmp_path / f"data-{name}",
            geoip_file=str(file),
        )
        for name, file in files.items()
    ]
    for done, file in zip(run_concurrently(calls), files.values(), strict=True):
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith(f"hedgerow: Cannot read HEDGEROW_GEOIP_FILE, {file}: ")
