"""`hedgerow init`: create an installation without starting the service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hedgerow.app import commands
from hedgerow.cli.lock_retry import retry_while_locked
from hedgerow.cli.options import (
    DataOption,
    JsonOption,
    describe_state_location,
    format_command,
    load_command_settings,
)
from hedgerow.cli.output import print_json
from hedgerow.cli.service_client import get_public_address
from hedgerow.people.model import build_url

if TYPE_CHECKING:
    from hedgerow.projects.bootstrap import InitialKeys
    from hedgerow.projects.model import Project
    from hedgerow.settings import Settings


def init(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Create the database, a project and its first keys.

    Prints the keys, unless you have chosen them. You can repeat it safely: a second run changes
    nothing and prints no secret.
    """
    settings = load_command_settings(data_dir=data)
    keys = retry_while_locked(lambda: commands.installation.create_installation(settings))
    project = asyncio.run(_load_first_project(settings))
    if as_json:
        print_json(
            {
                "created": keys is not None,
                "project_id": project.id,
                "project_key": project.api_token,
                "personal_key": keys.generated_personal_key if keys else None,
                "setup_link": _build_setup_link(settings, keys),
            }
        )
    elif keys:
        location = describe_state_location(settings)
        print(f"Created project {project.id}, {project.name!r}, in {location}\n")
        print(keys.describe())
        if link := _build_setup_link(settings, keys):
            print(
                f"  Setup link    {link}   secret: once, within 24 hours, sets the owner's password"
            )
        print()
        print(f"Next:  {format_command('serve', settings)}")
    else:
        print(f"Nothing to do: project {project.id}, {project.name!r}, exists already.\n")
        print(f"  Project key   {project.api_token}   public: for your apps\n")
        print(f"New personal key:  {format_command('keys create --label my-laptop', settings)}")


def _build_setup_link(settings: Settings, keys: InitialKeys | None) -> str | None:
    if keys is None or not keys.setup_token:
        return None
    return build_url(get_public_address(settings), "setup", keys.setup_token)


async def _load_first_project(settings: Settings) -> Project:
    async with commands.state.open_state(settings) as state:
        return state.directory.list_projects()[0]
