"""The SQLite file is replaced or removed while the service runs: nothing is acknowledged that a
restart would lose.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support.live import PROJECT_KEY, LiveServer, read_error, wait_for

TIMEOUT_S = 60


def _create(client: httpx.Client, name: str) -> httpx.Response:
    return client.post("/api/projects/", json={"name": name})


def _capture(client: httpx.Client) -> httpx.Response:
    event = {"api_key": PROJECT_KEY, "event": "seen", "distinct_id": "ann"}
    return client.post("/capture/", json=event)


def _list_names(client: httpx.Client) -> set[str]:
    return {one["name"] for one in client.get("/api/projects/").json()["results"]}


def _replace(file: Path) -> None:
    shutil.copy(file, file.with_suffix(".copy"))
    os.replace(file.with_suffix(".copy"), file)


def _remove(file: Path) -> None:
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()


@pytest.mark.parametrize("change", [_replace, _remove])
def test_changes_are_refused_after_the_file_is_changed(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    file = tmp_path / "hedgerow.db"
    with LiveServer(tmp_path) as server, server.client() as client:
        assert _create(client, "Before").status_code == 201
        assert _capture(client).status_code == 200
        change(file)
        answers = [_create(client, "After"), _capture(client), client.get("/api/projects/1/")]
        wait_for(lambda: server.get_status("/_readiness") == 503, at_most_s=TIMEOUT_S)
        assert [answer.status_code for answer in answers[:2]] == [503, 503]
        assert "replaced or removed" in read_error(answers[0])["detail"]
        assert server.get_status("/_liveness") == 200
    assert "Traceback" not in server.errors
    # No empty database takes the place of one that was removed.
    assert file.exists() == (change is _replace)


def test_restart_uses_the_new_file(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        assert _create(client, "Before").status_code == 201
    with LiveServer(tmp_path) as server, server.client() as client:
        _replace(tmp_path / "hedgerow.db")
        assert _create(client, "Lost").status_code == 503
    with LiveServer(tmp_path) as server, server.client() as client:
        assert _create(client, "After").status_code == 201
        assert _list_names(client) >= {"Before", "After"}
        assert "Lost" not in _list_names(client)
