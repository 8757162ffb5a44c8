"""A deleted project is gone at once for every reader, and soon from every table and file."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest

from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.file_contents import find_any_text, read_files
from tests.support.live import PROJECT_KEY, Installation, LiveServer, wait_for
from tests.support.postgres import PostgresTestServer

TIMEOUT_S = 300
COUNT = {"query": {"kind": "HogQLQuery", "query": "select count() from events"}}


def _capture(client: httpx.Client, key: str, distinct_id: str, text: str) -> int:
    properties = {"note": text, "$set": {"note": text}, "$groups": {"company": text[:50]}}
    event = {"event": "seen", "distinct_id": distinct_id, "properties": properties}
    return client.post("/batch", json={"api_key": key, "batch": [event]}).status_code


def _count(client: httpx.Client, project_id: int) -> int:
    answer = client.post(f"/api/projects/{project_id}/query/", json=COUNT)
    count: int = answer.json()["results"][0][0]
    return count


def _create_project(client: httpx.Client, texts: list[str]) -> Any:
    """Create a project with events, persons, a group, a flag and a destination."""
    project = client.post("/api/projects/", json={"name": "Doomed"}).json()
    path = f"/api/projects/{project['id']}"
    for text in texts:
        assert _capture(client, project["api_token"], f"ann {text[:20]}", text) == 200
    flag = {"key": "doomed", "name": texts[0], "filters": {"groups": [{}]}}
    assert client.post(f"{path}/feature_flags/", json=flag).status_code == 201
    assert _count(client, project["id"]) == len(texts)
    return project


def _check_gone(client: httpx.Client, project: Any) -> None:
    assert _capture(client, project["api_token"], "late", "late") == 401
    decide = {"api_key": project["api_token"], "distinct_id": "ann"}
    assert client.post("/decide?v=3", json=decide).status_code == 401
    assert client.get(f"/api/projects/{project['id']}/").status_code == 404
    assert [each["id"] for each in client.get("/api/projects/").json()["results"]] == [1]


def _list_deletions(client: httpx.Client, status: str) -> list[Any]:
    answer = client.get("/api/project_deletions/", params={"status": status})
    found: list[Any] = answer.json()["results"]
    return found


def test_data_of_a_deleted_project_leaves_the_files_after_kill_9(tmp_path: Path) -> None:
    """Random text, which no compression hides, longer than a page."""
    texts = [token_hex(4000) for _ in range(3)]
    settings = {"purge_interval_s": "1"}
    with LiveServer(tmp_path, **settings) as server, server.client() as client:
        project = _create_project(client, texts)
        assert _capture(client, PROJECT_KEY, "kept", "kept") == 200
        assert find_any_text(texts, read_files(tmp_path))
        assert client.delete(f"/api/projects/{project['id']}/").status_code == 204
        _check_gone(client, project)
        server.kill()
    with LiveServer(tmp_path, **settings) as server, server.client() as client:
        wait_for(lambda: bool(_list_deletions(client, "completed")), at_most_s=TIMEOUT_S)
        (deletion,) = _list_deletions(client, "completed")
        assert (deletion["project_id"], deletion["events_deleted"]) == (project["id"], 3)
        assert deletion["rows_deleted"] >= 8
        assert not find_any_text(texts, read_files(tmp_path))
        assert _count(client, 1) == 1
        _check_gone(client, project)


class TwoProcesses:
    """Two processes that serve and work, on one PostgreSQL and one ClickHouse."""

    def __init__(
        self, servers: list[LiveServer], clickhouse: ClickHouseTestServer, database: str
    ) -> None:
        self.servers = servers
        self._clickhouse = clickhouse
        self._database = database

    def count(self, table: str, condition: str) -> int:
        sql = f"SELECT count() FROM {self._database}.{table} WHERE {condition}"
        return int(self._clickhouse.run(f"{sql} SETTINGS apply_deleted_mask = 0"))


@pytest.fixture(scope="module")
def processes(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: PostgresTestServer,
    clickhouse: ClickHouseTestServer,
) -> Iterator[TwoProcesses]:
    folder = tmp_path_factory.mktemp("deletion")
    url = clickhouse.create_database()
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": url,
        "purge_interval_s": "1",
    }
    with ExitStack() as stack:
        servers = [LiveServer(folder / name, **settings) for name in ("one", "two")]
        yield TwoProcesses(
            [stack.enter_context(server) for server in servers],
            clickhouse,
            url.rpartition("/")[2],
        )


def test_every_process_forgets_a_deleted_project(processes: TwoProcesses) -> None:
    one, two = processes.servers
    with one.client() as client, two.client() as other:
        project = _create_project(client, [token_hex(20)])
        assert _count(other, project["id"]) == 1
        own = f"project_id = {project['id']}"
        wait_for(lambda: processes.count("persons", own) > 0, at_most_s=TIMEOUT_S)
        assert client.delete(f"/api/projects/{project['id']}/").status_code == 204
        _check_gone(other, project)
        _check_gone(client, project)
        wait_for(lambda: bool(_list_deletions(other, "completed")), at_most_s=TIMEOUT_S)
        (deletion,) = _list_deletions(other, "completed")
        assert (deletion["project_id"], deletion["events_deleted"]) == (project["id"], 1)
        tables = ("events", "persons", "person_distinct_ids", "groups", "cohort_people")
        assert [processes.count(table, own) for table in tables] == [0] * 5


def test_a_deleted_person_leaves_postgresql_and_clickhouse(processes: TwoProcesses) -> None:
    one, two = processes.servers
    with one.client() as client, two.client() as other:
        assert _capture(client, PROJECT_KEY, "forgotten", "forgotten") == 200
        assert _capture(client, PROJECT_KEY, "remembered", "remembered") == 200
        assert _count(other, 1) == 2
        path = "/api/projects/1/persons/"
        (person,) = other.get(path, params={"distinct_id": "forgotten"}).json()["results"]
        gone = other.delete(f"{path}{person['id']}/?delete_events=true")
        assert gone.status_code == 204
        status = {"status": "completed", "person_uuid": person["id"]}

        def is_completed() -> bool:
            found = client.get(f"{path}deletion_status/", params=status).json()
            return bool(found["count"])

        wait_for(is_completed, at_most_s=TIMEOUT_S)
        assert processes.count("events", "distinct_id = 'forgotten'") == 0
        assert processes.count("person_distinct_ids", "distinct_id = 'forgotten'") == 0
        assert processes.count("persons", f"id = '{person['id']}'") == 0
        assert _count(client, 1) == 1


def test_command_shows_the_contents_and_asks_twice(tmp_path: Path) -> None:
    installation = Installation(data=tmp_path, settings={})
    assert installation.run_in_process("init").returncode == 0
    only = installation.run_in_process("projects", "delete", "1", "--yes")
    assert (only.returncode, "only project" in only.stderr) == (1, True)
    installation.run_json("projects", "create", "Doomed")

    def delete(typed: str) -> tuple[int, str, str]:
        done = installation.run_with_input("projects", "delete", "2", stdin=typed, on_terminal=True)
        return done.returncode, done.stdout, done.stderr

    status, output, errors = delete("Default project\n")
    assert (status, "the name is another one" in errors) == (1, True)
    assert "Project 2, 'Doomed', contains:" in output
    assert "0       persons" in output
    status, _, errors = delete("Doomed\nn\n")
    assert (status, "Nothing was changed." in errors) == (1, True)
    assert installation.run_json("projects", "list")[1]["name"] == "Doomed"
    status, output, _ = delete("Doomed\ny\n")
    assert (status, "Deleted project 2, 'Doomed'." in output) == (0, True)
    assert [each["id"] for each in installation.run_json("projects", "list")] == [1]
    installation.run_json("projects", "create", "Third")
    assert installation.run_json("projects", "delete", "3", "--yes") == {
        "project": 3,
        "deleted": True,
    }
    doctor = installation.run_in_process("doctor").stdout
    assert "deleted project 2" in doctor
