"""The spans of deliveries: each attempt is part of the trace of the request that sent its events.

A batch has events of several requests. Its span is a child of the first one's, and links to the
others: a span has one parent, and receivers get one `traceparent`.
"""

import re
import time
from collections.abc import Sequence

from hedgerow.events.model import TRACEPARENT, Event
from hedgerow.events.tracing import Span, SpanKind, SpanLog, TraceContext, parse_traceparent
from hedgerow.pipelines.model import RecordId
from hedgerow.plugin.outcomes import Delivered, Outcome
from hedgerow.projects.model import ProjectId

MAX_LINKS = 32

_PROPERTY = re.compile(rf'"{re.escape(TRACEPARENT)}": ?"(00-[0-9a-f-]{{52}})"')


class DeliverySpan:
    """One attempt. `traceparent` is what receivers continue: this span, or the request's if this
    process exports no spans; empty for events without a trace."""

    def __init__(self, events: Sequence[Event], log: SpanLog | None) -> None:
        self._log = log
        self._causes = _find_causes(events, MAX_LINKS + 1 if log is not None else 1)
        self._number = len(events)
        self._started_ns = time.time_ns()
        self._context: TraceContext | None = None
        if self._causes:
            first = self._causes[0]
            self._context = first if log is None else first.begin_child()

    @property
    def traceparent(self) -> str:
        return "" if self._context is None else self._context.traceparent

    def end(self, project_id: ProjectId, record_id: RecordId, outcomes: Sequence[Outcome]) -> None:
        if self._log is None or self._context is None or not self._context.is_sampled:
            return
        failed = [each for each in outcomes if not isinstance(each, Delivered)]
        attributes: dict[str, str | int] = {
            "hedgerow.project_id": project_id,
            "hedgerow.destination_id": str(record_id),
            "hedgerow.events": self._number,
            "hedgerow.failed_events": len(failed),
        }
        if failed:
            attributes["error.message"] = failed[0].reason
        now_ns = time.time_ns()
        self._log.add(
            Span(
                context=self._context,
                name="deliver",
                kind=SpanKind.CLIENT,
                ended_ns=now_ns,
                duration_ns=now_ns - self._started_ns,
                attributes=attributes,
                is_error=bool(failed),
                links=self._causes[1:],
            )
        )


def _find_causes(events: Sequence[Event], at_most: int) -> list[TraceContext]:
    """Return the spans of the requests that sent the events, each once."""
    found: dict[str, TraceContext] = {}
    for event in events:
        if TRACEPARENT not in event.properties:
            continue
        match = _PROPERTY.search(event.properties)
        if match is not None and (context := parse_traceparent(match[1])) is not None:
            found.setdefault(match[1], context)
            if len(found) >= at_most:
                break
    return list(found.values())
