"""Spans, collected for an exporter, and the W3C trace context that they continue.

https://www.w3.org/TR/trace-context/
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

# Beyond this many spans between two exports, spans are dropped and counted.
MAX_SPANS = 10_000

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_SAMPLED = 1


class SpanKind(IntEnum):
    """As numbered by OTLP."""

    SERVER = 2
    CLIENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A span in its trace, and the span that caused it."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    is_sampled: bool = True

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{int(self.is_sampled):02x}"

    def begin_child(self) -> "TraceContext":
        return replace(self, span_id=os.urandom(8), parent_id=self.span_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that has ended. `links` are its other causes."""

    context: TraceContext
    name: str
    kind: SpanKind
    ended_ns: int
    duration_ns: int
    attributes: Mapping[str, str | int]
    is_error: bool = False
    links: Sequence[TraceContext] = field(default=())


def parse_traceparent(text: str) -> TraceContext | None:
    """Return the span that a `traceparent` names, None if it names none."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    trace_id, span_id = bytes.fromhex(found[1]), bytes.fromhex(found[2])
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    is_sampled = bool(int(found[3], 16) & _SAMPLED)
    return TraceContext(trace_id=trace_id, span_id=span_id, is_sampled=is_sampled)


class SpanLog:
    """Collects spans until an exporter takes them. Only the event loop's thread adds spans."""

    def __init__(self, sample_ratio: float = 1.0) -> None:
        # As the TraceIdRatioBased sampler: every process decides the same for a trace.
        self._sampled_below = int(sample_ratio * 2**64)
        self._spans: list[Span] = []
        self.dropped = 0

    def begin(self, traceparent: str) -> TraceContext:
        """Continue the trace of a client, or begin one."""
        parent = parse_traceparent(traceparent)
        if parent is not None:
            return parent.begin_child()
        drawn = os.urandom(24)
        is_sampled = int.from_bytes(drawn[8:16]) < self._sampled_below
        return TraceContext(trace_id=drawn[:16], span_id=drawn[16:], is_sampled=is_sampled)

    def add(self, span: Span) -> None:
        if len(self._spans) >= MAX_SPANS:
            self.dropped += 1
        else:
            self._spans.append(span)

    def take(self) -> list[Span]:
        """Return the collected spans and forget them."""
        taken, self._spans = self._spans, []
        return taken
