"""Settings and project for a command that works on an existing installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.app import commands
from hedgerow.cli.options import (
    describe_missing_project,
    find_default_project,
    format_command,
    load_command_settings,
)
from hedgerow.errors import OperatorError

if TYPE_CHECKING:
    from pathlib import Path

    from hedgerow.app.state import State
    from hedgerow.projects.model import Project
    from hedgerow.settings import Settings


def load_installation_settings(data: Path | None) -> Settings:
    """Load the settings, and check that there is an installation that is ready to use."""
    settings = load_command_settings(data_dir=data)
    check_installation(settings)
    return settings


def check_installation(settings: Settings) -> None:
    """Raise OperatorError if the database is missing or lacks migrations."""
    schema = commands.state.find_schema_state(settings)
    if schema is None:
        raise OperatorError(
            f"There is no installation in {settings.data_dir}. Create one with "
            f"`{format_command('init', settings)}`, or choose another directory with --data."
        )
    if not schema.is_current:
        raise OperatorError(
            f"The database lacks {len(schema.pending)} migration(s). "
            f"Run `{format_command('migrate', settings)}` first."
        )


def choose_project(state: State, id: int | None) -> Project:
    """Return the project with this id, that of HEDGEROW_PROJECT, or the only one."""
    id = find_default_project() if id is None else id
    projects = state.directory.list_projects()
    matching = [project for project in projects if id in (None, project.id)]
    if len(matching) == 1:
        return matching[0]
    known = [(project.id, project.name) for project in projects]
    raise OperatorError(describe_missing_project(id, known))
