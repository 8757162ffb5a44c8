"""Processes that start concurrently on an empty location create one installation."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.fault.stored_state import fetch_rows
from tests.support.live import RANDOM_KEYS, Installation, LiveServer, run_concurrently, run_hedgerow

COUNTS = """
    SELECT (SELECT count(*) FROM organizations), (SELECT count(*) FROM users),
           (SELECT count(*) FROM projects), (SELECT count(*) FROM project_tokens),
           (SELECT count(*) FROM personal_keys), (SELECT count(*) FROM alembic_version)
"""
ONE_OF_EACH = [(1, 1, 1, 1, 1, 1)]

WAITING = "Waiting for another process that holds the database.\n"


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    """An installation without any tables."""
    settings = {}
    if request.param == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").create_database()
    return Installation(data=tmp_path / "data", settings=settings)


def test_concurrent_servers_init_and_migrate_succeed_and_print_keys_once(
    installation: Installation,
) -> None:
    # A data directory allows one server; PostgreSQL allows many, each with its own folder.
    number = 2 if "database_url" in installation.settings else 1
    with ExitStack() as stack:
        starting = [installation.server(**RANDOM_KEYS) for _ in range(number)]
        for server in starting:
            stack.callback(server.stop)
        commands = [partial(installation.run, "init"), partial(installation.run, "migrate")]
        done = run_concurrently(commands)
        servers = [server.wait_ready() for server in starting]
        # A process that waits for more than a second for the migrations of another one says so.
        assert [one.returncode for one in done] == [0, 0]
        assert {one.stderr for one in done} <= {"", WAITING}
        outputs = [*(server.output for server in servers), *(one.stdout for one in done)]
        with_keys = [text for text in outputs if "phx_" in text]
        assert len(with_keys) == 1
        key = with_keys[0].partition("Personal key")[2].split()[0]
        assert [_projects(server, key) for server in servers] == [[1]] * number
        assert fetch_rows(installation, COUNTS) == ONE_OF_EACH
        assert [server.errors for server in servers if '"level": "error"' in server.errors] == []


def _projects(server: LiveServer, key: str) -> list[int]:
    with server.client(key) as client:
        return [project["id"] for project in client.get("/api/projects/").json()["results"]]


def test_second_server_on_a_data_folder_names_the_first(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as first:
        second = run_hedgerow("serve", "--port", "0", data=tmp_path)
        assert second.returncode == 1
        assert f"in use by process {first.process.pid}" in second.stderr
        assert "Traceback" not in second.stderr
