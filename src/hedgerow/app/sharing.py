"""What several processes need in order to be one service: a database and an event store that all of
them reach. With less, one process does everything.
"""

from hedgerow.errors import Unready
from hedgerow.settings import Settings

SPLIT_EVENTS = (
    "events are kept in this process's own data folder: let no other process work on this database,"
    " or set HEDGEROW_CLICKHOUSE_URL for all of them"
)


def check_shared(settings: Settings, who: str) -> None:
    """Refuse to do half of the work where nobody can do the other half."""
    if not settings.database_url:
        raise Unready(
            f"{who} needs PostgreSQL: set HEDGEROW_DATABASE_URL. On SQLite `hedgerow serve` works "
            "on events itself, and no other process can."
        )
    if not settings.clickhouse_url:
        raise Unready(
            f"{who} needs ClickHouse: set HEDGEROW_CLICKHOUSE_URL. Events in the data folder can "
            "be read by one process only, so there `hedgerow serve` works on them itself."
        )


def splits_events(settings: Settings) -> bool:
    """Whether a second process would keep events where this one cannot find them."""
    return bool(settings.database_url) and not settings.clickhouse_url
