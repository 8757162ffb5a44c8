"""Traces and metrics of a live service, decoded as a collector decodes them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hedgerow.lib.encryption import generate_encryption_key
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.edge import LiveEdge, rotate_secret
from tests.support.live import PROJECT_KEY, LiveServer, LiveWorker
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import PlannedResponse, Receiver, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
CLIENT_SPAN = "00f067aa0ba902b7"
RECORDS = "/api/environments/1/pipeline_destination_configs/"
WEBHOOK = 1


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, collector: Receiver) -> Iterator[LiveServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        patch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme%20inc")
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        patch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
        data = tmp_path_factory.mktemp("otlp")
        with LiveServer(data, allow_private_destinations="true") as running:
            yield running


def read_spans(collector: Receiver) -> list[Any]:
    requests = [each for each in collector.received if each.path.endswith("/v1/traces")]
    decoded = [ExportTraceServiceRequest.FromString(each.body) for each in requests]
    return [
        span
        for each in decoded
        for resource in each.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def read_attributes(owner: Any) -> dict[str, str]:
    return {
        each.key: each.value.string_value or str(each.value.int_value) for each in owner.attributes
    }


def enable_webhook(client: httpx.Client, url: str, **settings: Any) -> str:
    """Create a webhook and return its id."""
    record: str = client.post(RECORDS, json={"plugin": WEBHOOK, "name": "Shop"}).json()["id"]
    assert client.put(f"{RECORDS}{record}/config/", json={"url": url, **settings}).is_success
    assert client.patch(f"{RECORDS}{record}/", json={"enabled": True}).is_success
    return record


def disable(client: httpx.Client, record: str) -> None:
    assert client.patch(f"{RECORDS}{record}/", json={"enabled": False}).is_success


def find_spans(collector: Receiver, name: str, trace_id: str) -> list[Any]:
    return [
        each
        for each in read_spans(collector)
        if each.trace_id.hex() == trace_id and each.name.startswith(name)
    ]


def capture(address: str, trace_id: str, request_id: str = "") -> None:
    event = {"api_key": PROJECT_KEY, "event": "paid", "distinct_id": "ann"}
    headers = {"traceparent": f"00-{trace_id}-{CLIENT_SPAN}-01", "x-request-id": request_id}
    answer = httpx.post(
        f"{address}/capture/", json=event, headers=headers, timeout=110, verify=False
    )
    assert answer.is_success, answer.text


def test_a_request_continues_the_trace_of_its_client_to_the_delivery(
    server: LiveServer, collector: Receiver
) -> None:
    """A failed attempt has a span of its own."""
    statuses = iter((500, 200))
    with (
        Receiver(lambda _: PlannedResponse(status=next(statuses))) as shop,
        server.client() as client,
    ):
        record = enable_webhook(client, shop.url)
        capture(server.address, TRACE_ID, "traced-1")
        wait_until(lambda: len(shop.received) == 2, 110)
        wait_until(lambda: len(find_spans(collector, "deliver", TRACE_ID)) == 2, 110)
        disable(client, record)
    [span] = find_spans(collector, "POST /", TRACE_ID)
    assert span.parent_span_id.hex() == CLIENT_SPAN
    assert span.end_time_unix_nano > span.start_time_unix_nano
    attributes = read_attributes(span)
    assert attributes["hedgerow.request_id"] == "traced-1"
    assert attributes["http.response.status_code"] == "200"
    assert attributes["hedgerow.project_id"] == "1"
    failed, delivered = find_spans(collector, "deliver", TRACE_ID)
    for each, sent in zip((failed, delivered), shop.received, strict=True):
        assert each.parent_span_id == span.span_id
        assert each.kind == 3
        assert not each.links
        assert sent.headers["traceparent"] == f"00-{TRACE_ID}-{each.span_id.hex()}-01"
        attributes = read_attributes(each)
        assert attributes["hedgerow.destination_id"] == str(record)
        assert attributes["hedgerow.events"] == "1"
    assert (failed.status.code, delivered.status.code) == (2, 0)
    assert "500" in read_attributes(failed)["error.message"]
    assert failed.span_id != delivered.span_id


def test_a_batch_is_part_of_its_first_trace_and_links_to_the_others(
    server: LiveServer, collector: Receiver
) -> None:
    traces = [f"{number}" * 32 for number in (1, 2, 3)]
    with Receiver() as shop, server.client() as client:
        record = enable_webhook(client, shop.url, batch_size=3, batch_seconds=3600)
        for trace_id in traces:
            capture(server.address, trace_id)
        wait_until(lambda: len(shop.received) == 1, 110)
        wait_until(lambda: any(find_spans(collector, "deliver", each) for each in traces), 110)
        wait_until(lambda: all(find_spans(collector, "POST", each) for each in traces), 110)
        disable(client, record)
    parents = [find_spans(collector, "POST", each)[0].span_id for each in traces]
    [delivery] = [each for trace in traces for each in find_spans(collector, "deliver", trace)]
    causes = [delivery.parent_span_id, *(each.span_id for each in delivery.links)]
    assert sorted(causes) == sorted(parents)
    assert read_attributes(delivery)["hedgerow.events"] == "3"
    context = f"{delivery.trace_id.hex()}-{delivery.span_id.hex()}"
    assert shop.received[0].headers["traceparent"] == f"00-{context}-01"


def test_an_edge_process_is_part_of_the_trace(
    server: LiveServer, collector: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "hedgerow-edge")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
    with server.client() as client:
        secret = rotate_secret(client, 1)
    trace_id = "e" * 32
    with LiveEdge(tmp_path, server.address, secret) as edge:
        capture(edge.address, trace_id)
        wait_until(lambda: len(find_spans(collector, "POST", trace_id)) == 2, 110)
        wait_until(
            lambda: any("hedgerow_edge_inbox_requests" in each for each in read_metrics(collector)),
            110,
        )
    spans = find_spans(collector, "POST", trace_id)
    [at_edge] = [each for each in spans if each.parent_span_id.hex() == CLIENT_SPAN]
    [at_origin] = [each for each in spans if each is not at_edge]
    assert at_origin.parent_span_id == at_edge.span_id


def read_metrics(collector: Receiver) -> list[set[str]]:
    """Return the names of the metrics of each export."""
    requests = [each for each in collector.received if each.path.endswith("/v1/metrics")]
    decoded = [ExportMetricsServiceRequest.FromString(each.body) for each in requests]
    return [
        {metric.name for scope in resource.scope_metrics for metric in scope.metrics}
        for each in decoded
        for resource in each.resource_metrics
    ]


def test_a_worker_exports_the_spans_of_its_deliveries(
    tmp_path: Path,
    postgres: PostgresTestServer,
    clickhouse: ClickHouseTestServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
        "allow_private_destinations": "true",
    }
    trace_id = "d" * 32
    with Receiver() as collector, Receiver() as shop:
        with LiveServer(tmp_path / "server", "--no-worker", **settings) as server:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
            monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
            with (
                LiveServer(tmp_path / "traced", "--no-worker", **settings) as traced,
                LiveWorker(tmp_path / "worker", **settings),
            ):
                with server.client() as client:
                    enable_webhook(client, shop.url)
                capture(traced.address, trace_id)
                wait_until(lambda: len(shop.received) == 1, 110)
                wait_until(lambda: bool(find_spans(collector, "deliver", trace_id)), 110)
                wait_until(lambda: bool(find_spans(collector, "POST", trace_id)), 110)
        [delivery] = find_spans(collector, "deliver", trace_id)
        [request] = find_spans(collector, "POST", trace_id)
        assert delivery.parent_span_id == request.span_id
        context = f"00-{trace_id}-{delivery.span_id.hex()}-01"
        assert shop.received[0].headers["traceparent"] == context


def test_requests_without_a_usable_trace_begin_their_own(
    server: LiveServer, collector: Receiver
) -> None:
    with server.client() as client:
        for traceparent in ("", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 9000, "00-é"):
            headers = {b"traceparent": traceparent.encode(), b"x-request-id": b"untraced"}
            assert client.get("/api/projects/", headers=headers).status_code in (200, 431)
        unsampled = {"traceparent": f"00-{TRACE_ID}-{CLIENT_SPAN}-00", "x-request-id": "unsampled"}
        assert client.get("/api/projects/", headers=unsampled).is_success

    def find(request_id: str) -> list[Any]:
        spans = read_spans(collector)
        return [
            each for each in spans if read_attributes(each).get("hedgerow.request_id") == request_id
        ]

    wait_until(lambda: len(find("untraced")) >= 3, 110)
    assert all(not each.parent_span_id for each in find("untraced"))
    assert len({each.trace_id for each in find("untraced")}) == len(find("untraced"))
    assert find("unsampled") == []


def test_metrics_are_those_of_prometheus(server: LiveServer, collector: Receiver) -> None:
    def find_all() -> list[Any]:
        return [each for each in collector.received if each.path.endswith("/v1/metrics")]

    with server.client() as client:
        assert client.get("/api/projects/").is_success
        count = len(find_all())
        wait_until(lambda: len(find_all()) > count + 1, 110)
        exposed = client.get("/metrics").text
    sent = find_all()[-1]
    assert sent.headers["x-tenant"] == "acme inc"
    assert sent.headers["content-type"] == "application/x-protobuf"
    resource = ExportMetricsServiceRequest.FromString(sent.body).resource_metrics[0]
    assert read_attributes(resource.resource) == {
        "service.name": "hedgerow",
        "deployment.environment": "test",
    }
    metrics = {each.name: each for each in resource.scope_metrics[0].metrics}
    names = {line.split()[2] for line in exposed.splitlines() if line.startswith("# TYPE hedgerow")}
    assert metrics.keys() == names
    requests = metrics["hedgerow_http_requests_total"].sum
    assert requests.is_monotonic
    assert any(
        read_attributes(point)["route"] == "/api/projects/" and point.as_double >= 1
        for point in requests.data_points
    )
    for point in metrics["hedgerow_http_request_seconds"].histogram.data_points:
        assert sum(point.bucket_counts) == point.count
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1


def test_the_dashboard_and_the_alert_rules_use_metrics_that_exist(
    server: LiveServer, tmp_path: Path
) -> None:
    with server.client() as client:
        exposed = client.get("/metrics").text
        secret = rotate_secret(client, 1)
    with LiveEdge(tmp_path / "edge", server.address, secret) as edge:
        exposed += httpx.get(f"{edge.address}/metrics", timeout=60, verify=False).text
    kinds = dict(
        line.split()[2:4] for line in exposed.splitlines() if line.startswith("# TYPE hedgerow")
    )
    buckets = {f"{name}_bucket" for name, kind in kinds.items() if kind == "histogram"}
    dashboard = json.loads((DEPLOY / "grafana" / "hedgerow.json").read_text())
    expressions = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    expressions += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(expressions) > 20
    used = {name for each in expressions for name in re.findall(r"hedgerow_\w+", each)}
    assert used - kinds.keys() - buckets == set()
    inbox = {name for name in kinds if name.startswith("hedgerow_edge_inbox_")}
    assert inbox - used == {"hedgerow_edge_inbox_bytes"}
    alerts = " ".join(expressions[-len(rules["groups"][0]["rules"]) :])
    for name in ("oldest_age_seconds", "dead_letters", "lost_requests", "send_failed_total"):
        assert f"hedgerow_edge_inbox_{name}" in alerts
    for each in expressions:
        for name in re.findall(r"(?:rate|increase)\((hedgerow_\w+)", each):
            assert name in buckets or kinds[name] == "counter", each
