"""`hedgerow backup` and `hedgerow restore`: copy an installation and bring it back."""

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import check_installation
from hedgerow.cli.options import DataOption, format_command, load_command_settings


def backup(
    folder: Annotated[
        Path, typer.Argument(help="A new or empty directory for the copy.", metavar="DIR")
    ],
    data: DataOption = None,
) -> None:
    """Copy an installation to a directory, even while the service runs.

    The copy holds the state, from SQLite or PostgreSQL, the encryption key and the events of one
    moment. Protect it as you protect the original. Events in ClickHouse cannot be copied this way.
    """
    settings = load_command_settings(data_dir=data)
    commands.backup.check_local_events(settings)
    check_installation(settings)
    asyncio.run(
        commands.backup.make_backup(settings, folder, lambda line: print(line, file=sys.stderr))
    )
    line = format_command(f"restore {shlex.quote(str(folder))} --data NEW_DIR")
    if settings.database_url:
        line = f"HEDGEROW_DATABASE_URL=EMPTY_DATABASE {line}"
    print(f"The backup is in {folder}. Restore it with `{line}`.")


def restore(
    folder: Annotated[
        Path, typer.Argument(help="A directory that `hedgerow backup` wrote.", metavar="DIR")
    ],
    data: DataOption = None,
) -> None:
    """Create an installation from a backup.

    The data directory must not contain an installation. A backup of PostgreSQL also needs an empty
    database: set HEDGEROW_DATABASE_URL. All files are compared with their checksums first.
    """
    settings = load_command_settings(data_dir=data)
    commands.backup.check_local_events(settings)
    asyncio.run(commands.backup.restore_backup(settings, folder))
    print(f"Restored to {settings.data_dir}. Check it with `{format_command('doctor', settings)}`.")
