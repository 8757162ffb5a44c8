"""A full or read-only disk: a clear error, no loss, and no restart once space is freed."""

import os
import resource
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.fault.small_disk import fill_up, mount, mount_disk
from tests.support.live import (
    LiveServer,
    read_error,
    run_concurrently,
    run_hedgerow,
    run_in_process,
    wait_for,
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mount_disk(tmp_path / "disk", "4m") as disk:
        yield disk


def test_full_disk_fails_only_writes_with_503(small_disk: Path) -> None:
    filler = small_disk / "filler"
    _assert_outlives(small_disk / "data", lambda _: fill_up(filler), lambda _: filler.unlink())


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process: Linux only")
def test_file_size_limit_fails_only_writes_with_503(tmp_path: Path) -> None:
    """The same without a mount: the system rejects every byte beyond the size of the WAL."""

    def limit(server: LiveServer, size: int) -> None:
        hard = resource.RLIM_INFINITY
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, hard))

    _assert_outlives(
        tmp_path / "data",
        lambda server: limit(server, (server.data / "hedgerow.db-wal").stat().st_size),
        lambda server: limit(server, resource.RLIM_INFINITY),
    )


def _assert_outlives(
    data: Path, take_room: Callable[[LiveServer], None], give_room: Callable[[LiveServer], None]
) -> None:
    stored = {"Default project"}

    def create(name: str) -> httpx.Response:
        answer = client.post("/api/projects/", json={"name": name})
        if answer.status_code == 201:
            stored.add(name)
        return answer

    with LiveServer(data) as server:
        with server.client() as client:
            assert create("before").status_code == 201
            take_room(server)
            # The last pages of the WAL may have space for a few more changes.
            answers = [create(f"full {number}") for number in range(100)]
            refused = [answer for answer in answers if answer.status_code != 201]
            assert len(refused) >= 50
            for answer in refused:
                assert answer.status_code == 503, answer.text
                assert read_error(answer)["code"] == "service_unavailable"
                assert int(answer.headers["retry-after"]) >= 1
            crowd = run_concurrently([partial(create, f"crowd {number}") for number in range(10)])
            assert {answer.status_code for answer in crowd} <= {201, 503}
            for path in ("/api/projects/", "/api/projects/1/activity_log/", "/_liveness"):
                assert client.get(path).status_code == 200, path
            assert client.get("/_readiness").status_code == 200
            give_room(server)
            wait_for(lambda: create("after").status_code == 201, at_most_s=60)
            assert _names(client) >= stored
        assert server.stop() == 0
    assert "Traceback" not in server.errors
    with LiveServer(data) as server, server.client() as client:
        assert _names(client) == stored


def _names(client: httpx.Client) -> set[str]:
    return {one["name"] for one in client.get("/api/projects/?limit=1000").json()["results"]}


def test_read_only_data_folder_is_one_error_line(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if os.geteuid() == 0:  # permissions do not restrict root
        data: Path = request.getfixturevalue("small_disk")
        assert run_in_process("init", data=data).returncode == 0
        assert mount("-o", "remount,ro", data).returncode == 0
    else:
        data = tmp_path / "data"
        assert run_in_process("init", data=data).returncode == 0
        data.chmod(0o500)
    serve, doctor = run_concurrently(
        [
            partial(run_hedgerow, "serve", "--port", "0", data=data),
            partial(run_hedgerow, "doctor", data=data),
        ]
    )
    assert (serve.returncode, serve.stdout) == (1, "")
    assert serve.stderr.count("\n") == 1
    assert serve.stderr.startswith(f"hedgerow: The data directory {data} is not writable: ")
    assert doctor.returncode == 1
    assert f"problem data directory: The data directory {data} is not writable: " in doctor.stdout
