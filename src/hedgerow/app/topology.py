"""Which processes can share an installation: several need PostgreSQL and ClickHouse."""

from hedgerow.errors import OperatorError
from hedgerow.lib.optional_packages import build_install_command, is_installed
from hedgerow.settings import Settings

SPLIT_EVENTS = (
    "events are stored in this process's data directory: run no other process on this database, or "
    "set HEDGEROW_CLICKHOUSE_URL for all of them"
)


def require_shared_stores(settings: Settings, command: str) -> None:
    """Raise OperatorError unless the settings name stores that several processes can share."""
    if not settings.database_url:
        raise OperatorError(
            f"{command} needs PostgreSQL: set HEDGEROW_DATABASE_URL. On SQLite, `hedgerow serve` "
            "processes the events itself."
        )
    if not settings.clickhouse_url:
        raise OperatorError(
            f"{command} needs ClickHouse: set HEDGEROW_CLICKHOUSE_URL. Only one process can open "
            "events in the data directory, so `hedgerow serve` processes them itself."
        )


def can_share_stores(settings: Settings) -> bool:
    """Return whether several processes can open the data."""
    return bool(settings.database_url and settings.clickhouse_url)


def require_stream(settings: Settings) -> None:
    """Raise OperatorError unless the inbox can be in NATS JetStream."""
    if not settings.database_url:
        raise OperatorError(
            "HEDGEROW_INBOX_URL needs PostgreSQL, which has the positions up to which events are "
            "processed: set HEDGEROW_DATABASE_URL."
        )
    if not is_installed("nats"):
        raise OperatorError(
            "HEDGEROW_INBOX_URL needs the Python package nats-py. Install it with "
            f"`{build_install_command('nats')}`."
        )


def has_local_events_only(settings: Settings) -> bool:
    """Return whether a second process would store events where this one cannot read them."""
    return bool(settings.database_url) and not settings.clickhouse_url
