"""`hedgerow keys`: personal keys, managed at the terminal of the machine that holds the data."""

import json
from typing import Annotated, Any

import typer
import uvloop

from hedgerow.app.state import State, opened_state
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.prepared import prepared_settings
from hedgerow.cli.tables import show, table
from hedgerow.errors import NotFound
from hedgerow.lib.clock import iso, utc_now
from hedgerow.projects.activity import TERMINAL
from hedgerow.projects.keys import IssuedKey, KeyWish
from hedgerow.projects.model import KeyId, PersonalKey, ProjectId
from hedgerow.projects.scopes import ALL
from hedgerow.settings import Settings

keys = typer.Typer()

KeyArgument = Annotated[str, typer.Argument(help="The key's id or label, as `keys list` shows it.")]


@keys.command()
def create(
    label: Annotated[str, typer.Option(help="What the key is for, so that you know it again.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="What it may do, such as plugin:read. Repeat for more. Default: all."),
    ] = None,
    project: Annotated[
        list[int] | None,
        typer.Option(help="Id of a project it may see. Repeat for more. Default: all."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a personal key and print its value, this once.

    Example: hedgerow keys create --label ci --scope plugin:write --project 1
    """
    wish = KeyWish(
        label=label,
        scopes=tuple(scope or (ALL,)),
        project_ids=tuple(ProjectId(id) for id in project or ()),
    )

    async def run(settings: Settings) -> IssuedKey:
        async with opened_state(settings) as state:
            owner = state.directory.owner()
            return await state.keys.issue(wish, owner.id, TERMINAL, utc_now())

    _print_issued(uvloop.run(run(prepared_settings(data))), as_json)


@keys.command("list")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show all personal keys, newest first, without their values."""

    async def run(settings: Settings) -> list[PersonalKey]:
        async with opened_state(settings) as state:
            return state.directory.all_keys()

    found = uvloop.run(run(prepared_settings(data)))
    if as_json:
        print(json.dumps([_facts(key) for key in found]))
        return
    rows = table("id", "label", "key", "scopes", "projects", "last used")
    for key in found:
        rows.add_row(
            key.id,
            key.label,
            key.mask,
            " ".join(key.scopes),
            " ".join(map(str, key.project_ids)) or "all",
            f"{key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never",
        )
    show(rows)


@keys.command()
def revoke(key: KeyArgument, data: DataOption = None) -> None:
    """End a key. It stops working everywhere within a second."""

    async def run(settings: Settings) -> PersonalKey:
        async with opened_state(settings) as state:
            found = _find(state, key)
            await state.keys.revoke(found.id, TERMINAL, utc_now())
            return found

    print(f"Revoked {uvloop.run(run(prepared_settings(data))).label!r}.")


@keys.command()
def roll(key: KeyArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Give a key a new value and print it, this once. The old value stops working."""

    async def run(settings: Settings) -> IssuedKey:
        async with opened_state(settings) as state:
            return await state.keys.roll(_find(state, key).id, TERMINAL, utc_now())

    _print_issued(uvloop.run(run(prepared_settings(data))), as_json)


def _find(state: State, wanted: str) -> PersonalKey:
    by_id = state.directory.key(KeyId(wanted))
    if by_id is not None:
        return by_id
    by_label = [key for key in state.directory.all_keys() if key.label == wanted]
    if len(by_label) == 1:
        return by_label[0]
    if by_label:
        raise NotFound(f"{len(by_label)} keys are labelled {wanted!r}: name one by its id.")
    raise NotFound(f"No key has the id or label {wanted!r}: see `hedgerow keys list`.")


def _print_issued(issued: IssuedKey, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**_facts(issued.key), "value": issued.value}))
    else:
        print(f"{issued.value}\n\nThis is {issued.key.label!r}; it is shown only now, keep it.")


def _facts(key: PersonalKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "label": key.label,
        "mask_value": key.mask,
        "scopes": list(key.scopes),
        "scoped_teams": list(key.project_ids),
        "created_at": iso(key.created_at),
        "last_used_at": iso(key.last_used_at) if key.last_used_at else None,
        "last_rolled_at": iso(key.last_rolled_at) if key.last_rolled_at else None,
    }
