"""`hedgerow edge-inbox`: captured requests that an edge process keeps for its origin."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hedgerow.cli.options import DataOption, JsonOption, YesOption, load_command_settings
from hedgerow.cli.output import confirm, print_json, print_table
from hedgerow.edge.inbox.old_format import OldInbox
from hedgerow.edge.inbox.store import (
    DEAD,
    FOLDER,
    EdgeInboxError,
    EdgeInboxStore,
    InboxContents,
    lock_folder,
    read_contents,
    request_command,
)
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import format_iso

if TYPE_CHECKING:
    from pathlib import Path

    from hedgerow.edge.inbox.position import NumberRanges
    from hedgerow.edge.inbox.requests import DeadRequestSummary
    from hedgerow.edge.inbox.store import Command

RESPONSE_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.1


def list_inbox(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show how much waits for the origin, and list the dead letters and what is lost.

    A dead letter is a request that was acknowledged and that the origin has refused for good, or
    answered with 500 for too long, with its reason. It stays until you retry or discard it.
    Requests are lost if files of the inbox are damaged or missing: the list has their numbers. The
    edge process may be running.
    """
    contents = _read(_find_data(data))
    found = _to_json(contents)
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
    for each in found["lost"]:
        owner = "dead letters" if each["project_id"] is None else f"project {each['project_id']}"
        print(
            f"{each['requests']} request(s) of {owner} are lost, noticed {each['noticed_at']}: "
            f"numbers {each['numbers']}."
        )


def retry_dead_requests(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Send all dead letters to the origin again.

    Fix the cause first. They wait behind what waits already. A running edge process sends them
    within seconds. Those that the origin refuses again become dead letters again.
    """
    folder = _find_data(data)
    count = _run(folder, "retry", _read(folder))
    if as_json:
        print_json({"requests": count})
    else:
        print(f"{count} request(s) wait for another attempt.")


def discard_dead_requests(
    yes: YesOption = False, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Delete all dead letters of the inbox permanently, and the list of what is lost."""
    if as_json and not yes:
        raise OperatorError("Nothing was changed: --json does not ask. Confirm with --yes.")
    # Those that exist now, not those that arrive during the confirmation.
    folder = _find_data(data)
    contents = _read(folder)
    if not yes:
        confirm("Delete them permanently?")
    count = _run(folder, "discard", contents)
    if as_json:
        print_json({"requests": count})
    else:
        print(f"Deleted {count} request(s).")


def _find_data(data: Path | None) -> Path:
    data_dir = load_command_settings(data_dir=data).data_dir
    folder = data_dir / FOLDER
    if not folder.exists():
        raise OperatorError(f"There is no inbox of an edge process at {folder}: see --data.")
    if OldInbox(folder).exists():
        raise OperatorError(
            f"The inbox at {folder} is of an earlier version: start the edge process, which reads "
            "it."
        )
    return data_dir


def _read(data_dir: Path) -> InboxContents:
    is_in_use = _is_in_use(data_dir)
    try:
        contents = read_contents(data_dir, is_in_use=is_in_use)
        if not is_in_use and _is_in_use(data_dir):
            # An edge process has started, and may have sent what is missing.
            contents = read_contents(data_dir, is_in_use=True)
    except EdgeInboxError as error:
        raise _build_error(data_dir, error) from None
    return contents


def _is_in_use(data_dir: Path) -> bool:
    lock = _lock(data_dir)
    if lock is not None:
        os.close(lock)
    return lock is None


def _run(data_dir: Path, command: Command, contents: InboxContents) -> int:
    """Run a command for the dead letters that were listed. A running edge process does it."""
    until = max((each.id for each in contents.dead), default=0)
    lock = _lock(data_dir)
    try:
        if lock is None:
            _wait_until_done(request_command(data_dir, command, until))
            return len(contents.dead)
        store = EdgeInboxStore(data_dir)
        try:
            work = store.retry_dead if command == "retry" else store.discard_dead
            return work(until).number
        finally:
            store.close()
    except EdgeInboxError as error:
        raise _build_error(data_dir, error) from None
    finally:
        if lock is not None:
            os.close(lock)


def _wait_until_done(file: Path) -> None:
    deadline = time.monotonic() + RESPONSE_TIMEOUT_S
    while file.exists():
        if time.monotonic() > deadline:
            raise OperatorError(
                "The edge process does not respond. It does this when it can, at the latest when "
                "it starts again."
            )
        time.sleep(POLL_INTERVAL_S)


def _lock(data_dir: Path) -> int | None:
    try:
        return lock_folder(data_dir)
    except OSError as error:
        raise _build_error(data_dir, error) from None


def _build_error(data_dir: Path, error: Exception) -> OperatorError:
    return OperatorError(f"The inbox {data_dir / FOLDER} cannot be used: {error}.")


def _to_json(contents: InboxContents) -> dict[str, Any]:
    waiting = contents.waiting
    return {
        "waiting": {
            "requests": waiting.number,
            "bytes": waiting.size,
            "oldest": _format(waiting.oldest_us / 1e6) if waiting.number else None,
        },
        "dead_letters": [_dead_to_json(each) for each in contents.dead],
        "lost": [_lost_to_json(log, *each) for log, each in contents.lost.items()],
    }


def _dead_to_json(dead: DeadRequestSummary) -> dict[str, Any]:
    return {
        "id": dead.id,
        "project_id": dead.project_id,
        "received_at": _format(dead.received_at_s),
        "refused_at": _format(dead.refused_at_s),
        "path": dead.path,
        "bytes": dead.size,
        "reason": dead.reason,
    }


def _lost_to_json(log: str, numbers: NumberRanges, since_s: float) -> dict[str, Any]:
    return {
        "project_id": None if log == DEAD else int(log),
        "requests": numbers.count(),
        "numbers": str(numbers),
        "noticed_at": _format(since_s),
    }


def _format(seconds: float) -> str:
    return format_iso(datetime.fromtimestamp(seconds, UTC))
