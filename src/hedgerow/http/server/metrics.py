"""Prometheus metrics: requests by route and status, their durations, and the gauges of the
service.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import accumulate, chain
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import (
    CollectorRegistry,
    generate_latest,
    make_wsgi_app,
    start_http_server,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope

from hedgerow.errors import NotFound, OperatorError
from hedgerow.http.endpoint import fast_endpoint
from hedgerow.http.server.response import Reply, build_reply
from hedgerow.http.server.trace import Trace
from hedgerow.lib.threads import run_in_thread

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

# How long a probe on the port of the metrics waits for the event loop.
PROBE_TIMEOUT_S = 10.0
BACKLOG = 128

NOT_FOUND = build_reply(
    404,
    b"Not found. There are /metrics, /_liveness and /_readiness.\n",
    (b"content-type", b"text/plain; charset=utf-8"),
)
NO_ANSWER = build_reply(
    503, b"The process does not answer.\n", (b"content-type", b"text/plain; charset=utf-8")
)

# Returns the answer to a probe by its path, None for other paths. Runs in the event loop.
AnswerProbe = Callable[[str], Coroutine[Any, Any, Reply | None]]
# Name, help, value. Read on each scrape, so that they cost nothing per request.
Gauges = Callable[[], Iterable[tuple[str, str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledMetric:
    """A metric with one value per combination of labels."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]

    def metric(self) -> Metric:
        family = (
            CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)
            if self.name.endswith("_total")
            else GaugeMetricFamily(self.name, self.help, labels=self.labels)
        )
        for labels, value in self.values.items():
            family.add_metric(labels, value)
        return family


class RouteHistogram:
    """The request durations of one route: their sum and the count in each bucket."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS_S) + 1)


class Metrics(Collector):
    """The metrics of one process. Only the event loop's thread counts, so plain numbers are enough;
    the library's counters lock on every step and would cost a fast route a third of its time."""

    tag = "Probes"

    def __init__(
        self, gauges: Gauges, labelled: Callable[[], Iterable[LabelledMetric]] = tuple
    ) -> None:
        self._gauges = [gauges]
        self._labelled = [labelled]
        self._requests: dict[tuple[str, str, int], int] = {}
        self._histograms: dict[str, RouteHistogram] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        # Whether the port of the service serves them.
        self.is_on_service_port = True

    def add_gauges(self, gauges: Gauges) -> None:
        """Add gauges of services that are built after the metrics."""
        self._gauges.append(gauges)

    def add_labelled(self, labelled: Callable[[], Iterable[LabelledMetric]]) -> None:
        self._labelled.append(labelled)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        histogram = self._histograms.get(route)
        if histogram is None:
            histogram = self._histograms[route] = RouteHistogram()
        histogram.seconds += seconds
        histogram.buckets[bisect_left(BUCKETS_S, seconds)] += 1

    @fast_endpoint(
        "GET", "/metrics", is_probe=True, name="metrics", response=str, media_type="text/plain"
    )
    async def show_metrics(self, scope: Scope, _: Receive, __: Trace) -> Reply:
        """Export metrics in the Prometheus text format."""
        # A proxy that blocks the two documented spellings may not recognize an escaped one.
        if not self.is_on_service_port or b"%" in scope.get("raw_path", b""):
            raise NotFound
        # Thousands of lines, which the port of the metrics writes in a thread, too.
        body = await run_in_thread(lambda: generate_latest(self._registry))
        return build_reply(200, body, (b"content-type", CONTENT_TYPE_LATEST.encode()))

    @contextmanager
    def serve(self, host: str, port: int, answer_probe: AnswerProbe) -> Iterator[str]:
        """Serve the metrics on their own port, from a thread, instead of the service's port. The
        probes are answered there too, however many connections wait for the service. All other
        paths are not found."""
        self.is_on_service_port = False
        try:
            server, _ = start_http_server(port, host, self._registry)
        except OSError as error:
            raise OperatorError(
                f"Cannot serve metrics on {host}:{port}: {error.strerror or error}."
            ) from None
        server.socket.listen(BACKLOG)
        loop = asyncio.get_running_loop()

        def answer(path: str) -> Reply | None:
            waiting = asyncio.run_coroutine_threadsafe(answer_probe(path), loop)
            try:
                return waiting.result(PROBE_TIMEOUT_S)
            except (TimeoutError, CancelledError):  # the event loop is blocked, or ends
                waiting.cancel()
                return NO_ANSWER

        server.set_app(_build_app(make_wsgi_app(self._registry), answer))
        try:
            yield f"http://{host}:{server.server_port}/metrics"
        finally:
            server.shutdown()
            server.server_close()

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "hedgerow_http_requests", "HTTP requests served.", labels=("method", "route", "status")
        )
        # Copied first: another thread may read while the event loop counts.
        for (method, route, status), number in list(self._requests.items()):
            requests.add_metric((method, route, str(status)), number)
        yield requests
        seconds = HistogramMetricFamily(
            "hedgerow_http_request_seconds", "Duration of HTTP requests.", labels=("route",)
        )
        limits = [*(f"{limit:g}" for limit in BUCKETS_S), "+Inf"]
        for route, histogram in list(self._histograms.items()):
            buckets = list(zip(limits, map(float, accumulate(histogram.buckets)), strict=True))
            seconds.add_metric((route,), buckets=buckets, sum_value=histogram.seconds)
        yield seconds
        for name, help, value in chain.from_iterable(gauges() for gauges in self._gauges):
            if name.endswith("_total"):
                yield CounterMetricFamily(name.removesuffix("_total"), help, value=value)
            else:
                yield GaugeMetricFamily(name, help, value=value)
        for each in chain.from_iterable(labelled() for labelled in self._labelled):
            yield each.metric()


def _build_app(
    metrics_app: WSGIApplication, answer: Callable[[str], Reply | None]
) -> WSGIApplication:
    """Wrap prometheus_client's application, which answers every path with the metrics."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path in ("/metrics", "/metrics/"):
            return metrics_app(environ, start_response)
        reply = answer(path) or NOT_FOUND
        status = HTTPStatus(reply.status)
        headers = [(name.decode(), value.decode()) for name, value in reply.headers]
        start_response(f"{status} {status.phrase}", headers)
        return [reply.body]

    return serve
