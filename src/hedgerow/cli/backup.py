"""`hedgerow backup`: a copy of an embedded installation, while it runs or not."""

import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from hedgerow.app.backup import check_embedded, make_backup
from hedgerow.cli.options import DataOption, command, settings_with
from hedgerow.cli.prepared import prepared_settings


def backup(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder for the copy.")],
    data: DataOption = None,
) -> None:
    """Copy the state, the sealing key and the events to a folder, also while the service runs.

    For installations in a data folder. The copy is of one moment, and as secret as the original.
    """
    check_embedded(settings_with(data=data))
    settings = prepared_settings(data)
    uvloop.run(make_backup(settings, folder, lambda line: print(line, file=sys.stderr)))
    print(f"The backup is in {folder}. Bring it back with `{command(f'restore {folder}')}`.")
