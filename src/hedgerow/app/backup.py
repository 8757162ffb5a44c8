"""Backup and restore of an embedded installation, joined: the state first and the events after it.

In this order nothing is lost: an event that the state still has on its way may be among the copied
events too, and is left out when it comes there again.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hedgerow.app.events import OpenedWhenNeeded, event_place
from hedgerow.app.state import ensure_data_folder
from hedgerow.errors import AppError, Unready
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.settings import Settings
from hedgerow.storage import sealing_file
from hedgerow.storage.backup import Backup, copy_key, copy_state
from hedgerow.storage.backup_desk import BackupDesk
from hedgerow.storage.folder_lock import FolderInUse

LOOK_EVERY_S = 0.1
# Who serves looks for wishes every second, and has then heard of this one.
PATIENCE_S = 30.0


def check_embedded(settings: Settings) -> None:
    if settings.database_url or settings.clickhouse_url:
        raise Unready(
            "PostgreSQL and ClickHouse are backed up by their own means, pg_dump and BACKUP: see "
            "docs/guides/operations.md. This verb is for what is in the data folder."
        )


async def make_backup(settings: Settings, folder: Path, tell: Callable[[str], None]) -> None:
    backup = Backup(folder.resolve())
    backup.begin()
    await in_daemon_thread(lambda: copy_state(settings.sqlite_path, backup.state))
    copy_key(settings.data / sealing_file.NAME, backup.sealing_key)
    await _copy_events(settings, backup.events, tell)
    backup.finish(utc_now())


async def restore_backup(settings: Settings, folder: Path) -> None:
    """The database comes last: without it there is no installation."""
    backup = Backup(folder.resolve())
    backup.check()
    if settings.sqlite_path.exists():
        raise Unready(
            f"There is an installation in {settings.data} already. Stop its service and move the "
            "folder away, or name another one with --data."
        )
    ensure_data_folder(settings.data)
    if backup.events.is_dir():
        events = OpenedWhenNeeded(event_place(settings))
        try:
            await (await events.opened()).restore(backup.events)
        finally:
            await events.close()
    copy_key(backup.sealing_key, settings.data / sealing_file.NAME)
    await in_daemon_thread(lambda: copy_state(backup.state, settings.sqlite_path))


async def _copy_events(settings: Settings, target: Path, tell: Callable[[str], None]) -> None:
    place = event_place(settings)
    events = OpenedWhenNeeded(place)
    try:
        store = await events.opened()
        await store.backup(target)
    except FolderInUse:
        tell("The service is running and copies the events itself: waiting.")
        await _ask(BackupDesk(place.folder), target)
    finally:
        await events.close()


async def _ask(desk: BackupDesk, target: Path) -> None:
    desk.ask(target)
    deadline = time.monotonic() + PATIENCE_S
    while desk.is_waiting():
        if time.monotonic() > deadline:
            desk.withdraw()
            raise Unready("The process that has the events open does not copy them: stop it first.")
        await asyncio.sleep(LOOK_EVERY_S)
    while (problem := desk.answer()) is None:
        await asyncio.sleep(LOOK_EVERY_S)
    if problem:
        raise Unready(f"The events cannot be copied: {problem}")


@dataclass(frozen=True, slots=True)
class WishedBackups:
    """What the service does for whoever makes a backup beside it."""

    desk: BackupDesk
    events: OpenedWhenNeeded

    async def serve(self) -> None:
        """One turn of the background loop."""
        target = self.desk.taken()
        if target is None:
            return
        problem = "The service's log says why."
        try:
            await (await self.events.opened()).backup(target)
            problem = ""
        except (AppError, Unready) as error:
            problem = str(error)
        finally:
            self.desk.reply(problem)
