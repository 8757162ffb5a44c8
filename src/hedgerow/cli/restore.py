"""`hedgerow restore`: an installation out of a backup."""

from pathlib import Path
from typing import Annotated

import typer
import uvloop

from hedgerow.app.backup import check_embedded, restore_backup
from hedgerow.cli.options import DataOption, command, settings_with


def restore(
    folder: Annotated[Path, typer.Argument(help="The folder that `hedgerow backup` made.")],
    data: DataOption = None,
) -> None:
    """Make an installation of what `hedgerow backup` saved.

    The data folder must not have one yet.
    """
    settings = settings_with(data=data)
    check_embedded(settings)
    uvloop.run(restore_backup(settings, folder))
    print(f"Restored to {settings.data}. Look at it with `{command('doctor', settings)}`.")
