"""Options that several commands share, and the settings that a command runs with."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.settings import (
    DEFAULT_DATA_DIR,
    Settings,
    find_renamed_variables,
    find_unknown_variables,
    load_settings,
    mask_password,
)

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        "--data-dir",
        metavar="DIR",
        help="Data directory [env HEDGEROW_DATA_DIR; default hedgerow-data].",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
ProjectOption = Annotated[
    int | None,
    typer.Option(
        "--project",
        metavar="ID",
        help="Project id. Required if there are several projects [env HEDGEROW_PROJECT].",
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="URL of the running service [env HEDGEROW_SERVER_URL; default http://127.0.0.1:8000].",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Personal API key for the running service [env HEDGEROW_PERSONAL_KEY].",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")
]


def print_warning(text: str) -> None:
    print(f"hedgerow: warning: {text}", file=sys.stderr)


def load_command_settings(
    warn: Callable[[str], None] = print_warning, **overrides: Any
) -> Settings:
    """Load the settings, with options over the environment.

    Warns about variables that are unknown or have a new name.
    """
    settings, _ = load_settings(os.environ, overrides)
    # Loading structlog takes 0.2 s of CPU. A command that imports no module that logs skips it.
    if "structlog" in sys.modules:
        logs = import_module("hedgerow.lib.logs")
        logs.configure_logging(settings.log_level, settings.log_format, sys.stderr)
    for problem in _describe_variables(os.environ):
        warn(problem)
    return settings


def _describe_variables(environment: Mapping[str, str]) -> Iterator[str]:
    for old, new in find_renamed_variables(environment).items():
        yield f"{old} is deprecated: use {new}. The next release ignores the old name."
    for name, closest in find_unknown_variables(environment).items():
        hint = f"did you mean {closest}?" if closest else "see `hedgerow settings`"
        yield f"{name} is not a setting: {hint}"


def format_command(arguments: str, settings: Settings | None = None) -> str:
    """Return a command line to paste: this program, these arguments, this installation."""
    program = sys.argv[0]
    name = program if os.path.basename(program) == "hedgerow" else "hedgerow"
    here = os.path.relpath(name) if os.path.isabs(name) else name
    on_path = os.path.dirname(os.path.abspath(name)) in os.environ.get("PATH", "").split(":")
    line = f"{'hedgerow' if on_path else shlex.quote(min(name, here, key=len))} {arguments}"
    if settings is not None and settings.database_url:
        return f"HEDGEROW_DATABASE_URL=… {line}"
    if settings is not None and settings.data_dir != DEFAULT_DATA_DIR:
        return f"{line} --data {shlex.quote(str(settings.data_dir))}"
    return line


def describe_state_location(settings: Settings) -> str:
    """Return the database URL without its password, or the data directory."""
    return mask_password(settings.database_url) or str(settings.data_dir.absolute())


def find_default_project() -> int | None:
    """Return the project of HEDGEROW_PROJECT."""
    settings, _ = load_settings(os.environ, {})
    return settings.project or None


def describe_missing_project(id: int | None, projects: Sequence[tuple[int, str]]) -> str:
    """Return the error for a `--project` that is missing or wrong."""
    known = ", ".join(f"{number} ({name})" for number, name in projects[:20])
    problem = f"There is no project {id}." if id is not None else "There are several projects."
    return f"{problem} Choose one with --project or HEDGEROW_PROJECT: {known}."
