"""Deliveries for Prometheus: what waits for each destination, and what this process did."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from hedgerow.app.delivery import Delivery
from hedgerow.http.metrics import Labelled
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId

LABELS = ("project", "destination")
# Each destination makes a series of its own of every metric. Those beyond are told as one.
MAX_LABELLED = 200
OTHERS = ("other", "other")

T = TypeVar("T")


def delivery_metrics(delivery: Delivery) -> Iterable[Labelled]:
    # A worker's metrics are asked for from another thread.
    backlogs, totals = delivery.backlogs.all(), dict(delivery.deliverer.totals)
    waiting = {id: (each.backlog.project_id, each) for id, each in backlogs.items()}
    done = {id: (each.project_id, each) for id, each in totals.items()}
    yield _labelled(
        "hedgerow_deliveries_waiting",
        "Deliveries that were never tried.",
        waiting,
        lambda each: each.backlog.waiting,
    )
    yield _labelled(
        "hedgerow_deliveries_retrying",
        "Deliveries that were tried and are to be tried again.",
        waiting,
        lambda each: each.backlog.retrying,
    )
    yield _labelled(
        "hedgerow_deliveries_dead",
        "Deliveries that are not tried again unless somebody says so.",
        waiting,
        lambda each: each.backlog.dead,
    )
    yield _labelled(
        "hedgerow_deliveries_oldest_seconds",
        "How long the oldest delivery waits that is not dead.",
        waiting,
        lambda each: each.oldest_s,
        join=max,
    )
    yield _labelled(
        "hedgerow_deliveries_delivered_total",
        "Deliveries that arrived.",
        done,
        lambda each: each.delivered,
    )
    yield _labelled(
        "hedgerow_deliveries_retried_total",
        "Failed tries that are repeated.",
        done,
        lambda each: each.retried,
    )
    yield _labelled(
        "hedgerow_deliveries_failed_total",
        "Deliveries that were given up.",
        done,
        lambda each: each.dead,
    )


def _labelled(
    name: str,
    help: str,
    things: Mapping[RecordId, tuple[ProjectId, T]],
    value: Callable[[T], float],
    join: Callable[[float, float], float] = float.__add__,
) -> Labelled:
    values: dict[tuple[str, ...], float] = {}
    for place, (id, (project_id, thing)) in enumerate(sorted(things.items())):
        labels = (str(project_id), str(id)) if place < MAX_LABELLED else OTHERS
        told = float(value(thing))
        values[labels] = join(values[labels], told) if labels in values else told
    return Labelled(name=name, help=help, labels=LABELS, values=values)
