"""Processes that start at once on one empty place make one installation."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.fault.stored import rows
from tests.live import RANDOM_KEYS, Installation, LiveServer, run_hedgerow, side_by_side

COUNTS = """
    SELECT (SELECT count(*) FROM organizations), (SELECT count(*) FROM users),
           (SELECT count(*) FROM projects), (SELECT count(*) FROM project_tokens),
           (SELECT count(*) FROM personal_keys), (SELECT count(*) FROM alembic_version)
"""
ONE_OF_EACH = [(1, 1, 1, 1, 1, 1)]


def test_servers_an_init_and_a_migration_all_succeed_and_one_of_them_prints_keys(
    installation: Installation,
) -> None:
    # A data folder has one server; PostgreSQL has as many as one likes, each with a folder.
    number = 2 if "database_url" in installation.settings else 1
    with ExitStack() as stack:
        starting = [installation.server(**RANDOM_KEYS) for _ in range(number)]
        for server in starting:
            stack.callback(server.stop)
        verbs = [partial(installation.run, "init"), partial(installation.run, "migrate")]
        done = side_by_side(verbs)
        servers = [server.wait_ready() for server in starting]
        assert [(one.returncode, one.stderr) for one in done] == [(0, "")] * 2
        said = [*(server.output for server in servers), *(one.stdout for one in done)]
        told = [text for text in said if "phx_" in text]
        assert len(told) == 1
        key = told[0].partition("Personal key")[2].split()[0]
        assert [_projects(server, key) for server in servers] == [[1]] * number
        assert rows(installation, COUNTS) == ONE_OF_EACH
        assert [server.errors for server in servers if '"level": "error"' in server.errors] == []


def _projects(server: LiveServer, key: str) -> list[int]:
    with server.client(key) as client:
        return [project["id"] for project in client.get("/api/projects/").json()["results"]]


def test_a_second_server_on_one_data_folder_is_told_who_has_it(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as first:
        second = run_hedgerow("serve", "--port", "0", data=tmp_path)
        assert second.returncode == 1
        assert f"in use by process {first.process.pid}" in second.stderr
        assert "Traceback" not in second.stderr
