"""The spans of requests."""

import time

from hedgerow.events.tracing import Span, SpanKind, SpanLog, TraceContext
from hedgerow.http.server.trace import Trace

FIRST_SERVER_ERROR = 500


class RequestSpans:
    def __init__(self, log: SpanLog) -> None:
        self._log = log

    def find_context(self, trace: Trace) -> TraceContext:
        """Return the trace context of a request, the same one for each call."""
        if trace.context is None:
            trace.context = self._log.begin(trace.traceparent.decode("latin-1"))
        context: TraceContext = trace.context
        return context

    def add(self, trace: Trace, method: str, route: str, status: int, seconds: float) -> None:
        context = self.find_context(trace)
        if not context.is_sampled:
            return
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "hedgerow.request_id": trace.id.decode(),
        }
        if trace.project_id is not None:
            attributes["hedgerow.project_id"] = trace.project_id
        self._log.add(
            Span(
                context=context,
                name=f"{method} {route}",
                kind=SpanKind.SERVER,
                ended_ns=time.time_ns(),
                duration_ns=int(seconds * 1e9),
                attributes=attributes,
                is_error=status >= FIRST_SERVER_ERROR,
            )
        )
