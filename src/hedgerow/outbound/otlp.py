"""Exports traces and metrics with OTLP over HTTP, as protobuf.

The standard variables configure it: https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from hedgerow.errors import OperatorError
from hedgerow.events.tracing import Span
from hedgerow.lib.optional_packages import import_package

TIMEOUT_S = 10.0
DEFAULT_INTERVAL_S = 60.0
MIN_INTERVAL_S = 1.0
CUMULATIVE, ERROR = 2, 2
SCOPE = "hedgerow"


class ExportError(Exception):
    """The collector did not accept an export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpOptions:
    """Where to export, and what. An empty address exports nothing of that kind."""

    traces_url: str
    metrics_url: str
    headers: Mapping[str, str]
    resource: Mapping[str, str]
    sample_ratio: float
    metrics_interval_s: float

    @property
    def is_enabled(self) -> bool:
        return bool(self.traces_url or self.metrics_url)


def read_otlp_options(environment: Mapping[str, str]) -> OtlpOptions:
    """Read the standard variables. Raises OperatorError for a value that cannot be used."""

    def find(name: str, default: str = "") -> str:
        return environment.get(f"OTEL_{name}", "").strip() or default

    def find_url(signal: str) -> str:
        is_off = find("SDK_DISABLED").lower() == "true"
        if is_off or find(f"{signal.upper()}_EXPORTER", "otlp") != "otlp":
            return ""
        root = find("EXPORTER_OTLP_ENDPOINT").rstrip("/")
        url = find(f"EXPORTER_OTLP_{signal.upper()}_ENDPOINT", root and f"{root}/v1/{signal}")
        if url and urlsplit(url).scheme not in ("http", "https"):
            raise OperatorError(
                f"OTEL_EXPORTER_OTLP_ENDPOINT: {url} is not an address such as "
                "http://collector:4318."
            )
        return url

    ratio = _parse_number("TRACES_SAMPLER_ARG", find("TRACES_SAMPLER_ARG"), 1)
    return OtlpOptions(
        traces_url=find_url("traces"),
        metrics_url=find_url("metrics"),
        headers=_parse_pairs("EXPORTER_OTLP_HEADERS", find("EXPORTER_OTLP_HEADERS")),
        resource={
            "service.name": "hedgerow",
            **_parse_pairs("RESOURCE_ATTRIBUTES", find("RESOURCE_ATTRIBUTES")),
            **({"service.name": name} if (name := find("SERVICE_NAME")) else {}),
        },
        sample_ratio=min(max(ratio, 0), 1),
        metrics_interval_s=max(
            _parse_number(
                "METRIC_EXPORT_INTERVAL", find("METRIC_EXPORT_INTERVAL"), DEFAULT_INTERVAL_S * 1000
            )
            / 1000,
            MIN_INTERVAL_S,
        ),
    )


def _parse_pairs(name: str, text: str) -> dict[str, str]:
    pairs = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise OperatorError(f"OTEL_{name} is not a list such as name=value,other=value.")
        pairs[key.strip()] = unquote(value.strip())
    return pairs


def _parse_number(name: str, text: str, default: float) -> float:
    try:
        return float(text or default)
    except ValueError:
        raise OperatorError(f"OTEL_{name} is not a number.") from None


class OtlpExporter:
    """Encodes and sends. Its methods block: call them in a thread."""

    def __init__(self, options: OtlpOptions) -> None:
        self.options = options
        self._started_ns = time.time_ns()
        self._traces = import_package("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        self._metrics = import_package(
            "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"
        )

    def export_spans(self, spans: Sequence[Span]) -> None:
        """Send spans. Raises ExportError."""
        if not spans:
            return
        request = self._traces.ExportTraceServiceRequest()
        scope = self._add_scope(request.resource_spans.add(), "scope_spans")
        for span in spans:
            _fill_span(scope.spans.add(), span)
        self._send(self.options.traces_url, request)

    def export_metrics(self, families: Iterable[Any]) -> None:
        """Send metrics of prometheus_client. Raises ExportError."""
        request = self._metrics.ExportMetricsServiceRequest()
        scope = self._add_scope(request.resource_metrics.add(), "scope_metrics")
        now_ns = time.time_ns()
        for family in families:
            self._fill_metric(scope.metrics.add(), family, now_ns)
        self._send(self.options.metrics_url, request)

    def _add_scope(self, resource: Any, field: str) -> Any:
        for key, value in self.options.resource.items():
            _add_attribute(resource.resource.attributes, key, value)
        scope = getattr(resource, field).add()
        scope.scope.name = SCOPE
        return scope

    def _fill_metric(self, metric: Any, family: Any, now_ns: int) -> None:
        metric.name, metric.description = family.name, family.documentation
        if family.type == "histogram":
            self._fill_histogram(metric.histogram, family, now_ns)
            return
        if family.type == "counter":
            metric.name += "_total"
            metric.sum.aggregation_temporality, metric.sum.is_monotonic = CUMULATIVE, True
            points = metric.sum.data_points
        else:
            points = metric.gauge.data_points
        for sample in family.samples:
            point = points.add(time_unix_nano=now_ns, as_double=sample.value)
            if family.type == "counter":
                point.start_time_unix_nano = self._started_ns
            for key, value in sample.labels.items():
                _add_attribute(point.attributes, key, value)

    def _fill_histogram(self, histogram: Any, family: Any, now_ns: int) -> None:
        histogram.aggregation_temporality = CUMULATIVE
        points: dict[tuple[tuple[str, str], ...], Any] = {}
        seen: dict[int, float] = {}
        for sample in family.samples:
            labels = tuple((key, value) for key, value in sample.labels.items() if key != "le")
            point = points.get(labels)
            if point is None:
                point = points[labels] = histogram.data_points.add(
                    time_unix_nano=now_ns, start_time_unix_nano=self._started_ns
                )
                for key, value in labels:
                    _add_attribute(point.attributes, key, value)
            if sample.name.endswith("_sum"):
                point.sum = sample.value
            elif sample.name.endswith("_count"):
                point.count = int(sample.value)
            else:
                # Prometheus counts up to each limit, OTLP between two of them.
                point.bucket_counts.append(int(sample.value - seen.get(id(point), 0)))
                seen[id(point)] = sample.value
                if sample.labels["le"] != "+Inf":
                    point.explicit_bounds.append(float(sample.labels["le"]))

    def _send(self, url: str, message: Any) -> None:
        headers = {"Content-Type": "application/x-protobuf", **self.options.headers}
        body: bytes = message.SerializeToString()
        request = Request(url, data=body, headers=headers)  # noqa: S310 - http or https, as checked
        try:
            with urlopen(request, timeout=TIMEOUT_S):  # noqa: S310 - as above
                return
        except HTTPError as error:
            raise ExportError(f"{url} answers {error.code}.") from None
        except (OSError, HTTPException) as error:
            raise ExportError(f"{url}: {getattr(error, 'reason', error)}") from None


def _fill_span(target: Any, span: Span) -> None:
    context = span.context
    target.trace_id, target.span_id = context.trace_id, context.span_id
    target.parent_span_id = context.parent_id
    target.name, target.kind = span.name, span.kind
    target.end_time_unix_nano = span.ended_ns
    target.start_time_unix_nano = span.ended_ns - span.duration_ns
    for key, value in span.attributes.items():
        _add_attribute(target.attributes, key, value)
    for link in span.links:
        target.links.add(trace_id=link.trace_id, span_id=link.span_id)
    if span.is_error:
        target.status.code = ERROR


def _add_attribute(attributes: Any, key: str, value: str | int) -> None:
    attribute = attributes.add(key=key)
    if isinstance(value, int):
        attribute.value.int_value = value
    else:
        attribute.value.string_value = value
