"""What Prometheus may know: requests by route and status, how long they took, and the database's
load.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope

from hedgerow.errors import Unready
from hedgerow.http.reply import Reply, reply
from hedgerow.http.trace import Trace

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

# Name, help, value. Read when Prometheus asks, so that they cost a request nothing.
Gauges = Callable[[], Iterable[tuple[str, str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A number for each of several things, told apart by the values of labels."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]

    def metric(self) -> Metric:
        made = (
            CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)
            if self.name.endswith("_total")
            else GaugeMetricFamily(self.name, self.help, labels=self.labels)
        )
        for told, value in self.values.items():
            made.add_metric(told, value)
        return made


class Tally:
    """What one route took in all: seconds, and how many requests fell into each bucket."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS_S) + 1)


class Metrics(Collector):
    """Counts on the event loop's thread only, so plain numbers do; the library's own counters lock
    on every step and cost a lean request a third of its time."""

    def __init__(self, gauges: Gauges, labelled: Callable[[], Iterable[Labelled]] = tuple) -> None:
        self._gauges = gauges
        self._labelled = labelled
        self._requests: dict[tuple[str, str, int], int] = {}
        self._tallies: dict[str, Tally] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        tally = self._tallies.get(route)
        if tally is None:
            tally = self._tallies[route] = Tally()
        tally.seconds += seconds
        tally.buckets[bisect_left(BUCKETS_S, seconds)] += 1

    async def page(self, _: Scope, __: Receive, ___: Trace) -> Reply:
        body = generate_latest(self._registry)
        return reply(200, body, (b"content-type", CONTENT_TYPE_LATEST.encode()))

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[str]:
        """Shown at an address of their own, from a thread, by who answers nothing else."""
        try:
            server, _ = start_http_server(port, host, self._registry)
        except OSError as error:
            raise Unready(
                f"Metrics cannot be shown on {host}:{port}: {error.strerror or error}."
            ) from None
        try:
            yield f"http://{host}:{server.server_port}/metrics"
        finally:
            server.shutdown()
            server.server_close()

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "hedgerow_http_requests", "Requests answered.", labels=("method", "route", "status")
        )
        for (method, route, status), number in self._requests.items():
            requests.add_metric((method, route, str(status)), number)
        yield requests
        seconds = HistogramMetricFamily(
            "hedgerow_http_request_seconds", "Time to answer.", labels=("route",)
        )
        limits = [*(f"{limit:g}" for limit in BUCKETS_S), "+Inf"]
        for route, tally in self._tallies.items():
            buckets = list(zip(limits, map(float, accumulate(tally.buckets)), strict=True))
            seconds.add_metric((route,), buckets=buckets, sum_value=tally.seconds)
        yield seconds
        for name, help, value in self._gauges():
            if name.endswith("_total"):
                yield CounterMetricFamily(name.removesuffix("_total"), help, value=value)
            else:
                yield GaugeMetricFamily(name, help, value=value)
        for each in self._labelled():
            yield each.metric()
