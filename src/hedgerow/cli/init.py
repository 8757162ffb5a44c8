"""`hedgerow init`: everything a service needs, made without starting one."""

import json

import uvloop

from hedgerow.app.state import ensure_data_folder, opened_state, place_of, wished_keys
from hedgerow.cli.options import DataOption, JsonOption, command, kept_in, settings_with
from hedgerow.cli.patience import patiently
from hedgerow.lib.clock import utc_now
from hedgerow.projects.model import Project
from hedgerow.settings import Settings
from hedgerow.storage.migrate import prepare
from hedgerow.storage.sealing_file import sealing_keys


def init(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Create the database, a project and its first keys, and print them.

    Safe to repeat: a second run changes nothing and shows no secrets.
    """
    settings = settings_with(data=data)
    ensure_data_folder(settings.data)
    keys = wished_keys(settings)
    is_new = patiently(lambda: prepare(place_of(settings), keys, utc_now()))
    sealing_keys(settings.sealing_keys, settings.data)
    project = uvloop.run(_first_project(settings))
    personal_key = keys.personal_key if is_new else None
    if as_json:
        print(
            json.dumps(
                {
                    "created": is_new,
                    "project_id": project.id,
                    "project_key": project.api_token,
                    "personal_key": personal_key,
                }
            )
        )
    elif is_new:
        print(f"Made project {project.id}, {project.name!r}, in {kept_in(settings)}\n")
        print(f"  Project key   {project.api_token}   public: for your apps")
        print(f"  Personal key  {personal_key}   secret: shown only now, keep it\n")
        print(f"Next:  {command('serve', settings)}")
    else:
        print(f"Nothing to do: project {project.id}, {project.name!r}, is there already.\n")
        print(f"  Project key   {project.api_token}   public: for your apps\n")
        print(f"New personal keys:  {command('keys create --label my-laptop', settings)}")


async def _first_project(settings: Settings) -> Project:
    async with opened_state(settings) as state:
        return state.directory.all_projects()[0]
