"""chDB: ClickHouse inside this process, on a folder that no other process may use meanwhile."""

import fcntl
import os
from pathlib import Path
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from hedgerow.errors import Unready
from hedgerow.storage.clickhouse import ClickHouse

DATABASE = "hedgerow"
MIB = 1 << 20

# The engine's defaults are for a machine of its own: gigabytes of caches and a thread per core.
_OPTIONS: dict[str, Any] = {
    "mark_cache_size": 16 * MIB,
    "index_mark_cache_size": 16 * MIB,
    "primary_index_cache_size": 16 * MIB,
    "query_condition_cache_size": MIB,
    "uncompressed_cache_size": 0,
    "background_pool_size": 2,
    "background_schedule_pool_size": 1,
    "max_server_memory_usage": 1024 * MIB,
    # A backup goes to where its owner wants it.
    "backups.allowed_path": "/",
    "max_threads": 2,
    "max_memory_usage": 512 * MIB,
    "max_bytes_before_external_sort": 128 * MIB,
    "max_bytes_before_external_group_by": 128 * MIB,
}


def open_chdb(folder: Path) -> ClickHouse:
    """Open the folder, or make it. Its lock is held until the engine is closed."""
    folder = folder.resolve()
    lock = _locked(folder)
    path = str(folder / "chdb")

    def connect(database: str = DATABASE) -> Client:
        return clickhouse_connect.get_client(
            interface="chdb",
            path=path,
            database=database,
            tz_mode="aware",
            chdb_options=_OPTIONS,
        )

    try:
        # The engine is there as long as one client is, so this one stays.
        keeper = connect("default")
        keeper.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    except (Error, OSError) as error:
        os.close(lock)
        raise Unready(f"The event store in {folder} cannot be opened: {error}") from error

    def release() -> None:
        keeper.close()
        os.close(lock)

    return ClickHouse(connect, release, is_embedded=True)


def _locked(folder: Path) -> int:
    """chDB itself does not keep a second process from the files, so we do."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unready(f"The event store in {folder} cannot be opened: {error.strerror}.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        raise Unready(
            f"The event store in {folder} is in use by process {holder}. One process at a time can "
            "open it: stop that one first, or give each a data folder of its own."
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock
