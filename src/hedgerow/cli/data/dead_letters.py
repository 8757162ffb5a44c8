"""`hedgerow events dead-letters`: events that could not be processed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, YesOption
from hedgerow.cli.output import confirm, print_json, print_table
from hedgerow.errors import NotFound, OperatorError
from hedgerow.lib.clock import format_iso, utc_now

if TYPE_CHECKING:
    from hedgerow.ingestion.store import DeadLetter
    from hedgerow.settings import Settings

MAX_LISTED = 1000

IdArgument = Annotated[int, typer.Argument(help="Id of a dead letter, from `dead-letters list`.")]
IdsArgument = Annotated[
    list[int] | None, typer.Argument(help="Ids of dead letters, from `dead-letters list`.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters.")]


def list_dead_letters(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List dead letters, oldest first, with the reason for each.

    A dead letter holds events that were accepted and could not be processed. It stays until you
    retry or discard it.
    """

    async def run(settings: Settings) -> tuple[list[DeadLetter], int]:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            return await dead_letters.list_oldest(MAX_LISTED)

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
    data: DataOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, which it does anyway.", hidden=True)
    ] = False,
) -> None:
    """Print the content of a dead letter as JSON."""

    async def run(settings: Settings) -> bytes | None:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            return await dead_letters.get_content(id)

    content = asyncio.run(run(load_installation_settings(data)))
    if content is None:
        raise NotFound(f"No dead letter has the id {id}: see `hedgerow events dead-letters list`.")
    print_json(commands.dead_letters.decode_content(content))


def list_or_show_dead_letters(
    id: Annotated[int | None, typer.Argument(help="Show this one.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List dead letters, or show one.

    The deprecated `hedgerow events aside`.
    """
    if id is None:
        list_dead_letters(data, as_json)
    else:
        show_dead_letter(id, data)


def retry_dead_letters(
    ids: IdsArgument = None,
    every: AllOption = False,
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

    count = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json({"events": count})
    else:
        print(f"Queued {count} event(s) for another attempt.")


def discard_dead_letters(
    ids: IdsArgument = None,
    every: AllOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete dead letters permanently."""
    selected = _check_selection(ids, every)
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")
    settings = load_installation_settings(data)

    async def find_newest() -> int:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            return await dead_letters.newest()

    # --all means those that exist now, not those that arrive during the confirmation.
    newest = asyncio.run(find_newest())
    if not yes:
        confirm("Delete them permanently?")

    async def run() -> int:
        async with commands.dead_letters.open_dead_letters(settings) as dead_letters:
            if selected is None:
                return await dead_letters.discard_until(newest)
            return await dead_letters.discard(selected)

    count = asyncio.run(run())
    if as_json:
        print_json({"events": count})
    else:
        print(f"Deleted {count} event(s).")


def _check_selection(ids: list[int] | None, every: bool) -> list[int] | None:
    if bool(ids) == every:
        raise OperatorError(
            "Choose dead letters: ids from `hedgerow events dead-letters list`, or --all."
        )
    return None if every else ids


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
