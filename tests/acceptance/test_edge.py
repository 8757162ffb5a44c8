"""`hedgerow edge` beside a real origin: the same answers, changes, and the origin away."""

import json
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.edge import FLAGS, LiveEdge, Origin, create_flag, rotate_secret
from tests.support.live import PROJECT_KEY, Installation, run_hedgerow, wait_for


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    made = Origin(Installation(data=tmp_path_factory.mktemp("origin"), settings={}))
    try:
        yield made
    finally:
        made.server.stop()


@pytest.fixture(scope="module")
def edge(origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEdge]:
    """An edge process that does not poll: changes arrive by its stream."""
    data = tmp_path_factory.mktemp("edge")
    settings = {"edge_poll_interval_s": "3600"}
    with LiveEdge(data, origin.address, origin.secret, **settings) as running:
        yield running


def decide(address: str, path: str = "/decide?v=4", **body: Any) -> dict[str, Any]:
    sent = {"api_key": PROJECT_KEY, "distinct_id": "ann", **body}
    answer = httpx.post(address + path, json=sent, timeout=60, verify=False)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    for each in ("requestId", "evaluatedAt"):
        found.pop(each, None)
    return found


def read_values(address: str, token: str = PROJECT_KEY) -> dict[str, Any]:
    properties = {"plan": "pro"}
    found = decide(address, "/decide?v=3", api_key=token, person_properties=properties)
    values: dict[str, Any] = found["featureFlags"]
    return values


def count_forwarded(address: str) -> float:
    text = httpx.get(f"{address}/metrics", timeout=60, verify=False).text
    found = re.search(r"^hedgerow_edge_requests_forwarded_total (\S+)", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_edge_answers_as_its_origin(origin: Origin, edge: LiveEdge) -> None:
    paths = [f"/decide?v={number}" for number in (1, 2, 3, 4)]
    for path in (*paths, "/flags?v=2", "/flags?v=1&config=true", "/flags"):
        for plan in ("pro", "free"):
            for id in ("ann", "ben", "eve"):
                body = {"distinct_id": id, "person_properties": {"plan": plan}}
                assert decide(edge.address, path, **body) == decide(origin.address, path, **body)
    ofrep = {"context": {"targetingKey": "ann", "plan": "pro"}}
    key = {"Authorization": f"Bearer {PROJECT_KEY}"}
    for path in ("/ofrep/v1/evaluate/flags", "/ofrep/v1/evaluate/flags/remote"):
        ours, theirs = (
            httpx.post(each + path, json=ofrep, headers=key, timeout=60, verify=False)
            for each in (edge.address, origin.address)
        )
        assert (ours.status_code, ours.json()) == (200, theirs.json())
        assert ours.headers.get("etag") == theirs.headers.get("etag")
    secret = {"Authorization": f"Bearer {origin.secret}"}
    for path in ("/flags/definitions", "/api/feature_flag/local_evaluation?send_cohorts"):
        ours, theirs = (
            httpx.get(each + path, headers=secret, timeout=60, verify=False)
            for each in (edge.address, origin.address)
        )
        assert ours.json() == theirs.json()
        assert ours.headers["etag"] == theirs.headers["etag"]
    config = f"/array/{PROJECT_KEY}/config"
    assert (
        httpx.get(edge.address + config, verify=False).json()
        == httpx.get(origin.address + config, verify=False).json()
    )
    # All of this from memory.
    assert count_forwarded(edge.address) == 0
    # What it cannot answer, it refuses as the service does.
    unknown = httpx.post(
        f"{edge.address}/decide", json={"api_key": "phc_x", "distinct_id": "a"}, verify=False
    )
    assert (unknown.status_code, unknown.json()["code"]) == (401, "invalid_api_key")
    assert (
        httpx.get(f"{edge.address}/flags/definitions", headers=key, verify=False).status_code == 401
    )
    assert (
        httpx.get(f"{edge.address}/api/projects/", headers=secret, verify=False).status_code == 404
    )
    preflight = httpx.options(
        f"{edge.address}/decide",
        headers={"Origin": "https://a.example", "Access-Control-Request-Method": "POST"},
    )
    assert preflight.headers["access-control-allow-origin"] == "https://a.example"


def read_payload(address: str, flag: str, key: str, project: str = "@current") -> Any:
    path = f"/api/projects/{project}/feature_flags/{flag}/remote_config?token={PROJECT_KEY}"
    answer = httpx.get(
        address + path, headers={"Authorization": f"Bearer {key}"}, timeout=60, verify=False
    )
    return answer.status_code, answer.json()


def test_servers_read_payloads_of_remote_configurations(origin: Origin, tmp_path: Path) -> None:
    secret = {
        "key": "secret-limits",
        "is_remote_configuration": True,
        "has_encrypted_payloads": True,
        "filters": {"groups": [{"properties": []}], "payloads": {"true": '{"limit": 7}'}},
    }
    with origin.server.client() as client:
        create_flag(client, 1, secret)
        found = client.get("/api/projects/1/feature_flags/remote/").json()
    with LiveEdge(tmp_path, origin.address, origin.secret) as edge:
        wait_for(lambda: "secret-limits" in read_values(edge.address), 60)
        for flag in ("remote", str(found["id"]), "secret-limits", "all", "missing"):
            for key in (origin.secret, origin.second_secret, PROJECT_KEY):
                for project in ("@current", "1", str(origin.second_id)):
                    theirs = read_payload(origin.address, flag, key, project)
                    assert read_payload(edge.address, flag, key, project)[0] == theirs[0]
        assert read_payload(edge.address, "remote", origin.secret) == (200, '{"color": "red"}')
        assert read_payload(edge.address, "secret-limits", origin.secret) == (200, '{"limit": 7}')
        assert count_forwarded(edge.address) > 0
        origin.server.kill()
        assert read_payload(edge.address, "remote", origin.secret) == (200, '{"color": "red"}')
        assert read_payload(edge.address, "secret-limits", origin.secret)[0] == 503
        origin.start()


def test_edge_asks_its_origin_for_stored_data(origin: Origin, edge: LiveEdge) -> None:
    """A captured event is the origin's when it is acknowledged, so the next evaluation sees it."""
    before = count_forwarded(edge.address)
    event = {"event": "$identify", "distinct_id": "cy", "$set": {"plan": "pro"}}
    sent = httpx.post(
        f"{edge.address}/capture/", json={"api_key": PROJECT_KEY, **event}, timeout=60, verify=False
    )
    assert (sent.status_code, sent.json()) == (200, {"status": 1})
    found = decide(edge.address, "/decide?v=3", distinct_id="cy")
    assert found["featureFlags"]["pro"] is True
    assert found["errorsWhileComputingFlags"] is False
    assert count_forwarded(edge.address) == before + 2


def test_changes_arrive_without_polling(origin: Origin, edge: LiveEdge) -> None:
    with origin.server.client() as client:
        id = create_flag(client, 1, {**FLAGS[0], "key": "new"})
        wait_for(lambda: read_values(edge.address).get("new") is True, 30)
        flag = f"/api/projects/1/feature_flags/{id}/"
        client.patch(flag, json={"active": False})
        wait_for(lambda: read_values(edge.address).get("new") is False, 30)
        client.patch(flag, json={"deleted": True})
        wait_for(lambda: "new" not in read_values(edge.address), 30)


def test_pages_learn_of_changes(origin: Origin, edge: LiveEdge) -> None:
    """The OFREP event stream, at both. The first event says that there may have been a change."""
    key = {"Authorization": f"Bearer {PROJECT_KEY}"}
    for address in (origin.address, edge.address):
        found = httpx.post(
            f"{address}/ofrep/v1/evaluate/flags",
            json={"context": {"targetingKey": "ann"}},
            headers=key,
            timeout=60,
            verify=False,
        )
        [stream] = found.json()["eventStreams"]
        url = address + stream["endpoint"]["requestUri"]
        headers = {"Origin": "https://shop.example"}
        with (
            origin.server.client() as client,
            httpx.stream("GET", url, headers=headers, timeout=60, verify=False) as answer,
        ):
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["access-control-allow-origin"] == "*"
            lines = answer.iter_lines()
            first = _read_event(lines)
            id = create_flag(client, 1, {**FLAGS[0], "key": f"streamed-{address[-5:]}"})
            second = _read_event(lines)
            assert second["etag"] != first["etag"]
            client.patch(f"/api/projects/1/feature_flags/{id}/", json={"deleted": True})
            last = _read_event(lines)["etag"]
            # A client that has seen the last change gets the next one.
            headers["Last-Event-ID"] = last
            with httpx.stream("GET", url, headers=headers, timeout=60, verify=False) as answer:
                client.patch(f"/api/projects/1/feature_flags/{id}/", json={"deleted": False})
                assert _read_event(answer.iter_lines())["etag"] != last
            client.patch(f"/api/projects/1/feature_flags/{id}/", json={"deleted": True})
        unknown = httpx.get(f"{address}/ofrep/v1/events?token=phc_x", timeout=60, verify=False)
        assert (unknown.status_code, unknown.json()["code"]) == (401, "invalid_api_key")


def _read_event(lines: Iterator[str]) -> dict[str, Any]:
    line = next(line for line in lines if line.startswith("data: "))
    event: dict[str, Any] = json.loads(line.removeprefix("data: "))
    assert event["type"] == "refetchEvaluation"
    return event


def test_edge_survives_its_origin(origin: Origin, tmp_path: Path) -> None:
    data = tmp_path / "edge"
    with LiveEdge(data, origin.address, origin.secret) as edge:
        before = read_values(edge.address)
        origin.server.kill()
        assert read_values(edge.address) == before
        # Without the stored plan, this flag is unknown, and the response says so.
        found = decide(edge.address, "/decide?v=3", distinct_id="dan")
        assert found["errorsWhileComputingFlags"] is True
        assert found["featureFlags"].keys() == before.keys() - {"pro"}
        # The origin may know this key.
        refused = httpx.post(
            f"{edge.address}/capture/",
            json={"api_key": "phc_unknown", "event": "e", "distinct_id": "dan"},
            timeout=60,
            verify=False,
        )
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert httpx.get(f"{edge.address}/_readiness", verify=False).status_code == 200
    # A restart while the origin accepts connections and never answers.
    with socket.create_server(("127.0.0.1", int(origin.port))):
        settings = {"edge_forward_timeout_s": "0.5"}
        with LiveEdge(data, origin.address, origin.secret, **settings) as edge:
            assert read_values(edge.address) == before
            found = decide(edge.address, "/decide?v=3", distinct_id="dan")
            assert found["errorsWhileComputingFlags"] is True
    # A restart without the origin.
    with LiveEdge(data, origin.address, origin.secret) as edge:
        assert read_values(edge.address) == before
        with origin.start().client() as client:
            id = create_flag(client, 1, {**FLAGS[0], "key": "after"})
            wait_for(lambda: read_values(edge.address).get("after") is True, 60)
            client.patch(f"/api/projects/1/feature_flags/{id}/", json={"deleted": True})
    [copy] = (data / "edge").iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert origin.secret not in copy.read_text()
    # A damaged copy is no reason to fail while the origin is there.
    copy.write_text("{")
    with LiveEdge(data, origin.address, origin.secret) as edge:
        assert read_values(edge.address) == before
        assert "cannot be used" in edge.errors


def test_two_projects(origin: Origin, tmp_path: Path) -> None:
    keys = (origin.secret, origin.second_secret)
    with LiveEdge(tmp_path / "edge", origin.address, *keys) as edge:
        assert read_values(edge.address, origin.second_token) == {"other": True}
        assert "other" not in read_values(edge.address)
        assert f"Projects:  1 (Default project), {origin.second_id} (second)" in edge.output


def test_wrong_key(origin: Origin, tmp_path: Path) -> None:
    done = run_hedgerow(
        *("edge", "--from", origin.address, "--port", "0"),
        data=tmp_path / "edge",
        edge_keys="phs_this-key-is-not-known-here",
    )
    assert done.returncode == 1
    assert "refuses the key phs_…here: 401" in done.stderr
    for settings, message in (
        ({}, "needs HEDGEROW_EDGE_KEYS"),
        ({"edge_keys": "phc_a"}, "must be secret keys"),
    ):
        done = run_hedgerow("edge", "--from", origin.address, data=tmp_path, **settings)
        assert done.returncode == 1
        assert message in done.stderr


def test_revoked_key_does_not_stop_the_flags(origin: Origin, tmp_path: Path) -> None:
    with origin.server.client() as client:
        keys = {"Authorization": f"Bearer {origin.second_secret}"}
        with LiveEdge(tmp_path / "edge", origin.address, origin.second_secret) as edge:
            definitions = f"{edge.address}/flags/definitions"
            assert httpx.get(definitions, headers=keys, verify=False).status_code == 200
            # The previous key stays valid for one rotation.
            rotate_secret(client, origin.second_id)
            origin.second_secret = rotate_secret(client, origin.second_id)
            # The next change ends the stream of the revoked key, else the next heartbeat.
            create_flag(client, origin.second_id, {**FLAGS[0], "key": "unseen"})
            wait_for(
                lambda: httpx.get(definitions, headers=keys, verify=False).status_code == 401, 60
            )
            assert read_values(edge.address, origin.second_token) == {"other": True}
            assert "it refuses the key" in edge.errors
            with suppress(AssertionError):
                edge.stop(signal.SIGTERM)
            assert edge.process.returncode == 0
