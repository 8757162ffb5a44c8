"""Captured events at `hedgerow edge` while its origin is away: the same answers, and later the same
events as if the origin had been there.
"""

import base64
import gzip
import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest

from tests.support.edge import LiveEdge, Origin, query
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.live import PROJECT_KEY, Installation, run_hedgerow, run_in_process, wait_for

TIMEOUT_S = 120


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[Origin]:
    made = Origin(Installation(data=tmp_path / "origin", settings={}))
    try:
        yield made
    finally:
        made.server.stop()


def read_inbox(edge: LiveEdge) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{edge.address}/_readiness", verify=False).json()["inbox"]
    return found


def wait_until_sent(edge: LiveEdge) -> None:
    wait_for(lambda: read_inbox(edge)["requests"] == 0, TIMEOUT_S)


def build_event(name: str, **more: Any) -> dict[str, Any]:
    return {"event": name, "distinct_id": f"id of {name}", "properties": {"a": "ü"}, **more}


def build_requests() -> dict[str, dict[str, Any]]:
    """Requests by name: what httpx sends. The events of each have its name."""

    def single(name: str) -> bytes:
        return json.dumps({"api_key": PROJECT_KEY, **build_event(name)}).encode()

    def batch(name: str, number: int = 2) -> bytes:
        events = [build_event(name) for _ in range(number)]
        return json.dumps({"api_key": PROJECT_KEY, "batch": events}).encode()

    plain = {"Content-Type": "application/json"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    basic = base64.b64encode(f"{PROJECT_KEY}:".encode()).decode()
    segment = {**plain, "Authorization": f"Basic {basic}"}
    uuid = "0198f3f5-0000-7000-8000-0000000000aa"
    v1_event = {**build_event("v1"), "uuid": uuid, "timestamp": "2026-01-01T00:00:00Z"}
    found: dict[str, dict[str, Any]] = {
        path: {"url": path, "content": single(path), "headers": plain}
        for path in ("/e/", "/capture/", "/capture", "/track/", "/i/v0/e/")
    }
    found |= {
        path: {"url": path, "content": batch(path), "headers": plain}
        for path in ("/batch/", "/i/v0/ai/batch")
    }
    found["large"] = {"url": "/batch/", "content": batch("large", 5000), "headers": plain}
    found["gzip"] = {
        "url": "/e/?compression=gzip-js",
        "content": gzip.compress(batch("gzip")),
        "headers": {"Content-Type": "text/plain"},
    }
    found["encoded"] = {
        "url": "/batch/",
        "content": gzip.compress(batch("encoded", 3000)),
        "headers": {**plain, "Content-Encoding": "gzip"},
    }
    data = base64.b64encode(single("form")).decode()
    found["form"] = {
        "url": "/e/",
        "content": urlencode({"data": data}).encode(),
        "headers": form,
    }
    found["beacon"] = {"url": "/e/?beacon=1", "content": single("beacon"), "headers": plain}
    query_data = quote(base64.b64encode(single("query")))
    found["query"] = {"method": "GET", "url": f"/e/?data={query_data}"}
    found["$identify"] = {
        "url": "/engage/",
        "content": json.dumps(
            {"api_key": PROJECT_KEY, "distinct_id": "engaged", "$set": {"plan": "pro"}}
        ).encode(),
        "headers": plain,
    }
    found["v1"] = {
        "url": "/i/v1/analytics/events",
        "content": json.dumps(
            {
                "created_at": "2026-01-01T00:00:00Z",
                "historical_migration": False,
                "batch": [v1_event],
            }
        ).encode(),
        "headers": {
            **plain,
            "Authorization": f"Bearer {PROJECT_KEY}",
            "PostHog-Sdk-Info": "python/7",
            "PostHog-Request-Timestamp": "2026-01-01T00:00:00Z",
        },
    }
    found["segment"] = {
        "url": "/v1/track",
        "content": json.dumps({"event": "segment", "userId": "sue"}).encode(),
        "headers": segment,
    }
    found["segment batch"] = {
        "url": "/v1/batch",
        "content": json.dumps(
            {"batch": [{"type": "track", "event": "segment batch", "userId": "sue"}]}
        ).encode(),
        "headers": segment,
    }
    return found


def build_invalid_requests() -> list[dict[str, Any]]:
    key = {"api_key": PROJECT_KEY}
    bodies: list[Any] = [
        {},
        [],
        {**key, "batch": []},
        {**key, "event": "no id"},
        {**key, **build_event("large"), "properties": {"text": "x" * 1_100_000}},
        {**key, "batch": [build_event("good"), {"event": "bad"}]},
        {"event": "no key", "distinct_id": "a"},
        {**build_event("a secret key"), "api_key": "phx_secret"},
        {**key, **build_event("bad uuid"), "uuid": "no"},
    ]
    contents = [json.dumps(each).encode() for each in bodies]
    return [
        *({"url": path, "content": each} for each in contents for path in ("/e/", "/v1/track")),
        {"url": "/e/", "content": b"{not json"},
        {"url": "/e/?compression=gzip-js", "content": b"not gzip"},
        {"url": "/i/v1/analytics/events", "content": b"{}"},
        {"method": "PUT", "url": "/e/", "content": b""},
    ]


def send(address: str, request: dict[str, Any]) -> httpx.Response:
    call = {"method": "POST", **request, "url": address + request["url"]}
    return httpx.request(**call, timeout=TIMEOUT_S, verify=False)


def describe(answer: httpx.Response) -> tuple[int, bytes, str | None]:
    return answer.status_code, answer.content, answer.headers.get("content-type")


def test_all_paths_answer_as_the_origin_and_arrive_once(origin: Origin, tmp_path: Path) -> None:
    good, bad = build_requests(), build_invalid_requests()
    with LiveEdge(tmp_path / "edge", origin.address, origin.secret) as edge:
        expected = {name: describe(send(origin.address, each)) for name, each in good.items()}
        expected_bad = [describe(send(origin.address, each)) for each in bad]
        assert {each[0] for each in expected.values()} == {200, 204}
        sent = {name: describe(send(edge.address, each)) for name, each in good.items()}
        assert sent == expected
        assert [describe(send(edge.address, each)) for each in bad] == expected_bad
        assert read_inbox(edge)["requests"] == 0
        origin.server.kill()
        for name, each in good.items():
            assert describe(send(edge.address, each)) == expected[name], name
        for each, answer in zip(bad, expected_bad, strict=True):
            assert describe(send(edge.address, each)) == answer, each
        # One of the invalid requests has a valid event.
        assert read_inbox(edge)["requests"] == len(good) + 1
        origin.start()
        wait_until_sent(edge)
        # Read after write holds again.
        assert send(edge.address, good["/e/"]).status_code == 200
        assert read_inbox(edge)["requests"] == 0
        assert read_inbox(edge)["dead_letters"] == 0
    numbers = dict(query(origin, "SELECT event, count() FROM events GROUP BY event"))
    sizes = {"/batch/": 2, "/i/v0/ai/batch": 2, "large": 5000, "gzip": 2, "encoded": 3000}
    for name in good:
        # Sent to the origin, through the edge, and from its inbox. Two have uuids of their own.
        times = 1 if name == "v1" else 4 if name == "/e/" else 3
        assert numbers[name] == times * sizes.get(name, 1), name
    assert numbers["good"] == 3


def test_stored_events_have_the_time_and_address_of_their_arrival(
    origin: Origin, tmp_path: Path
) -> None:
    settings = {"trusted_proxies": "127.0.0.1"}
    with LiveEdge(tmp_path / "edge", origin.address, origin.secret, **settings) as edge:
        origin.server.kill()
    # Away at the start, too.
    with LiveEdge(tmp_path / "edge", origin.address, origin.secret, **settings) as edge:
        before = time.time()
        for name, more in (
            ("plain", {}),
            ("offset", {"offset": 60_000}),
            ("skewed", {"timestamp": "2026-01-01T00:00:00Z"}),
        ):
            body = {"batch": [build_event(name, **more)], "sent_at": "2026-01-01T00:01:00Z"}
            answer = httpx.post(
                f"{edge.address}/batch/",
                json={"api_key": PROJECT_KEY, **body},
                headers={
                    "X-Forwarded-For": "203.0.113.7",
                    # Only an edge process may send this.
                    "X-Hedgerow-Edge": f"{origin.secret} 1 {'0' * 20} 192.0.2.1",
                },
                timeout=TIMEOUT_S,
                verify=False,
            )
            assert answer.status_code == 200, answer.text
        after = time.time()
        wait_for(lambda: time.time() > after + 3, TIMEOUT_S)
        assert read_inbox(edge)["oldest_age_s"] >= 3
        origin.start()
        wait_until_sent(edge)
    rows = query(origin, "SELECT event, timestamp, properties.$ip, created_at FROM events")
    assert {row[0] for row in rows} == {"plain", "offset", "skewed"}
    for event, timestamp, ip, created_at in rows:
        arrival = parse(timestamp) + (0 if event == "plain" else 60)
        assert before - 0.001 <= arrival <= after, event
        assert ip == "203.0.113.7"
        assert parse(created_at) > after + 3


def parse(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_receipts_need_the_key_of_the_project(origin: Origin) -> None:
    """Only with it the origin dates events as the sender says."""

    def capture(key: str, header: str) -> httpx.Response:
        return httpx.post(
            f"{origin.address}/e/",
            json={"api_key": PROJECT_KEY, **build_event("dated")},
            headers={"X-Hedgerow-Edge": header.replace("KEY", key)},
            timeout=TIMEOUT_S,
            verify=False,
        )

    dated = f"KEY 1767225600000000 {'0' * 20} 192.0.2.1"
    for key in ("phs_unknown", origin.second_secret, PROJECT_KEY, "phx_unknown"):
        refused = capture(key, dated)
        assert (refused.status_code, refused.json()["code"]) == (403, "edge_key_refused")
    for header in (
        "KEY",
        "KEY x",
        f"KEY 1 {'0' * 19}",
        f"{dated}.5",
        f"KEY 9{'9' * 30} {'0' * 20}",
    ):
        refused = capture(origin.secret, header)
        assert (refused.status_code, refused.json()["code"]) == (400, "parse_error"), header
    # A clock that is wrong does not count.
    for moment in ("0", "9" * 17):
        assert capture(origin.secret, f"KEY {moment} {'1' * 20}").status_code == 200
    for _ in range(3):
        assert capture(origin.secret, dated).status_code == 200
    wait_for(
        lambda: len(query(origin, "SELECT uuid FROM events WHERE event = 'dated'")) == 3, TIMEOUT_S
    )
    rows = query(origin, "SELECT toYear(timestamp), properties.$ip FROM events ORDER BY timestamp")
    assert rows[0] == [2026, "192.0.2.1"]
    assert query(origin, "SELECT min(timestamp) FROM events")[0][0].startswith(
        "2026-01-01T00:00:00"
    )


def test_what_the_origin_refuses_for_good(origin: Origin, tmp_path: Path) -> None:
    data = tmp_path / "edge"
    keys = (origin.secret, origin.second_secret)

    def capture(edge: LiveEdge, token: str, name: str) -> int:
        body = {"api_key": token, **build_event(name)}
        return httpx.post(
            f"{edge.address}/e/", json=body, timeout=TIMEOUT_S, verify=False
        ).status_code

    with LiveEdge(data, origin.address, *keys) as edge:
        origin.server.kill()
        assert capture(edge, origin.second_token, "refused") == 200
        assert capture(edge, PROJECT_KEY, "kept") == 200
    with origin.start().client() as client:
        changed = client.patch(f"/api/projects/{origin.second_id}/reset_token/?grace_period_s=0")
        assert changed.status_code == 200, changed.text
    with LiveEdge(data, origin.address, *keys) as edge:
        wait_for(lambda: read_inbox(edge)["requests"] == 0, TIMEOUT_S)
        assert read_inbox(edge)["dead_letters"] == 1
        assert edge.errors.count("refuses a stored request") == 1
        found = json.loads(run_in_process("edge-inbox", "list", "--json", data=data).stdout)
        assert found["waiting"] == {"requests": 0, "bytes": 0, "oldest": None}
        [dead] = found["dead_letters"]
        assert (dead["project_id"], dead["path"]) == (origin.second_id, "/e/")
        assert dead["reason"].startswith("401 Project API key invalid")
        assert "401 Project API key" in run_in_process("edge-inbox", "list", data=data).stdout
        # A running edge process tries it again.
        assert "1 request(s)" in run_in_process("edge-inbox", "retry", data=data).stdout
        wait_for(lambda: edge.errors.count("refuses a stored request") == 2, TIMEOUT_S)
        done = run_in_process("edge-inbox", "discard", "--json", data=data)
        assert (done.returncode, "--yes" in done.stderr) == (1, True)
        done = run_in_process("edge-inbox", "discard", "--json", "--yes", data=data)
        assert json.loads(done.stdout) == {"requests": 1}
        wait_for(lambda: read_inbox(edge)["dead_letters"] == 0, TIMEOUT_S)
        # With a key that the origin refuses, events are those of any client, and are not stored.
        assert [row[0] for row in query(origin, "SELECT event FROM events")] == ["kept"]
    missing = run_in_process("edge-inbox", "list", data=tmp_path / "other")
    assert "There is no inbox" in missing.stderr


def test_a_request_that_the_origin_fails_at_is_set_aside(origin: Origin, tmp_path: Path) -> None:
    """A proxy in front of the origin answers 500 to one of the requests."""
    data = tmp_path / "edge"
    with (
        FaultyProxy(origin.address) as proxy,
        LiveEdge(data, proxy.address, origin.secret, edge_inbox_give_up_s="1") as edge,
    ):

        def capture(name: str, suffix: str = "", **more: Any) -> None:
            body = {"api_key": PROJECT_KEY, **build_event(name, **more)}
            answer = httpx.post(
                f"{edge.address}/e/{suffix}", json=body, timeout=TIMEOUT_S, verify=False
            )
            assert answer.status_code == 200, answer.text

        proxy.fail(Fault.ANSWERS_502, containing="/e/")
        capture("before", distinct_id="ann")
        capture("failing", "?case=failing", distinct_id="ann")
        capture("after", distinct_id="ann")
        capture("other", distinct_id="bob")
        # The origin is away: this is no reason to give anything up.
        proxy.wait_for_faults("/e/", times=6)
        assert read_inbox(edge)["dead_letters"] == 0
        proxy.fail(Fault.ANSWERS_500, containing="case=failing")
        wait_until_sent(edge)
        assert read_inbox(edge)["dead_letters"] == 1
        events = "SELECT event FROM events ORDER BY event"
        assert query(origin, events) == [["after"], ["before"], ["other"]]
        found = json.loads(run_in_process("edge-inbox", "list", "--json", data=data).stdout)
        [dead] = found["dead_letters"]
        assert re.fullmatch(r"500 A server error occurred\. \(after \d+ attempts\)", dead["reason"])
        proxy.heal()
        assert "1 request(s)" in run_in_process("edge-inbox", "retry", data=data).stdout
        wait_for(lambda: read_inbox(edge)["dead_letters"] == 0, TIMEOUT_S)
        wait_until_sent(edge)
    assert query(origin, events) == [["after"], ["before"], ["failing"], ["other"]]


def test_nothing_is_set_aside_while_the_origin_is_not_ready(origin: Origin, tmp_path: Path) -> None:
    """A proxy answers 500 to everything, then all is well."""
    with (
        FaultyProxy(origin.address) as proxy,
        LiveEdge(tmp_path / "edge", proxy.address, origin.secret, edge_inbox_give_up_s="1") as edge,
    ):
        proxy.fail(Fault.ANSWERS_502)
        body = {"api_key": PROJECT_KEY, **build_event("kept")}
        assert (
            httpx.post(f"{edge.address}/e/", json=body, timeout=TIMEOUT_S, verify=False).status_code
            == 200
        )
        proxy.fail(Fault.ANSWERS_500)
        # It asks whether the origin is ready when it could give the request up.
        proxy.wait_for_faults("/_readiness", times=2)
        assert read_inbox(edge)["dead_letters"] == 0
        proxy.heal()
        wait_until_sent(edge)
    assert query(origin, "SELECT event FROM events") == [["kept"]]


def test_refused_key_keeps_what_waits(origin: Origin, tmp_path: Path) -> None:
    """Nothing that waits is lost if the key is rotated twice meanwhile."""
    data = tmp_path / "edge"

    def capture(edge: LiveEdge, name: str) -> int:
        body = {"api_key": PROJECT_KEY, **build_event(name)}
        return httpx.post(
            f"{edge.address}/e/", json=body, timeout=TIMEOUT_S, verify=False
        ).status_code

    with LiveEdge(data, origin.address, origin.secret) as edge:
        origin.server.kill()
        assert capture(edge, "waits") == 200
        with origin.start_elsewhere().client() as client:
            for _ in range(2):
                origin.rotate(client)
        origin.server.stop()
        origin.start()
        wait_for(lambda: "edge process is not a key" in edge.errors, TIMEOUT_S)
        assert capture(edge, "waits behind") == 200
        assert read_inbox(edge)["requests"] == 2
    with LiveEdge(data, origin.address, origin.secret) as edge:
        wait_until_sent(edge)
        assert capture(edge, "after") == 200
    events = query(origin, "SELECT event FROM events ORDER BY created_at")
    assert [row[0] for row in events] == ["waits", "waits behind", "after"]


def test_cookieless_events_are_not_stored(origin: Origin, tmp_path: Path) -> None:
    """They have the address of their visitor, which is never on disk."""
    data = tmp_path / "edge"
    event = {
        "event": "visit",
        "distinct_id": "$posthog_cookieless",
        "properties": {
            "$cookieless_mode": True,
            "$raw_user_agent": "visitor-agent",
            "$host": "a.b",
        },
    }
    body = {"api_key": PROJECT_KEY, **event}
    with LiveEdge(data, origin.address, origin.secret) as edge:
        assert (
            httpx.post(f"{edge.address}/e/", json=body, timeout=TIMEOUT_S, verify=False).status_code
            == 200
        )
        origin.server.kill()
        refused = httpx.post(f"{edge.address}/e/", json=body, timeout=TIMEOUT_S, verify=False)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert read_inbox(edge)["requests"] == 0
    for path in filter(Path.is_file, (data / "edge-inbox").rglob("*")):
        assert b"visitor-agent" not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0


def test_one_process_has_the_inbox(origin: Origin, tmp_path: Path) -> None:
    data = tmp_path / "edge"
    with LiveEdge(data, origin.address, origin.secret):
        arguments = ("edge", "--from", origin.address, "--port", "0")
        done = run_hedgerow(*arguments, data=data, edge_keys=origin.secret)
        assert done.returncode == 1
        assert "Another edge process uses" in done.stderr
        settings = {"edge_inbox_max_mb": "0"}
        with LiveEdge(data, origin.address, origin.secret, **settings) as other:
            assert "inbox" not in httpx.get(f"{other.address}/_readiness", verify=False).json()
