"""Commands hand work to the process that has the event store open, through files."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hedgerow.app.event_store_requests import StoreAction, request_from_service
from hedgerow.errors import OperatorError
from hedgerow.storage.events.folder_lock import is_locked, lock_folder
from hedgerow.storage.events.request_files import MAX_AGE_S, RequestFiles


def test_several_commands_wait_at_once(tmp_path: Path) -> None:
    files = RequestFiles(tmp_path)
    ids = {files.submit("count events", {"number": number}): number for number in range(3)}
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert all(files.is_pending(id) for id in ids)
    while (request := files.take()) is not None:
        assert request.action == "count events"
        files.report(request.id, {"events": request.fields["number"]})
    for id, number in ids.items():
        assert not files.is_pending(id)
        assert files.poll_result(id) == {"events": number}
        assert files.poll_result(id) is None
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_and_an_unreadable_request_are_not_taken(tmp_path: Path) -> None:
    files = RequestFiles(tmp_path)
    files.cancel(files.submit("backup", {}))
    (tmp_path / "request-x.json").write_text("[")
    (tmp_path / "request-y.json").write_text("[]")
    assert files.take() is None
    assert list(tmp_path.iterdir()) == []


def test_files_of_killed_commands_are_deleted(tmp_path: Path) -> None:
    files = RequestFiles(tmp_path)
    old = files.submit("backup", {})
    os.utime(next(tmp_path.iterdir()), (0, 0))
    new = files.submit("backup", {})
    assert (files.is_pending(old), files.is_pending(new)) == (False, True)
    assert MAX_AGE_S > 3600


async def serve_once(files: RequestFiles, result: dict[str, Any] | None) -> None:
    while (request := files.take()) is None:
        await asyncio.sleep(0.01)
    if result is not None:
        files.report(request.id, result)


async def ask(folder: Path, result: dict[str, Any] | None) -> Any:
    serving = asyncio.create_task(serve_once(RequestFiles(folder), result))
    try:
        return await request_from_service(folder, StoreAction.BACKUP, {"target": "/x"})
    finally:
        await serving


async def test_a_result_and_a_problem_reach_the_command(tmp_path: Path) -> None:
    assert await ask(tmp_path, {"events": 3}) == {"events": 3}
    with pytest.raises(OperatorError, match=r"^Person not found\.$"):
        await ask(tmp_path, {"problem": "Person not found."})
    assert list(tmp_path.iterdir()) == []


async def test_a_command_does_not_wait_for_a_service_that_stopped(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="The service stopped before it was done"):
        await asyncio.wait_for(ask(tmp_path, None), 60)


def test_a_folder_is_locked_while_a_process_holds_it(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    lock = lock_folder(tmp_path)
    assert is_locked(tmp_path)
    lock.release()
    assert not is_locked(tmp_path)
