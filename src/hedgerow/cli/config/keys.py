"""`hedgerow keys`: manage personal API keys, on a service or on the machine that has the data."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import ServiceClient, find_service
from hedgerow.errors import NotFound
from hedgerow.lib.clock import format_iso, utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.keys import IssuedKey, KeyRequest
from hedgerow.projects.model import KeyId, PersonalKey, ProjectId
from hedgerow.projects.scopes import ALL_SCOPES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hedgerow.settings import Settings

Json = dict[str, Any]

KEYS = "/api/personal_api_keys/"
# The API has more fields.
FIELDS = (
    "id",
    "label",
    "mask_value",
    "scopes",
    "scoped_teams",
    "created_at",
    "last_used_at",
    "last_rolled_at",
)

KeyArgument = Annotated[str, typer.Argument(help="Id or label of the key, from `keys list`.")]


def create_key(  # noqa: PLR0913 - the options of a command
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
    server: ServerOption = None,
    personal_key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a personal API key and print its value once.

    Example: hedgerow keys create --label ci --scope plugin:write --project 1
    """
    scopes, projects = scope or [ALL_SCOPES], project or []
    service = _find_service(data, server, personal_key)
    if service is not None:
        body = {"label": label, "scopes": scopes, "scoped_teams": projects}
        _print_issued(service.request_root("POST", KEYS, body), as_json)
        return
    request = KeyRequest(
        label=label,
        scopes=tuple(scopes),
        project_ids=tuple(ProjectId(id) for id in projects),
    )

    async def run(settings: Settings) -> IssuedKey:
        async with commands.state.open_state(settings) as state:
            owner = state.directory.get_owner()
            return await state.keys.issue(request, owner, COMMAND_LINE, utc_now())

    _print_issued(_to_issued_json(asyncio.run(run(load_installation_settings(data)))), as_json)


def list_keys(
    server: ServerOption = None,
    personal_key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List personal API keys, newest first, without values.

    On a service these are your keys; for owners of the organization, all keys.
    """

    async def run(settings: Settings) -> list[Json]:
        async with commands.state.open_state(settings) as state:
            return [_to_json(key) for key in state.directory.list_keys()]

    service = _find_service(data, server, personal_key)
    if service is not None:
        keys = [_select_fields(key) for key in service.request_list(KEYS)]
    else:
        keys = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(keys)
        return
    print_table(
        ("id", "label", "key", "scopes", "projects", "last used"),
        [
            (
                key["id"],
                key["label"],
                key["mask_value"],
                " ".join(key["scopes"]),
                " ".join(map(str, key["scoped_teams"])) or "all",
                (key["last_used_at"] or "never")[:16].replace("T", " "),
            )
            for key in keys
        ],
        empty="No personal API keys.",
    )


def revoke_key(
    key: KeyArgument,
    server: ServerOption = None,
    personal_key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a personal API key.

    It stops working everywhere within a second.
    """

    async def run(settings: Settings) -> Json:
        async with commands.state.open_state(settings) as state:
            found = _find_key([_to_json(each) for each in state.directory.list_keys()], key)
            await state.keys.revoke(KeyId(found["id"]), COMMAND_LINE, utc_now())
            return found

    service = _find_service(data, server, personal_key)
    if service is not None:
        revoked = _find_key(service.request_list(KEYS), key)
        service.request_root("DELETE", f"{KEYS}{revoked['id']}/")
    else:
        revoked = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(_select_fields(revoked))
    else:
        print(f"Revoked {revoked['label']!r}.")


def roll_key(
    key: KeyArgument,
    server: ServerOption = None,
    personal_key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace the value of a personal API key and print the new one once.

    The old value stops working.
    """

    async def run(settings: Settings) -> Json:
        async with commands.state.open_state(settings) as state:
            found = _find_key([_to_json(each) for each in state.directory.list_keys()], key)
            id = KeyId(found["id"])
            return _to_issued_json(await state.keys.roll(id, COMMAND_LINE, utc_now()))

    service = _find_service(data, server, personal_key)
    if service is not None:
        found = _find_key(service.request_list(KEYS), key)
        rolled = service.request_root("POST", f"{KEYS}{found['id']}/roll/")
    else:
        rolled = asyncio.run(run(load_installation_settings(data)))
    _print_issued(rolled, as_json)


def _find_service(data: Path | None, server: str | None, key: str | None) -> ServiceClient | None:
    return find_service(data, server, key, None, ALL_SCOPES)


def _find_key(keys: Sequence[Json], name: str) -> Json:
    by_id = [key for key in keys if key["id"] == name]
    found = by_id or [key for key in keys if key["label"] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFound(
            f"{len(found)} keys have the label {name!r}: use an id from `hedgerow keys list`."
        )
    raise NotFound(f"No key has the id or label {name!r}: see `hedgerow keys list`.")


def _print_issued(issued: Json, as_json: bool) -> None:
    if as_json:
        print_json({**_select_fields(issued), "value": issued["value"]})
    else:
        print(f"{issued['value']}\n")
        print(f"This is {issued['label']!r}. Store it now: it is shown only once.")


def _select_fields(key: Json) -> Json:
    return {name: key[name] for name in FIELDS}


def _to_issued_json(issued: IssuedKey) -> Json:
    return {**_to_json(issued.key), "value": issued.value}


def _to_json(key: PersonalKey) -> Json:
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
