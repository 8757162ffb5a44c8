"""`hedgerow edge-inbox`: captured requests that an edge process keeps for its origin."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hedgerow.cli.options import DataOption, JsonOption, YesOption, load_command_settings
from hedgerow.cli.output import confirm, print_json, print_table
from hedgerow.edge.inbox.file import FILE_NAME, FOLDER, InboxFile, InboxFileError
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import format_iso

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hedgerow.edge.inbox.file import DeadRequest


def list_inbox(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show how much waits for the origin, and list the dead letters.

    A dead letter is a request that was acknowledged and that the origin has refused for good, or
    answered with 500 for too long, with its reason. It stays until you retry or discard it. The
    edge process may be running.
    """

    def read(file: InboxFile) -> dict[str, Any]:
        lanes, _ = file.count()
        return {
            "waiting": {
                "requests": sum(each.number for each in lanes.values()),
                "bytes": sum(each.size for each in lanes.values()),
                "oldest": _format(min(each.oldest_us for each in lanes.values()) / 1e6)
                if lanes
                else None,
            },
            "dead_letters": [_to_json(each) for each in file.list_dead()],
        }

    found = _use(data, read)
    if as_json:
        print_json(found)
        return
    waiting = found["waiting"]
    since = f", the oldest since {waiting['oldest']}" if waiting["oldest"] else ""
    print(f"{waiting['requests']} request(s) wait for the origin: {waiting['bytes']} bytes{since}.")
    print_table(
        ("id", "project", "received", "refused", "path", "bytes", "reason"),
        [[str(value) for value in row.values()] for row in found["dead_letters"]],
        empty="No dead letters.",
    )


def retry_dead_requests(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Send all dead letters to the origin again.

    Fix the cause first. They wait behind what waits already. A running edge process sends them
    within seconds. Those that the origin refuses again become dead letters again.
    """
    count = _use(data, InboxFile.retry_dead)
    if as_json:
        print_json({"requests": count})
    else:
        print(f"{count} request(s) wait for another attempt.")


def discard_dead_requests(
    yes: YesOption = False, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Delete all dead letters of the inbox permanently."""
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")
    # Those that exist now, not those that arrive during the confirmation.
    newest = _use(data, lambda file: max((each.id for each in file.list_dead()), default=0))
    if not yes:
        confirm("Delete them permanently?")
    count = _use(data, lambda file: file.discard_dead(newest))
    if as_json:
        print_json({"requests": count})
    else:
        print(f"Deleted {count} request(s).")


def _use(data: Path | None, work: Callable[[InboxFile], Any]) -> Any:
    settings = load_command_settings(data_dir=data)
    path = settings.data_dir / FOLDER / FILE_NAME
    if not path.exists():
        raise OperatorError(f"There is no inbox of an edge process at {path}: see --data.")
    try:
        with closing(InboxFile(settings.data_dir)) as file:
            return work(file)
    except InboxFileError as error:
        raise OperatorError(f"The inbox {path} cannot be used: {error}.") from None


def _to_json(dead: DeadRequest) -> dict[str, Any]:
    return {
        "id": dead.id,
        "project_id": dead.project_id,
        "received_at": _format(dead.received_at_s),
        "refused_at": _format(dead.refused_at_s),
        "path": dead.path,
        "bytes": dead.size,
        "reason": dead.reason,
    }


def _format(seconds: float) -> str:
    return format_iso(datetime.fromtimestamp(seconds, UTC))
