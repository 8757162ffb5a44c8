"""Backups of the table of events of the embedded engine: the folders of its parts.

chDB's own BACKUP reports success although writing has failed, so the files are copied here.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from clickhouse_connect.driver.client import Client

from hedgerow.errors import OperatorError
from hedgerow.storage.backup.verified_copy import copy_folder
from hedgerow.storage.events.clickhouse import fetch_rows
from hedgerow.storage.events.embedded.part import find_defect, parse_part
from hedgerow.storage.events.embedded.quarantine import DETACHED
from hedgerow.storage.events.schema import TABLE

# Of backups that the engine has made itself.
OLD_MANIFEST = ".backup"
_FOLDERS = """
    SELECT data_paths[1] AS folder,
           (SELECT any(path) FROM system.disks WHERE name = 'default') AS disk
    FROM system.tables WHERE database = currentDatabase() AND name = {table:String}
"""


def back_up_parts(client: Client, target: Path) -> None:
    """Copy a snapshot of all parts, compare each copy with its source, and its size with the
    engine's checksums. Raises OperatorError."""
    if target.exists():
        raise OperatorError(f"{target} already exists: a backup needs a new folder.")
    try:
        target.mkdir(mode=0o700)
        with _freeze(client) as parts:
            for part in parts:
                copy_folder(part, target / part.name)
                if defect := find_defect(target / part.name):
                    raise OperatorError(f"The events in {part} cannot be copied: {defect}.")
    except OSError as error:
        problem = f"The events cannot be copied to {target}: {error.strerror}."
        raise OperatorError(problem) from error


def restore_parts(client: Client, source: Path) -> None:
    """Copy the parts of a backup into the table, which must be empty. Raises OperatorError."""
    if (source / OLD_MANIFEST).is_file():
        raise OperatorError(
            f"{source} was made by an earlier version of Hedgerow. Restore it with that version, "
            "and start this one on the result."
        )
    names = [path.name for path in sorted(source.iterdir())]
    if not all(map(parse_part, names)):
        raise OperatorError(f"There is no backup of events in {source}.")
    (row,) = fetch_rows(client, f"SELECT count() AS count FROM {TABLE}", {})  # noqa: S608 - our own names
    if row["count"]:
        raise OperatorError("The event store is not empty: restore into an empty one.")
    table, _ = _find_folders(client)
    for name in names:
        try:
            copy_folder(source / name, table / DETACHED / name)
        except OSError as error:
            problem = f"The events cannot be copied to {table}: {error.strerror}."
            raise OperatorError(problem) from error
        client.command(f"ALTER TABLE {TABLE} ATTACH PART '{name}'")


@contextmanager
def _freeze(client: Client) -> Iterator[list[Path]]:
    """Yield the folders of all parts of this moment. Their files are links until the end."""
    _, disk = _find_folders(client)
    name = uuid4().hex
    settings = {"alter_partition_verbose_result": 1}
    try:
        answer = client.raw_query(
            f"ALTER TABLE {TABLE} FREEZE WITH NAME '{name}'", settings=settings
        )
        # The last column of each line is the folder of a part.
        yield [Path(line.rpartition("\t")[2]) for line in answer.decode().splitlines()]
    finally:
        shutil.rmtree(disk / "shadow" / name, ignore_errors=True)


def _find_folders(client: Client) -> tuple[Path, Path]:
    """Return the folder of the table and that of the engine."""
    (row,) = fetch_rows(client, _FOLDERS, {"table": TABLE})
    return Path(row["folder"]), Path(row["disk"])
