"""`hedgerow events dead-letters`: events that could not be processed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ServerOption, YesOption
from hedgerow.cli.output import confirm, print_json, print_table
from hedgerow.cli.service_client import ServiceClient, ServiceNotFound, find_service
from hedgerow.errors import NotFound, OperatorError
from hedgerow.lib.clock import format_iso, utc_now

if TYPE_CHECKING:
    from pathlib import Path

    from hedgerow.ingestion.store import DeadLetter
    from hedgerow.settings import Settings

MAX_LISTED = 1000
PATH = "dead_letters/"
READ, WRITE = "ingestion_warning:read", "ingestion_warning:write"

IdArgument = Annotated[int, typer.Argument(help="Id of a dead letter, from `dead-letters list`.")]
IdsArgument = Annotated[
    list[int] | None, typer.Argument(help="Ids of dead letters, from `dead-letters list`.")
]
ServiceProjectOption = Annotated[
    int | None,
    typer.Option("--project", metavar="ID", help="Project of the service. Required for several."),
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters.")]


def list_dead_letters(
    project: ServiceProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List dead letters, oldest first, with the reason for each.

    A dead letter holds events that were accepted and could not be processed. It stays until you
    retry or discard it. On a service, the commands for dead letters work on one project, and need a
    personal API key with the scope ingestion_warning:write; this one needs ingestion_warning:read.
    """

    async def run(settings: Settings) -> tuple[list[DeadLetter], int]:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            return await dead_letters.list_oldest(MAX_LISTED)

    service = _find_service(data, server, key, project, READ)
    if service is not None:
        count = service.request("GET", f"{PATH}?limit=1")["count"]
        found = service.list_all(PATH, {}, max(0, count - MAX_LISTED))
        rows = [_select_fields(each) for each in found][::-1]
    else:
        listed, _ = asyncio.run(run(load_installation_settings(data)))
        rows = [_to_json(each) for each in listed]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("id", "since", "stage", "project", "event", "uuid", "events", "reason"),
            [["" if value is None else str(value) for value in row.values()] for row in rows],
            empty="No dead letters.",
        )


def show_dead_letter(
    id: IdArgument,
    project: ServiceProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, which it does anyway.", hidden=True)
    ] = False,
) -> None:
    """Print the content of a dead letter as JSON."""

    async def run(settings: Settings) -> bytes | None:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            return await dead_letters.get_content(id)

    service = _find_service(data, server, key, project, READ)
    if service is not None:
        print_json(service.request("GET", f"{PATH}{id}/")["content"])
        return
    content = asyncio.run(run(load_installation_settings(data)))
    if content is None:
        raise NotFound(f"No dead letter has the id {id}: see `hedgerow events dead-letters list`.")
    print_json(commands.dead_letters.read_content(content))


def list_or_show_dead_letters(
    id: Annotated[int | None, typer.Argument(help="Show this one.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List dead letters, or show one.

    The deprecated `hedgerow events aside`.
    """
    if id is None:
        list_dead_letters(data=data, as_json=as_json)
    else:
        show_dead_letter(id, data=data)


def retry_dead_letters(  # noqa: PLR0913 - the options of a command
    ids: IdsArgument = None,
    every: AllOption = False,
    project: ServiceProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Process dead letters again.

    Fix the cause first. Their events queue behind those accepted since, and a running service
    processes them within a second. Events that fail again become dead letters again.
    """
    selected = _check_selection(ids, every)

    async def run(settings: Settings) -> int:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            return await dead_letters.retry(selected, utc_now())

    service = _find_service(data, server, key, project, WRITE)
    if service is not None:
        count = _handle(service, "retry", selected, _find_newest(service))
    else:
        count = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json({"events": count})
    else:
        print(f"Queued {count} event(s) for another attempt.")


def discard_dead_letters(  # noqa: PLR0913 - the options of a command
    ids: IdsArgument = None,
    every: AllOption = False,
    yes: YesOption = False,
    project: ServiceProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete dead letters permanently."""
    selected = _check_selection(ids, every)
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")
    service = _find_service(data, server, key, project, WRITE)
    if service is not None:
        # --all means those that exist now, not those that arrive during the confirmation.
        newest = _find_newest(service)
        if not yes:
            confirm("Delete them permanently?")
        _report_deleted(_handle(service, "discard", selected, newest), as_json=as_json)
        return
    settings = load_installation_settings(data)

    async def find_newest() -> int:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            return await dead_letters.newest()

    # As above.
    newest = asyncio.run(find_newest())
    if not yes:
        confirm("Delete them permanently?")

    async def run() -> int:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            if selected is None:
                return await dead_letters.discard_until(newest)
            return await dead_letters.discard(selected)

    _report_deleted(asyncio.run(run()), as_json=as_json)


def _report_deleted(count: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"events": count})
    else:
        print(f"Deleted {count} event(s).")


def _find_service(
    data: Path | None, server: str | None, key: str | None, project: int | None, scope: str
) -> ServiceClient | None:
    service = find_service(data, server, key, project, scope)
    if service is None and project is not None:
        raise OperatorError("--project is for a service. Here, choose dead letters by their ids.")
    return service


def _find_newest(service: ServiceClient) -> int:
    """Return the highest id, 0 if there are no dead letters."""
    newest = service.request("GET", f"{PATH}?limit=1")["results"]
    return newest[0]["id"] if newest else 0


def _handle(service: ServiceClient, action: str, ids: list[int] | None, newest: int) -> int:
    """Retry or discard dead letters, and return the number of their events. An id that is gone
    counts none."""
    if ids is None:
        return _handle_until(service, action, newest) if newest else 0
    count = 0
    for id in ids:
        with suppress(ServiceNotFound):
            count += service.request("POST", f"{PATH}{id}/{action}/")["events"]
    return count


def _handle_until(service: ServiceClient, action: str, newest: int) -> int:
    count, left = 0, 1
    while left:
        done = service.request("POST", f"{PATH}{action}/?until={newest}")
        count, left = count + done["events"], done["left"]
    return count


def _check_selection(ids: list[int] | None, every: bool) -> list[int] | None:
    if bool(ids) == every:
        raise OperatorError(
            "Choose dead letters: ids from `hedgerow events dead-letters list`, or --all."
        )
    return None if every else ids


def _select_fields(item: dict[str, Any]) -> dict[str, Any]:
    """Return a dead letter of the API as `_to_json` does."""
    names = ("step", "project_id", "event", "uuid", "events", "reason")
    return {
        "id": item["id"],
        "set_aside_at": item["timestamp"],
        **{name: item[name] for name in names},
    }


def _to_json(dead_letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": dead_letter.id,
        "set_aside_at": format_iso(dead_letter.dead_lettered_at),
        "step": dead_letter.stage,
        "project_id": dead_letter.project_id,
        "event": dead_letter.event,
        "uuid": dead_letter.uuid,
        "events": dead_letter.number,
        "reason": dead_letter.reason,
    }
