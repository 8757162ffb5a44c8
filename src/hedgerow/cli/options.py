"""Options that several verbs share, and what the settings are once options have had their say."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer

from hedgerow.lib import logs
from hedgerow.settings import (
    DEFAULT_DATA,
    Settings,
    load,
    unknown_variables,
    without_password,
)

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder for the data [env HEDGEROW_DATA; default hedgerow-data]."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def settings_with(**overrides: Any) -> Settings:
    """The settings, with warnings for variables that mean nothing."""
    settings, _ = load(os.environ, overrides)
    logs.configure(settings.log_level, settings.log_format, sys.stderr)
    for name, meant in unknown_variables(os.environ).items():
        hint = f"did you mean {meant}?" if meant else "see `hedgerow settings`"
        structlog.get_logger("hedgerow").warning(f"{name} is not a setting: {hint}")
    return settings


def command(verb: str, settings: Settings | None = None) -> str:
    """How this very program is called for this very installation, so that it can be pasted."""
    program = sys.argv[0]
    name = program if os.path.basename(program) == "hedgerow" else "hedgerow"
    here = os.path.relpath(name) if os.path.isabs(name) else name
    on_path = os.path.dirname(os.path.abspath(name)) in os.environ.get("PATH", "").split(":")
    line = f"{'hedgerow' if on_path else shlex.quote(min(name, here, key=len))} {verb}"
    if settings is not None and settings.database_url:
        return f"HEDGEROW_DATABASE_URL=… {line}"
    if settings is not None and settings.data != DEFAULT_DATA:
        return f"{line} --data {shlex.quote(str(settings.data))}"
    return line


def kept_in(settings: Settings) -> str:
    """Where the state is, for people: the database without its password, or the folder."""
    return without_password(settings.database_url) or str(settings.data.absolute())
