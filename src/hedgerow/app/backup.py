"""Backup and restore of an embedded installation: the state first, then the events.

In this order nothing is lost: an event that the copied inbox still holds may also be among the
copied events, and is deduplicated when it is processed again.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hedgerow.app.event_store import LazyEventStore, event_store_location
from hedgerow.app.state import ensure_data_dir
from hedgerow.errors import AppError, OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.settings import Settings
from hedgerow.storage.backup import encryption_key_file
from hedgerow.storage.backup.backup import Backup, copy_key, copy_state
from hedgerow.storage.backup.requests import BackupRequestFiles
from hedgerow.storage.events.folder_lock import FolderInUseError

POLL_INTERVAL_S = 0.1
# The service looks for backup requests every second.
RESPONSE_TIMEOUT_S = 30.0


def check_embedded(settings: Settings) -> None:
    if settings.database_url or settings.clickhouse_url:
        raise OperatorError(
            "This command backs up the data directory only. Back up PostgreSQL with pg_dump and "
            "ClickHouse with BACKUP: see docs/guides/operations.md."
        )


async def make_backup(settings: Settings, folder: Path, report: Callable[[str], None]) -> None:
    backup = Backup(folder.resolve())
    backup.create_folder()
    await run_in_thread(lambda: copy_state(settings.sqlite_path, backup.state))
    copy_key(encryption_key_file.find_key_file(settings.data_dir), backup.encryption_key)
    await _copy_events(settings, backup.events, report)
    backup.write_manifest(utc_now())


async def restore_backup(settings: Settings, folder: Path) -> None:
    """Restore the database last: until then there is no installation to start."""
    backup = Backup(folder.resolve())
    backup.check_complete()
    if settings.sqlite_path.exists():
        raise OperatorError(
            f"{settings.data_dir} already holds an installation. Stop its service and move the "
            "directory away, or choose another one with --data."
        )
    ensure_data_dir(settings.data_dir)
    if backup.events.is_dir():
        events = LazyEventStore(event_store_location(settings))
        try:
            await (await events.open()).restore(backup.events)
        finally:
            await events.close()
    copy_key(backup.encryption_key, settings.data_dir / encryption_key_file.FILE_NAME)
    await run_in_thread(lambda: copy_state(backup.state, settings.sqlite_path))


async def _copy_events(settings: Settings, target: Path, report: Callable[[str], None]) -> None:
    place = event_store_location(settings)
    events = LazyEventStore(place)
    try:
        store = await events.open()
        await store.backup(target)
    except FolderInUseError:
        report("The service is running: waiting for it to copy the events.")
        await _ask(BackupRequestFiles(place.folder), target)
    finally:
        await events.close()


async def _ask(desk: BackupRequestFiles, target: Path) -> None:
    desk.submit(target)
    deadline = time.monotonic() + RESPONSE_TIMEOUT_S
    while desk.is_pending():
        if time.monotonic() > deadline:
            desk.cancel()
            raise OperatorError(
                "The process that has the event store open does not respond. Stop it and try again."
            )
        await asyncio.sleep(POLL_INTERVAL_S)
    while (problem := desk.poll_result()) is None:
        await asyncio.sleep(POLL_INTERVAL_S)
    if problem:
        raise OperatorError(f"The events were not copied: {problem}")


@dataclass(frozen=True, slots=True)
class BackupRequests:
    """Copies the events when `hedgerow backup` requests it while the service runs."""

    desk: BackupRequestFiles
    events: LazyEventStore

    async def serve(self) -> None:
        """Serve a waiting request, if there is one."""
        target = self.desk.take()
        if target is None:
            return
        problem = "See the service's log for the reason."
        try:
            await (await self.events.open()).backup(target)
            problem = ""
        except (AppError, OperatorError) as error:
            problem = str(error)
        finally:
            self.desk.report_result(problem)
