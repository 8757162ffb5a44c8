from collections.abc import Iterable

import pytest

from hedgerow.errors import NotFound
from hedgerow.http.server.metrics import Metrics
from hedgerow.http.server.trace import Trace
from tests.unit.http.asgi import http_scope, make_receive


class Load:
    waiting = 3.0

    def gauges(self) -> Iterable[tuple[str, str, float]]:
        yield "hedgerow_database_writes_waiting", "Changes waiting.", self.waiting
        yield "hedgerow_database_commits_total", "Commits made.", 42


async def lines(metrics: Metrics) -> list[str]:
    scope = http_scope(path="/metrics")
    response = await metrics.show_metrics(scope, make_receive(), Trace(scope))
    assert response.status == 200
    assert dict(response.headers)[b"content-type"].startswith(b"text/plain; version=")
    return response.body.decode().splitlines()


async def test_escaped_spelling_that_a_proxy_may_not_block_is_not_found() -> None:
    scope = {**http_scope(path="/metrics"), "raw_path": b"/%6detrics"}
    with pytest.raises(NotFound):
        await Metrics(list).show_metrics(scope, make_receive(), Trace(scope))


async def test_requests_are_counted_by_method_route_and_status() -> None:
    metrics = Metrics(list)
    for _ in range(3):
        metrics.count("GET", "/api/projects/", 200, 0.001)
    metrics.count("GET", "/api/projects/", 404, 0.001)
    metrics.count("POST", "/api/projects/", 200, 0.001)
    found = await lines(metrics)
    counted = 'hedgerow_http_requests_total{method="%s",route="/api/projects/",status="%s"} %s'
    assert counted % ("GET", 200, "3.0") in found
    assert counted % ("GET", 404, "1.0") in found
    assert counted % ("POST", 200, "1.0") in found


async def test_durations_are_counted_by_route_in_buckets() -> None:
    metrics = Metrics(list)
    metrics.count("GET", "/a", 200, 0.002)
    metrics.count("POST", "/a", 400, 0.2)
    found = await lines(metrics)
    bucket = 'hedgerow_http_request_seconds_bucket{le="%s",route="/a"} %s'
    assert bucket % ("0.001", "0.0") in found
    assert bucket % ("0.0025", "1.0") in found
    assert bucket % ("0.25", "2.0") in found
    assert 'hedgerow_http_request_seconds_sum{route="/a"} 0.202' in found


async def test_gauges_are_read_on_each_scrape() -> None:
    load = Load()
    metrics = Metrics(load.gauges)
    assert "hedgerow_database_writes_waiting 3.0" in await lines(metrics)
    load.waiting = 5.0
    found = await lines(metrics)
    assert "hedgerow_database_writes_waiting 5.0" in found
    assert "# TYPE hedgerow_database_writes_waiting gauge" in found
    assert "# TYPE hedgerow_database_commits_total counter" in found
    assert "hedgerow_database_commits_total 42.0" in found


async def test_two_services_in_one_process_have_separate_metrics() -> None:
    counted, other = Metrics(list), Metrics(list)
    counted.count("GET", "/a", 200, 0.002)
    assert not any('route="/a"' in line for line in await lines(other))
