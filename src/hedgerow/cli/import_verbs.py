"""`hedgerow import`: rows of files as events, or all of another service's definitions."""

from typing import Any

import typer
from typer.core import TyperGroup

from hedgerow.cli.import_files import import_files
from hedgerow.cli.import_flags import import_flagsmith, import_unleash
from hedgerow.cli.import_posthog import import_posthog

FILES = "files"


class FilesByDefault(TyperGroup):
    """What is no verb is a file: `hedgerow import orders.csv` needs no more words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [FILES, *args]
        return super().parse_args(ctx, args)


import_verbs = typer.Typer(cls=FilesByDefault)
import_verbs.command(FILES)(import_files)
import_verbs.command("posthog")(import_posthog)
import_verbs.command("unleash")(import_unleash)
import_verbs.command("flagsmith")(import_flagsmith)
