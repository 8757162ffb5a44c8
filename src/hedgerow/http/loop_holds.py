"""Counts and logs what holds the event loop of a process."""

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import structlog

from hedgerow.http.server.metrics import LabelledMetric, Metrics
from hedgerow.lib.workers.loop_watchdog import LoopHold, LoopWatchdog

LOG_INTERVAL_S = 60.0
# What calls handlers and tasks.
PLUMBING = (
    *("hedgerow.app.", "hedgerow.cli.", "hedgerow.http.endpoint.", "hedgerow.http.loop_holds."),
    *("hedgerow.http.route_tables.", "hedgerow.http.routing.", "hedgerow.http.server."),
    *("hedgerow.lib.eager.", "hedgerow.lib.sync_bridge.", "hedgerow.queries.due_work."),
)

_log = structlog.get_logger("hedgerow.http")


@asynccontextmanager
async def count_loop_holds(metrics: Metrics) -> AsyncIterator[None]:
    """Count what holds the running loop during the block. Each handler is logged once a minute."""
    logged_at_s: dict[str, float] = {}

    def log(hold: LoopHold) -> None:
        now_s = time.monotonic()
        if now_s - logged_at_s.get(hold.handler, -LOG_INTERVAL_S) >= LOG_INTERVAL_S:
            logged_at_s[hold.handler] = now_s
            _log.warning(
                "the event loop was held",
                handler=hold.handler,
                cpu_ms=round(hold.seconds * 1000),
                stack=list(hold.stack),
            )

    watchdog = LoopWatchdog(log, PLUMBING)

    def list_metrics() -> Iterable[LabelledMetric]:
        for name, help, values in (
            (
                "hedgerow_event_loop_holds_total",
                "Times that a handler used the event loop for 50 ms or more of processor time.",
                watchdog.counts,
            ),
            (
                "hedgerow_event_loop_hold_seconds_total",
                "The processor time of these.",
                watchdog.seconds,
            ),
        ):
            # Another thread may read while the event loop counts.
            labelled: dict[tuple[str, ...], float] = {
                (handler,): float(value) for handler, value in dict(values).items()
            }
            yield LabelledMetric(name=name, help=help, labels=("handler",), values=labelled)

    metrics.add_labelled(list_metrics)
    async with watchdog.watch():
        yield
