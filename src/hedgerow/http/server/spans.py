"""Spans of requests, collected for an OTLP exporter, and the W3C trace context of a request.

https://www.w3.org/TR/trace-context/
"""

import os
import re
import time
from dataclasses import dataclass

from hedgerow.http.server.trace import Trace

# Beyond this many spans between two exports, spans are dropped and counted.
MAX_SPANS = 10_000

_TRACEPARENT = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """The trace of a request: its own span, and the one of the client."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    is_sampled: bool = True

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{int(self.is_sampled):02x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpan:
    """An answered request."""

    context: TraceContext
    method: str
    route: str
    status: int
    ended_ns: int
    duration_ns: int
    request_id: str
    project_id: int | None


class SpanLog:
    """Collects spans until an exporter takes them. Only the event loop's thread adds spans."""

    def __init__(self, sample_ratio: float = 1.0) -> None:
        # As the TraceIdRatioBased sampler: every process decides the same for a trace.
        self._sampled_below = int(sample_ratio * 2**64)
        self._spans: list[RequestSpan] = []
        self.dropped = 0

    def find_context(self, trace: Trace) -> TraceContext:
        """Return the trace context of a request, the same one for each call."""
        if trace.context is None:
            trace.context = self._read_context(trace.traceparent)
        context: TraceContext = trace.context
        return context

    def _read_context(self, header: bytes) -> TraceContext:
        found = _TRACEPARENT.fullmatch(header)
        if found is not None:
            trace_id, parent_id = bytes.fromhex(found[1].decode()), bytes.fromhex(found[2].decode())
            if trace_id != _NO_TRACE and parent_id != _NO_SPAN:
                return TraceContext(
                    trace_id=trace_id,
                    span_id=os.urandom(8),
                    parent_id=parent_id,
                    is_sampled=bool(int(found[3], 16) & _SAMPLED),
                )
        drawn = os.urandom(24)
        is_sampled = int.from_bytes(drawn[8:16]) < self._sampled_below
        return TraceContext(trace_id=drawn[:16], span_id=drawn[16:], is_sampled=is_sampled)

    def add(self, trace: Trace, method: str, route: str, status: int, seconds: float) -> None:
        context = self.find_context(trace)
        if not context.is_sampled:
            return
        if len(self._spans) >= MAX_SPANS:
            self.dropped += 1
            return
        self._spans.append(
            RequestSpan(
                context=context,
                method=method,
                route=route,
                status=status,
                ended_ns=time.time_ns(),
                duration_ns=int(seconds * 1e9),
                request_id=trace.id.decode(),
                project_id=trace.project_id,
            )
        )

    def take(self) -> list[RequestSpan]:
        """Return the collected spans and forget them."""
        taken, self._spans = self._spans, []
        return taken
