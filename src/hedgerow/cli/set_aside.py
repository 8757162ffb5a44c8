"""`hedgerow events aside`, `retry` and `discard`: what could not be processed, and what becomes of
it.
"""

import json
from base64 import b64encode
from typing import Annotated, Any

import typer
import uvloop

from hedgerow.app.state import opened_state
from hedgerow.cli.files import YesOption, ask
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.prepared import prepared_settings
from hedgerow.cli.tables import show, table
from hedgerow.errors import NotFound, Unready
from hedgerow.ingestion.store import SetAside
from hedgerow.lib.clock import iso, utc_now
from hedgerow.settings import Settings
from hedgerow.storage.inbox_packing import UNREADABLE, unpacked_plain
from hedgerow.storage.set_aside import SetAsideRecords

LISTED = 1000

IdsArgument = Annotated[list[int] | None, typer.Argument(help="Ids, as `events aside` shows them.")]
AllOption = Annotated[bool, typer.Option("--all", help="All that are set aside.")]


def aside(
    id: Annotated[int | None, typer.Argument(help="One of them, with its content.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show events that could not be processed and were set aside, oldest first, and why.

    They were accepted and are kept until you decide: `events retry` or `events discard`.
    """

    async def run(settings: Settings) -> tuple[list[SetAside], bytes | None]:
        async with opened_state(settings) as state:
            records = SetAsideRecords(state.database)
            content = None if id is None else await records.content(id)
            return (await records.listed(LISTED))[0], content

    found, content = uvloop.run(run(prepared_settings(data)))
    if id is not None:
        if content is None:
            raise NotFound(f"Nothing that is set aside has the id {id}.")
        print(json.dumps(_shown(content), default=str))
    elif as_json:
        print(json.dumps([_facts(each) for each in found]))
    else:
        rows = table("id", "set aside", "step", "project", "event", "uuid", "events", "reason")
        for each in found:
            rows.add_row(*map(str, _facts(each).values()))
        show(rows)


def retry(ids: IdsArgument = None, every: AllOption = False, data: DataOption = None) -> None:
    """Process events again that were set aside, once what kept them is mended.

    They come behind what was accepted meanwhile. A running service takes them within a second;
    what fails again is set aside again.
    """
    chosen = _chosen(ids, every)

    async def run(settings: Settings) -> int:
        async with opened_state(settings) as state:
            return await SetAsideRecords(state.database).retry(chosen, utc_now())

    print(f"Sent {uvloop.run(run(prepared_settings(data)))} event(s) on their way again.")


def discard(
    ids: IdsArgument = None,
    every: AllOption = False,
    yes: YesOption = False,
    data: DataOption = None,
) -> None:
    """Delete events for good that were set aside."""
    chosen = _chosen(ids, every)
    settings = prepared_settings(data)

    async def newest() -> int:
        async with opened_state(settings) as state:
            return await SetAsideRecords(state.database).newest()

    # What comes while we ask is not what was meant.
    until = uvloop.run(newest())
    if not yes:
        ask("Delete them for good?")

    async def run() -> int:
        async with opened_state(settings) as state:
            records = SetAsideRecords(state.database)
            return await (
                records.discard_until(until) if chosen is None else records.discard(chosen)
            )

    print(f"Deleted {uvloop.run(run())} event(s).")


def _chosen(ids: list[int] | None, every: bool) -> list[int] | None:
    if bool(ids) == every:
        raise Unready("Say which: ids as `hedgerow events aside` shows them, or --all.")
    return None if every else ids


def _facts(each: SetAside) -> dict[str, Any]:
    return {
        "id": each.id,
        "set_aside_at": iso(each.set_aside_at),
        "step": each.stage,
        "project_id": each.project_id,
        "event": each.event,
        "uuid": each.uuid,
        "events": each.number,
        "reason": each.reason,
    }


def _shown(content: bytes) -> Any:
    try:
        return unpacked_plain(content)
    except UNREADABLE:
        return {"base64": b64encode(content).decode()}
