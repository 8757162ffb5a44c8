"""`hedgerow backup`: a copy of an embedded installation, while it runs or not."""

import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from hedgerow.app.backup import check_embedded, make_backup
from hedgerow.cli.options import DataOption, command, settings_with
from hedgerow.cli.prepared import check_prepared


def backup(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder for the copy.")],
    data: DataOption = None,
) -> None:
    """Copy everything in the data folder to another, also while the service runs.

    That is the state, the sealing key and the events, as they are at one moment. The copy is as
    secret as the original.
    """
    settings = settings_with(data=data)
    check_embedded(settings)
    check_prepared(settings)
    uvloop.run(make_backup(settings, folder, lambda line: print(line, file=sys.stderr)))
    print(f"The backup is in {folder}. Bring it back with `{command(f'restore {folder}')}`.")
