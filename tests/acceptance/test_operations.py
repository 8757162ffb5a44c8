"""What an operator's tools ask: is it alive, is it ready, how is it doing."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    find_free_port,
    read_error,
    run_hedgerow,
    wait_for,
)


def test_a_healthy_service_is_alive_and_ready_without_a_key(live: LiveServer) -> None:
    with live.client(None) as client:
        alive, ready = client.get("/_liveness"), client.get("/_readiness")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "missing": []})


def test_while_another_process_migrates_it_is_alive_and_says_what_it_waits_for(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "hedgerow.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        server = LiveServer(tmp_path, port=find_free_port())
        try:
            wait_for(lambda: server.get_status("/_liveness") == 200, at_most_s=120)
            waiting = httpx.get(f"{server.address}/_readiness", timeout=60, verify=False)
            refused = httpx.get(f"{server.address}/api/projects/", timeout=60, verify=False)
            other.execute("ROLLBACK")
            wait_for(lambda: server.get_status("/_readiness") == 200, at_most_s=120)
            assert "is ready at" in server.wait_ready().output
        finally:
            server.stop()
    assert waiting.status_code == refused.status_code == 503
    assert waiting.json()["status"] == "not ready"
    assert waiting.json()["missing"][0].partition(":")[0] in ("applying migrations", "database")
    assert re.search("applying migrations|database", read_error(refused)["detail"])
    assert int(refused.headers["retry-after"]) >= 1


def test_metrics_count_requests_by_route_and_status_and_show_the_databases_load(
    live: LiveServer,
) -> None:
    with live.client() as client:
        before = _samples(client.get("/metrics").text)
        for _ in range(3):
            client.get("/api/projects/1/")
        client.get("/api/projects/999999/")  # other tests make hundreds
        client.post("/api/projects/", json={"name": "Counted"})
        after = _samples(client.get("/metrics").text)
    one = "/api/projects/{project_id}/"

    def grown(name: str, **labels: str) -> float:
        sample = (name, frozenset(labels.items()))
        return after[sample] - before.get(sample, 0)

    requests = "hedgerow_http_requests_total"
    assert grown(requests, method="GET", route=one, status="200") == 3
    assert grown(requests, method="GET", route=one, status="404") == 1
    assert grown(requests, method="POST", route="/api/projects/", status="201") == 1
    assert grown("hedgerow_http_request_seconds_count", route=one) == 4
    assert grown("hedgerow_http_request_seconds_bucket", route=one, le="+Inf") == 4
    assert grown("hedgerow_database_commits_total") >= 1
    gauges = {name for name, labels in after if not labels}
    assert {
        "hedgerow_database_connections_open",
        "hedgerow_database_connections_in_use",
        "hedgerow_database_writes_waiting",
    } <= gauges


def test_metrics_count_events_and_show_how_many_wait(live: LiveServer) -> None:
    def sample(name: str) -> float:
        return _samples(client.get("/metrics").text)[f"hedgerow_{name}", frozenset()]

    counters = ("accepted", "rejected", "processed", "stored")
    good, bad = {"event": "counted", "distinct_id": "kim"}, {"distinct_id": "kim"}

    def read_counters() -> dict[str, float]:
        return {name: sample(f"events_{name}_total") for name in counters}

    def read_growth() -> dict[str, float]:
        return {name: count - before[name] for name, count in read_counters().items()}

    with live.client() as client:
        # Events of other tests may still be in the inbox.
        wait_for(lambda: sample("inbox_events_waiting") == 0, at_most_s=60)
        before = read_counters()
        sent = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": [good, good, bad]})
        assert sent.status_code == 200
        wait_for(lambda: read_growth()["stored"] >= 2, at_most_s=60)
        wait_for(lambda: sample("inbox_events_waiting") == 0, at_most_s=60)
        wait_for(lambda: sample("inbox_oldest_seconds") == 0, at_most_s=60)
        assert read_growth() == {"accepted": 2, "rejected": 1, "processed": 2, "stored": 2}


def test_unknown_paths_and_methods_add_no_metrics(live: LiveServer) -> None:
    with live.client() as client:
        client.request("MKCOL", "/coffee")
        before = _of_requests(client.get("/metrics").text)
        for method in ("COPY", "LOCK", "MOVE", "PROPFIND", "SEARCH"):
            for number in range(5):
                client.request(method, f"/coffee/{method}/{number}")
        after = _of_requests(client.get("/metrics").text)
    assert before
    assert after == before


def _of_requests(page: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """Return the HTTP samples. Others grow with the background tasks of the service."""
    return {sample for sample in _samples(page) if sample[0].startswith("hedgerow_http_")}


def _samples(page: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_metrics_on_a_port_of_their_own_are_not_on_that_of_the_service(tmp_path: Path) -> None:
    port = find_free_port()
    with LiveServer(tmp_path, metrics_port=port) as server, server.client(None) as client:
        assert f"http://127.0.0.1:{port}/metrics" in server.output
        assert client.get("/metrics").status_code == client.get("/metrics/").status_code == 404
        own = f"http://127.0.0.1:{port}"
        metrics = httpx.get(f"{own}/metrics", timeout=60, verify=False)
        statuses = {
            path: httpx.get(own + path, timeout=60, verify=False).status_code
            for path in ("/metrics/", "/", "/metrics/x", "/x/metrics", "/favicon.ico")
        }
        probes = {
            path: httpx.get(own + path, timeout=60, verify=False).json()["status"]
            for path in ("/_liveness", "/_liveness/", "/_readiness", "/_readiness/")
        }
    assert metrics.status_code == 200
    assert statuses == dict.fromkeys(statuses, 404) | {"/metrics/": 200}
    assert list(probes.values()) == ["ok", "ok", "ready", "ready"]
    assert 'route="/metrics",status="404"' in metrics.text
    assert server.get_status("/_liveness") is None


def test_metrics_port_in_use_stops_the_start(tmp_path: Path, live: LiveServer) -> None:
    port = httpx.URL(live.address).port
    done = run_hedgerow("serve", data=tmp_path, metrics_port=str(port))
    assert done.returncode != 0
    assert f"Cannot serve metrics on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr
