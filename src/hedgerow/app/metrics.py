"""Prometheus metrics of a process: its database, ingestion, deliveries and background tasks."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from hedgerow.app.delivery import DeliverySystem
from hedgerow.app.ingestion import Ingestion
from hedgerow.app.periodic_tasks import TaskHealth
from hedgerow.flags.evaluation.budget import EvaluationPacer
from hedgerow.http.server.connections import ConnectionTable
from hedgerow.http.server.metrics import LabelledMetric, Metrics
from hedgerow.http.server.refusals import Refusals
from hedgerow.http.server.request_queues import RequestQueues
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database

Gauge = tuple[str, str, float]


def build_metrics(
    database: Database,
    ingestion: Ingestion,
    delivery: DeliverySystem,
    health: TaskHealth,
    refusals: Refusals,
    evaluations: EvaluationPacer,
) -> Metrics:
    return Metrics(
        lambda: (
            *_database_gauges(database),
            *_ingestion_gauges(ingestion),
            (
                "hedgerow_background_tasks_failing",
                "Background tasks that failed in their last run.",
                health.failing_count(),
            ),
            (
                "hedgerow_flag_evaluations_over_budget_total",
                "Flag evaluations in which a flag failed because it takes too long.",
                evaluations.exceeded,
            ),
        ),
        lambda: (*delivery_metrics(delivery), refusals.metric()),
    )


def connection_gauges(connections: ConnectionTable, queues: RequestQueues) -> Iterable[Gauge]:
    yield (
        "hedgerow_http_requests_waiting",
        "Requests that wait for their handler to start.",
        queues.waiting,
    )
    yield "hedgerow_http_connections_open", "Open HTTP connections.", connections.open
    yield "hedgerow_http_connections_max", "Maximum of open HTTP connections.", connections.limit
    yield (
        "hedgerow_http_connections_replaced_total",
        "Waiting connections that were closed to accept others.",
        connections.replaced,
    )
    yield (
        "hedgerow_http_connections_refused_total",
        "Connections over the limit. Only health checks get a response.",
        connections.refused,
    )


def _database_gauges(database: Database) -> Iterable[Gauge]:
    stats = database.stats()
    yield "hedgerow_database_connections_open", "Open connections.", stats.connections_open
    yield "hedgerow_database_connections_in_use", "Connections in use.", stats.connections_in_use
    yield "hedgerow_database_writes_waiting", "Writes waiting for a commit.", stats.writes_waiting
    yield "hedgerow_database_commits_total", "Commits.", stats.commits
    yield "hedgerow_database_changes_total", "Writes stored by these commits.", stats.changes


def _ingestion_gauges(ingestion: Ingestion) -> Iterable[Gauge]:
    """The inbox gauges cover the installation; the counters cover this process."""
    yield (
        "hedgerow_inbox_events_waiting",
        "Events waiting to be processed.",
        ingestion.progress.waiting,
    )
    yield (
        "hedgerow_inbox_oldest_seconds",
        "Age of the oldest waiting event.",
        ingestion.lag_monitor.seconds(),
    )
    yield "hedgerow_events_accepted_total", "Events accepted.", ingestion.capture.accepted
    yield "hedgerow_events_rejected_total", "Events rejected.", ingestion.capture.rejected
    yield (
        "hedgerow_events_processed_total",
        "Events processed: transformed, with their person.",
        ingestion.processor.processed,
    )
    yield (
        "hedgerow_events_stored_total",
        "Events stored in the event store.",
        ingestion.processor.stored,
    )
    yield (
        "hedgerow_event_engine_restarts_total",
        "Restarts of the embedded event engine, after it was killed or crashed.",
        ingestion.event_store.engine_restarts,
    )
    yield (
        "hedgerow_event_store_damage_total",
        "Findings of damaged files of the event store: failed calls, and parts put aside.",
        ingestion.event_store.damage_count,
    )
    yield (
        "hedgerow_event_store_quarantined_parts",
        "Parts of the event store that were not completely written, and are kept apart.",
        ingestion.event_store.quarantined_count,
    )
    yield (
        "hedgerow_inbox_events_dead_lettered",
        "Dead letters of the installation.",
        ingestion.lag_monitor.dead_letters,
    )
    yield (
        "hedgerow_events_dead_lettered_total",
        "Events that this process dead-lettered.",
        ingestion.processor.dead_lettered,
    )


LABELS = ("project", "destination")
# Each destination adds a time series to every metric. Destinations above this limit share one.
MAX_LABELLED = 200
OTHERS = ("other", "other")

T = TypeVar("T")


def delivery_metrics(delivery: DeliverySystem) -> Iterable[LabelledMetric]:
    # A worker's metrics are read from another thread: copy first.
    backlogs, totals = delivery.backlogs.all(), dict(delivery.deliverer.totals)
    waiting = {id: (each.backlog.project_id, each) for id, each in backlogs.items()}
    done = {id: (each.project_id, each) for id, each in totals.items()}
    yield _labelled(
        "hedgerow_deliveries_waiting",
        "Deliveries waiting for their first attempt.",
        waiting,
        lambda each: each.backlog.waiting,
    )
    yield _labelled(
        "hedgerow_deliveries_retrying",
        "Deliveries waiting for a retry.",
        waiting,
        lambda each: each.backlog.retrying,
    )
    yield _labelled(
        "hedgerow_deliveries_dead",
        "Dead deliveries, which are not retried automatically.",
        waiting,
        lambda each: each.backlog.dead,
    )
    yield _labelled(
        "hedgerow_deliveries_oldest_seconds",
        "Age of the oldest delivery that is not dead.",
        waiting,
        lambda each: each.oldest_s,
        join=max,
    )
    yield _labelled(
        "hedgerow_deliveries_delivered_total",
        "Delivered events.",
        done,
        lambda each: each.delivered,
    )
    yield _labelled(
        "hedgerow_deliveries_retried_total",
        "Failed attempts that are retried.",
        done,
        lambda each: each.retried,
    )
    yield _labelled(
        "hedgerow_deliveries_failed_total",
        "Deliveries that became dead.",
        done,
        lambda each: each.dead,
    )


def _labelled(
    name: str,
    help: str,
    things: Mapping[RecordId, tuple[ProjectId, T]],
    value: Callable[[T], float],
    join: Callable[[float, float], float] = float.__add__,
) -> LabelledMetric:
    values: dict[tuple[str, ...], float] = {}
    for position, (id, (project_id, thing)) in enumerate(sorted(things.items())):
        labels = (str(project_id), str(id)) if position < MAX_LABELLED else OTHERS
        number = float(value(thing))
        values[labels] = join(values[labels], number) if labels in values else number
    return LabelledMetric(name=name, help=help, labels=LABELS, values=values)
