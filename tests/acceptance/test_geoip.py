"""Flags can ask where somebody is, with the file that the package brings."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.live import PROJECT_KEY, LiveServer, run_hedgerow, side_by_side

LONDON, MOUNTAIN_VIEW = "81.2.69.142", "2001:4860:4860::8888"
SAID, FORWARDED = "HTTP_X_FORWARDED_FOR", "X-Forwarded-For"


def _asks(key: str, value: str) -> dict[str, Any]:
    groups = [{"properties": [{"key": key, "operator": "exact", "value": value}]}]
    return {"filters": {"groups": groups}}


def _prepare(server: LiveServer) -> None:
    with server.client() as client:
        for key, flag in {
            "uk": _asks("$geoip_country_code", "GB"),
            "us": _asks("$geoip_country_code", "US"),
            "london-time": _asks("$geoip_time_zone", "Europe/London"),
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


def _on(server: LiveServer, headers: dict[str, str], **body: Any) -> set[str]:
    """The flags that are on for somebody who comes so."""
    with server.client(key=None) as client:
        answer = client.post(
            "/decide?v=3",
            json={"api_key": PROJECT_KEY, "distinct_id": "somebody", **body},
            headers=headers,
        )
    assert answer.status_code == 200, answer.text
    assert answer.json()["errorsWhileComputingFlags"] is False
    return {key for key, value in answer.json()["featureFlags"].items() if value}


def test_the_header_of_posthog_says_where_somebody_is(plain: LiveServer) -> None:
    assert _on(plain, {SAID: LONDON}) == {"uk", "london-time"}
    assert _on(plain, {SAID: MOUNTAIN_VIEW}) == {"us"}
    assert _on(plain, {SAID: f"{LONDON}, 10.0.0.1"}) == {"uk", "london-time"}


def test_the_header_of_posthog_goes_before_a_proxys(behind_proxy: LiveServer) -> None:
    assert _on(behind_proxy, {SAID: LONDON, FORWARDED: MOUNTAIN_VIEW}) == {"uk", "london-time"}


def test_a_trusted_proxy_says_where_somebody_is(behind_proxy: LiveServer) -> None:
    assert _on(behind_proxy, {FORWARDED: LONDON}) == {"uk", "london-time"}
    assert _on(behind_proxy, {FORWARDED: f"{MOUNTAIN_VIEW}, {LONDON}"}) == {"uk", "london-time"}


def test_anybody_else_who_forwards_is_not_believed(plain: LiveServer) -> None:
    assert _on(plain, {FORWARDED: LONDON}) == set()


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "192.168.0.1", "::1", "nonsense"])
def test_private_addresses_are_nowhere(plain: LiveServer, address: str) -> None:
    assert _on(plain, {SAID: address}) == set()
    assert _on(plain, {}) == set()


def test_what_the_caller_says_beats_the_address(plain: LiveServer) -> None:
    given = {"person_properties": {"$geoip_country_code": "US"}}
    assert _on(plain, {SAID: LONDON}, **given) == {"us", "london-time"}


def test_the_address_beats_what_is_stored(plain: LiveServer) -> None:
    assert _on(plain, {}, distinct_id="ann") == {"us"}
    assert _on(plain, {SAID: LONDON}, distinct_id="ann") == {"uk", "london-time"}


@pytest.mark.parametrize("disable", [True, "true", "1"])
def test_geoip_can_be_switched_off_by_the_caller(plain: LiveServer, disable: Any) -> None:
    assert _on(plain, {SAID: LONDON}, geoip_disable=disable) == set()
    assert _on(plain, {SAID: LONDON}, disable_geoip=disable) == set()  # posthog-python 3
    assert _on(plain, {SAID: LONDON}, distinct_id="ann", geoip_disable=disable) == {"us"}
    assert _on(plain, {SAID: LONDON}, geoip_disable=False) == {"uk", "london-time"}


def test_flags_answers_alike(plain: LiveServer) -> None:
    with plain.client(key=None) as client:
        body = {"api_key": PROJECT_KEY, "distinct_id": "somebody"}
        answer = client.post("/flags?v=2", json=body, headers={SAID: LONDON}).json()
    assert answer["flags"]["uk"]["enabled"] is True


def test_a_file_that_is_missing_or_broken_is_one_line_at_the_start(tmp_path: Path) -> None:
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
    for done, file in zip(side_by_side(calls), files.values(), strict=True):
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith(f"hedgerow: HEDGEROW_GEOIP_FILE, {file}, cannot be read: ")
