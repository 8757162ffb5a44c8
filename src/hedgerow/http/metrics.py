"""What Prometheus may know: requests by route and status, how long they took, and the database's
load.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope

from hedgerow.http.reply import Reply, reply
from hedgerow.http.trace import Trace

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

# Name, help, value. Read when Prometheus asks, so that counting costs a request nothing.
Gauges = Callable[[], Iterable[tuple[str, str, float]]]


class Metrics:
    def __init__(self, gauges: Gauges) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "hedgerow_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "hedgerow_http_request_seconds",
            "Time from the first byte read to the last byte handed over.",
            ("route",),
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._registry.register(_Live(gauges))
        # Looking a child up by its labels costs more than counting: keep the pair at hand.
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        children = self._children.get((method, route, status))
        if children is None:
            children = self._children[method, route, status] = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(route),
            )
        children[0].inc()
        children[1].observe(seconds)

    async def page(self, _: Scope, __: Receive, ___: Trace) -> Reply:
        body = generate_latest(self._registry)
        return reply(200, body, (b"content-type", CONTENT_TYPE_LATEST.encode()))


class _Live(Collector):
    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        for name, help, value in self._gauges():
            if name.endswith("_total"):
                yield CounterMetricFamily(name.removesuffix("_total"), help, value=value)
            else:
                yield GaugeMetricFamily(name, help, value=value)
