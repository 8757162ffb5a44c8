"""What a process shows to whoever watches over it: its database, and events on their way in and
out.
"""

from collections.abc import Iterable

from hedgerow.app.capture import Intake
from hedgerow.app.delivery import Delivery
from hedgerow.app.delivery_metrics import delivery_metrics
from hedgerow.http.metrics import Metrics
from hedgerow.storage.database import Database
from hedgerow.worker import Failing


def join_metrics(
    database: Database, intake: Intake, delivery: Delivery, failing: Failing
) -> Metrics:
    def failures() -> tuple[str, str, float]:
        return "hedgerow_chores_failing", "Chores that failed at their last turn.", failing.number()

    return Metrics(
        lambda: (*_database_gauges(database), *intake.gauges(), failures()),
        lambda: delivery_metrics(delivery),
    )


def _database_gauges(database: Database) -> Iterable[tuple[str, str, float]]:
    stats = database.stats()
    yield "hedgerow_database_connections_open", "Open connections.", stats.connections_open
    yield "hedgerow_database_connections_in_use", "Connections at work.", stats.connections_in_use
    yield "hedgerow_database_writes_waiting", "Changes waiting.", stats.writes_waiting
    yield "hedgerow_database_commits_total", "Commits made.", stats.commits
    yield "hedgerow_database_changes_total", "Changes stored by those commits.", stats.changes
