"""`hedgerow keys`: manage personal API keys on the machine that has the data."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.errors import NotFound
from hedgerow.lib.clock import format_iso, utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.keys import IssuedKey, KeyRequest
from hedgerow.projects.model import KeyId, PersonalKey, ProjectId
from hedgerow.projects.scopes import ALL_SCOPES

if TYPE_CHECKING:
    from hedgerow.app.state import State
    from hedgerow.settings import Settings

KeyArgument = Annotated[str, typer.Argument(help="Id or label of the key, from `keys list`.")]


def create_key(
    label: Annotated[str, typer.Option(help="What the key is for, to recognize it later.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="What it may do, such as plugin:read. Repeatable. Default: everything."),
    ] = None,
    project: Annotated[
        list[int] | None,
        typer.Option(
            metavar="ID", help="A project that it may access. Repeatable. Default: all projects."
        ),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a personal API key and print its value once.

    Example: hedgerow keys create --label ci --scope plugin:write --project 1
    """
    request = KeyRequest(
        label=label,
        scopes=tuple(scope or (ALL_SCOPES,)),
        project_ids=tuple(ProjectId(id) for id in project or ()),
    )

    async def run(settings: Settings) -> IssuedKey:
        async with commands.state.open_state(settings) as state:
            owner = state.directory.get_owner()
            return await state.keys.issue(request, owner, COMMAND_LINE, utc_now())

    _print_issued(asyncio.run(run(load_installation_settings(data))), as_json)


def list_keys(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List personal API keys, newest first, without values."""

    async def run(settings: Settings) -> list[PersonalKey]:
        async with commands.state.open_state(settings) as state:
            return state.directory.list_keys()

    keys = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json([_to_json(key) for key in keys])
        return
    print_table(
        ("id", "label", "key", "scopes", "projects", "last used"),
        [
            (
                key.id,
                key.label,
                key.mask,
                " ".join(key.scopes),
                " ".join(map(str, key.project_ids)) or "all",
                f"{key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never",
            )
            for key in keys
        ],
        empty="No personal API keys.",
    )


def revoke_key(key: KeyArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Revoke a personal API key.

    It stops working everywhere within a second.
    """

    async def run(settings: Settings) -> PersonalKey:
        async with commands.state.open_state(settings) as state:
            revoked = _find_key(state, key)
            await state.keys.revoke(revoked.id, COMMAND_LINE, utc_now())
            return revoked

    revoked = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(_to_json(revoked))
    else:
        print(f"Revoked {revoked.label!r}.")


def roll_key(key: KeyArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Replace the value of a personal API key and print the new one once.

    The old value stops working.
    """

    async def run(settings: Settings) -> IssuedKey:
        async with commands.state.open_state(settings) as state:
            return await state.keys.roll(_find_key(state, key).id, COMMAND_LINE, utc_now())

    _print_issued(asyncio.run(run(load_installation_settings(data))), as_json)


def _find_key(state: State, name: str) -> PersonalKey:
    by_id = state.directory.get_key(KeyId(name))
    if by_id is not None:
        return by_id
    by_label = [key for key in state.directory.list_keys() if key.label == name]
    if len(by_label) == 1:
        return by_label[0]
    if by_label:
        raise NotFound(
            f"{len(by_label)} keys have the label {name!r}: use an id from `hedgerow keys list`."
        )
    raise NotFound(f"No key has the id or label {name!r}: see `hedgerow keys list`.")


def _print_issued(issued: IssuedKey, as_json: bool) -> None:
    if as_json:
        print_json({**_to_json(issued.key), "value": issued.value})
    else:
        print(
            f"{issued.value}\n\nThis is {issued.key.label!r}. Store it now: it is shown only once."
        )


def _to_json(key: PersonalKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "label": key.label,
        "mask_value": key.mask,
        "scopes": list(key.scopes),
        "scoped_teams": list(key.project_ids),
        "created_at": format_iso(key.created_at),
        "last_used_at": format_iso(key.last_used_at) if key.last_used_at else None,
        "last_rolled_at": format_iso(key.last_rolled_at) if key.last_rolled_at else None,
    }
