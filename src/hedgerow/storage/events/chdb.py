"""chDB: ClickHouse inside this process, on a folder that only one process may open."""

from pathlib import Path
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from hedgerow.errors import OperatorError
from hedgerow.storage.events.clickhouse import ClickHousePool
from hedgerow.storage.events.folder_lock import CHDB_FOLDER, FolderLock, lock_folder

DATABASE = "hedgerow"
MIB = 1 << 20

# The defaults assume a dedicated machine: gigabytes of caches and a thread per core.
_ENGINE_OPTIONS: dict[str, Any] = {
    "mark_cache_size": 16 * MIB,
    "index_mark_cache_size": 16 * MIB,
    "primary_index_cache_size": 16 * MIB,
    "query_condition_cache_size": MIB,
    "uncompressed_cache_size": 0,
    "background_pool_size": 2,
    "background_schedule_pool_size": 1,
    "max_server_memory_usage": 1024 * MIB,
    # The operator chooses where backups go.
    "backups.allowed_path": "/",
    "max_threads": 2,
    "max_memory_usage": 512 * MIB,
    "max_bytes_before_external_sort": 128 * MIB,
    "max_bytes_before_external_group_by": 128 * MIB,
}


def open_chdb(folder: Path, lock: FolderLock | None = None) -> ClickHousePool:
    """Open the folder, creating it if needed. Its lock is held until the pool is closed."""
    folder = folder.resolve()
    lock = lock or lock_folder(folder)
    path = str(folder / CHDB_FOLDER)

    def connect(database: str = DATABASE) -> Client:
        return clickhouse_connect.get_client(
            interface="chdb",
            path=path,
            database=database,
            tz_mode="aware",
            chdb_options=_ENGINE_OPTIONS,
        )

    try:
        # The engine stops with its last client, so keep this one open.
        keeper = connect("default")
        keeper.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    except (Error, OSError) as error:
        lock.release()
        raise OperatorError(f"The event store in {folder} cannot be opened: {error}") from error

    def release() -> None:
        keeper.close()
        lock.release()

    return ClickHousePool(connect, release, is_embedded=True)
