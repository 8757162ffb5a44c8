"""Back up and restore an installation with an embedded event store: the state first, then the
events.

In this order nothing is lost: an event that the copied inbox still holds may also be among the
copied events, and is deduplicated when it is processed again.
"""

from collections.abc import Callable
from pathlib import Path

from hedgerow.app.event_store import LazyEventStore, event_store_location
from hedgerow.app.event_store_requests import StoreAction, request_from_service
from hedgerow.app.state import ensure_data_dir, state_location
from hedgerow.errors import AppError, OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.settings import Settings
from hedgerow.storage.backup import encryption_key_file
from hedgerow.storage.backup.backup import Backup, copy_key, copy_state
from hedgerow.storage.backup.postgres_copy import StateCopy, copy_tables, restore_tables
from hedgerow.storage.connect import has_event_store
from hedgerow.storage.events.folder_lock import FolderInUseError
from hedgerow.storage.migrations.apply import DATABASE_NOT_EMPTY
from hedgerow.storage.migrations.state import check_migration_is_known, inspect_schema


def check_local_events(settings: Settings) -> None:
    if settings.clickhouse_url:
        raise OperatorError(
            "The events are in ClickHouse, which this command cannot copy. Back up the state with "
            "pg_dump and the events with ClickHouse's BACKUP: see docs/guides/operations.md."
        )


async def make_backup(settings: Settings, folder: Path, report: Callable[[str], None]) -> None:
    """Raises OperatorError if not everything is written and verified."""
    backup = Backup(folder.resolve())
    unfinished = backup.begin()
    try:
        await _copy_all(settings, unfinished, report)
        backup.finish(unfinished)
    except (OSError, OperatorError, AppError) as error:
        problem = f"{error.strerror}." if isinstance(error, OSError) else str(error)
        raise OperatorError(
            f"The backup is not complete: {problem} What was copied is in {unfinished.folder}: "
            "delete it, or repeat the command, which replaces it."
        ) from error


async def _copy_all(settings: Settings, backup: Backup, report: Callable[[str], None]) -> None:
    tables: StateCopy | None = None
    if settings.database_url:
        location = state_location(settings)
        tables = await run_in_thread(lambda: copy_tables(location, backup.tables))
    else:
        await run_in_thread(lambda: copy_state(settings.sqlite_path, backup.state))
    copy_key(encryption_key_file.find_key_file(settings.data_dir), backup.encryption_key)
    await _copy_events(settings, backup.events, report)
    backup.write_manifest(utc_now(), tables)


async def restore_backup(settings: Settings, folder: Path) -> None:
    """Restore the database last: until then there is no installation to start."""
    backup = Backup(folder.resolve())
    tables = backup.read_manifest()
    _check_target(settings, tables)
    ensure_data_dir(settings.data_dir)
    if backup.events.is_dir():
        events = LazyEventStore(event_store_location(settings))
        try:
            await (await events.open()).restore(backup.events)
        finally:
            await events.close()
    copy_key(backup.encryption_key, settings.data_dir / encryption_key_file.FILE_NAME)
    if tables is None:
        await run_in_thread(lambda: copy_state(backup.state, settings.sqlite_path))
    else:
        location = state_location(settings)
        await run_in_thread(lambda: restore_tables(location, backup.tables, tables))


def _check_target(settings: Settings, tables: StateCopy | None) -> None:
    """Raise OperatorError unless the backup fits the database, and nothing would be overwritten."""
    if tables is None and settings.database_url:
        raise OperatorError(
            "The backup is of an installation on SQLite: unset HEDGEROW_DATABASE_URL to restore it."
        )
    if tables is not None and not settings.database_url:
        raise OperatorError(
            "The backup is of an installation on PostgreSQL: set HEDGEROW_DATABASE_URL to an empty "
            "database."
        )
    if tables is not None:
        check_migration_is_known(tables.migration)
        if inspect_schema(state_location(settings)).at is not None:
            raise OperatorError(DATABASE_NOT_EMPTY)
    key_file = encryption_key_file.find_key_file(settings.data_dir)
    has_events = has_event_store(event_store_location(settings))
    if settings.sqlite_path.exists() or key_file.exists() or has_events:
        raise OperatorError(
            f"{settings.data_dir} already holds an installation. Stop its service and move the "
            "directory away, or choose another one with --data."
        )


async def _copy_events(settings: Settings, target: Path, report: Callable[[str], None]) -> None:
    place = event_store_location(settings)
    events = LazyEventStore(place)
    try:
        store = await events.open()
        await store.backup(target)
    except FolderInUseError:
        report("The service is running: waiting for it to copy the events.")
        await request_from_service(place.folder, StoreAction.BACKUP, {"target": str(target)})
    finally:
        await events.close()
