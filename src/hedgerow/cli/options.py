"""Options that several verbs share, and what the settings are once options have had their say."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer

from hedgerow.app.state import ensure_data_folder, place_of
from hedgerow.errors import Unready
from hedgerow.kit import logs
from hedgerow.settings import (
    DEFAULT_DATA,
    Settings,
    load,
    unknown_variables,
    without_password,
)
from hedgerow.storage.schema import schema_state

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder for the data [env HEDGEROW_DATA; default hedgerow-data]."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def settings_with(**overrides: Any) -> Settings:
    """The settings, with warnings for variables that mean nothing."""
    settings, _ = load(os.environ, overrides)
    logs.configure(settings.log_level, settings.log_format)
    for name, meant in unknown_variables(os.environ).items():
        hint = f"did you mean {meant}?" if meant else "see `hedgerow settings`"
        structlog.get_logger("hedgerow").warning(f"{name} is not a setting: {hint}")
    return settings


def prepared_settings(data: Path | None) -> Settings:
    """Settings for a verb that needs an installation; Unready says how to make one."""
    settings = settings_with(data=data)
    place = place_of(settings)
    if place.is_sqlite and not place.path.exists():
        raise Unready(
            f"There is no Hedgerow in {settings.data} yet. "
            f"Make one with `{command('init', settings)}`, or name another folder with --data."
        )
    if place.is_sqlite:
        ensure_data_folder(settings.data)
    state = schema_state(place)
    if not state.is_current:
        raise Unready(
            f"The database lacks {len(state.pending)} migration step(s). "
            f"Run `{command('migrate', settings)}` first."
        )
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
