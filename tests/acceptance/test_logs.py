"""Logs: one line per request that tells enough, and never a key, whatever goes wrong."""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.support.live import PERSONAL_KEY, LiveServer, read_error, run_concurrently, wait_for

WRONG_KEY = "phx_0123456789abcdefghijABCDEFGHIJ"
DESTINATIONS = "/api/environments/1/pipeline_destination_configs/"
FORMATS = pytest.mark.parametrize("log_format", ["auto", "human"])


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, LiveServer]]:
    """One server for each look of the lines, which has seen keys everywhere and has failed."""
    folders = [tmp_path_factory.mktemp("logs") for _ in range(2)]
    with LiveServer(folders[0]) as auto, LiveServer(folders[1], log_format="human") as human:
        for server in (auto, human):
            _send_keys_everywhere(server)
        for folder in folders:
            _take_a_table_away(folder)
        run_concurrently([partial(_fail, auto), partial(_fail, human)])
        yield {"auto": auto, "human": human}


def _send_keys_everywhere(server: LiveServer) -> None:
    with server.client(None) as client:
        for key, status in ((PERSONAL_KEY, 200), (WRONG_KEY, 401)):
            bearer = {"Authorization": f"Bearer {key}"}
            query = {"personal_api_key": key}
            assert client.get("/api/users/@me/", headers=bearer).status_code == status
            assert client.get("/api/users/@me/", params=query).status_code == status
            assert client.patch("/api/projects/1/", json=query).status_code == status
            assert client.patch("/api/projects/1/", data=query).status_code == status
            assert client.get(f"/api/nothing/{key}/", headers=bearer).status_code == 404
            assert client.get(f"/{key}", params=query).status_code == 404
            assert client.get(f"/api/projects/{key}/", headers=bearer).status_code in (401, 404)
            assert client.request(key, "/", headers=bearer).status_code == 400  # no such method
            client.get("/api/users/@me/", headers={"User-Agent": key, "Referer": key})
            client.post("/api/projects/", content=f'{{"{key}', headers=bearer)


def _take_a_table_away(data: Path) -> None:
    """So that something happens that nobody foresaw."""
    with closing(sqlite3.connect(data / "hedgerow.db")) as connection:
        connection.execute("ALTER TABLE pipeline_records RENAME TO hidden")
        connection.commit()


def _fail(server: LiveServer) -> None:
    with server.client() as client:
        for key in (None, PERSONAL_KEY):
            failed = client.get(DESTINATIONS, params={"personal_api_key": key} if key else None)
            assert (failed.status_code, read_error(failed)["type"]) == (500, "server_error")
            assert "pipeline_records" not in failed.text
        client.get("/api/users/@me/", headers={"X-Request-Id": "the-last-one"})
    wait_for(lambda: "the-last-one" in server.errors, at_most_s=60)


@FORMATS
def test_no_line_holds_a_key(servers: Mapping[str, LiveServer], log_format: str) -> None:
    said = servers[log_format].errors
    assert "no such table" in said  # a failure was logged, so there was something to hide
    for key in (PERSONAL_KEY, WRONG_KEY):
        assert key not in said, said[said.index(key) - 300 :][:400]


@FORMATS
def test_a_failure_is_logged_with_the_id_of_its_request_in_a_page_or_so(
    servers: Mapping[str, LiveServer], log_format: str
) -> None:
    said = servers[log_format].errors
    assert said.count("request failed") == 2
    assert len(said) < 60_000


@FORMATS
def test_a_key_sent_as_a_request_id_is_not_logged(
    servers: Mapping[str, LiveServer], log_format: str
) -> None:
    server = servers[log_format]
    key = "phx_sent-as-a-request-id-by-mistake"
    with server.client() as client:
        client.get("/api/users/@me/", headers={"X-Request-Id": key})
        client.get("/api/users/@me/", headers={"X-Request-Id": "the-one-after"})
    wait_for(lambda: "the-one-after" in server.errors, at_most_s=60)
    assert key not in server.errors


def test_lines_are_json_when_they_do_not_go_to_a_terminal(
    servers: Mapping[str, LiveServer],
) -> None:
    line = servers["auto"].request_lines[0]
    assert (line["route"], line["status"], line["method"]) == ("/api/users/@me/", 200, "GET")
    assert list(line["phases_ms"]) == ["access", "answer"]
    assert 0 <= sum(line["phases_ms"].values()) <= line["ms"] + 0.1
    assert line["level"] == "info"


def test_each_request_has_one_line_and_an_id_of_its_own(
    servers: Mapping[str, LiveServer],
) -> None:
    lines = servers["auto"].request_lines
    ours = [line["request_id"] for line in lines if "-one" not in line["request_id"]]
    assert len(set(ours)) == len(ours)
    assert [line["status"] for line in lines].count(404) == 5
    assert {line["route"] for line in lines} <= {
        "unmatched",
        "/api/users/@me/",
        "/api/projects/",
        "/api/projects/{project_id}/",
        "/api/environments/{project_id}/pipeline_destination_configs/",
    }


def test_lines_are_for_people_when_asked_for(servers: Mapping[str, LiveServer]) -> None:
    line = servers["human"].errors.splitlines()
    assert [one for one in line if one.startswith("{")] == []
    wanted = r"\d\d:\d\d:\d\d 200 GET    /api/users/@me/  \d+\.\d ms  access=\d.+"
    assert any(re.fullmatch(wanted, one) for one in line)


def test_an_answer_names_the_id_of_its_line_and_probes_leave_none(live: LiveServer) -> None:
    with live.client() as client:
        for probe in ("/_liveness", "/_readiness", "/metrics"):
            assert client.get(probe, headers={"X-Request-Id": "a-probe"}).status_code == 200
        own = client.get("/api/projects/").headers["x-request-id"]
        theirs = client.get("/api/projects/", headers={"X-Request-Id": "trace-7"})
        assert theirs.headers["x-request-id"] == "trace-7"
    wait_for(lambda: "trace-7" in live.errors, at_most_s=60)
    ids = [line["request_id"] for line in live.request_lines]
    assert own in ids
    assert "a-probe" not in ids
