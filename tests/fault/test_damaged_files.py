"""Damaged files of the state, the event store and backups are found and named."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import LiteralString

import httpx
import psycopg
import pytest

from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    read_error,
    run_hedgerow,
    run_in_process,
    wait_for,
)
from tests.support.postgres import PostgresTestServer

EVENTS = 300
PAGE_BYTES = 8192


def send(client: httpx.Client, number: int) -> None:
    batch = [{"event": "seen", "distinct_id": f"user {each}"} for each in range(number)]
    response = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch})
    assert response.status_code == 200


def query(client: httpx.Client, sql: str) -> httpx.Response:
    body = {"query": {"kind": "HogQLQuery", "query": sql}}
    return client.post("/api/projects/1/query/", json=body)


def count(client: httpx.Client) -> int:
    rows: list[list[int]] = query(client, "SELECT count(distinct uuid) FROM events").json()[
        "results"
    ]
    return rows[0][0]


def doctor(data: Path) -> tuple[int, str]:
    done = run_in_process("doctor", "--json", data=data)
    found = [each for each in json.loads(done.stdout) if each["verdict"] == "problem"]
    return done.returncode, "\n".join(f"{each['check']}: {each['detail']}" for each in found)


def flip(file: Path, start: int = 0, step: int = 64) -> None:
    """Invert one of `step` bytes from `start` on."""
    content = bytearray(file.read_bytes())
    for position in range(start, len(content), step):
        content[position] ^= 0xFF
    file.write_bytes(content)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the data directory `data` of a stopped service, and its `backup`."""
    folder = tmp_path_factory.mktemp("damage")
    with LiveServer(folder / "data") as server, server.client() as client:
        send(client, EVENTS)
        wait_for(lambda: count(client) == EVENTS, at_most_s=60)
        assert query(client, "SELECT count() FROM persons").json()["results"] == [[EVENTS]]
    done = run_hedgerow("backup", str(folder / "backup"), data=folder / "data")
    assert done.returncode == 0, done.stderr
    return folder


def copy_data(folder: Path, target: Path) -> Path:
    """Copy the data directory and return the largest part of its event store."""
    shutil.copytree(folder / "data", target, symlinks=True)
    largest = max(target.glob("events/chdb/store/*/*/*/data.bin"), key=lambda p: p.stat().st_size)
    return largest.parent


def test_queries_of_a_damaged_part_get_503_until_it_is_moved_away(
    folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    part = copy_data(folder, data)
    flip(part / "data.bin")
    with LiveServer(data) as server, server.client() as client:
        response = query(client, "SELECT max(properties), uniq(uuid) FROM events")
        assert response.status_code == 503, response.text
        error = read_error(response)
        assert "Run `hedgerow doctor`" in error["detail"]
        assert "hedgerow_event_store_damage_total 0" not in client.get("/metrics").text
        send(client, 1)
        status, problems = doctor(data)
    assert status == 1
    assert f"event store: damaged: {part}" in problems
    assert "move this folder away" in problems
    assert '"the event store has damaged files"' in server.errors
    shutil.move(part, tmp_path / "given up")
    with LiveServer(data) as server, server.client() as client:
        wait_for(lambda: count(client) == 1, at_most_s=60)


def test_events_are_stored_although_a_part_is_damaged(folder: Path, tmp_path: Path) -> None:
    """Before, the look-up of stored events failed, so that nothing was stored or delivered."""
    data = tmp_path / "data"
    part = copy_data(folder, data)
    with LiveServer(data) as server, server.client() as client:
        sql = "SELECT toString(max(uuid)), max(timestamp) FROM events"
        known, start = query(client, sql).json()["results"][0]
    later = f"SELECT count() FROM events WHERE timestamp > toDateTime64('{start}', 6)"
    flip(part / "data.bin")
    with LiveServer(data) as server, server.client() as client:
        send(client, 2)
        wait_for(lambda: query(client, later).json().get("results") == [[2]], at_most_s=60)
        # The event in the damaged file cannot be read, so it is stored when it is sent again.
        repeated = {"event": "seen", "distinct_id": "ann", "uuid": known}
        body = {"api_key": PROJECT_KEY, "batch": [repeated]}
        assert client.post("/batch", json=body).status_code == 200
        wait_for(lambda: query(client, later).json()["results"] == [[3]], at_most_s=60)
        metrics = client.get("/metrics").text
    assert "hedgerow_event_store_damage_total 0" not in metrics
    assert '"the event store has damaged files"' in server.errors
    assert doctor(data)[0] == 1


def test_a_part_that_the_engine_puts_aside_is_named(folder: Path, tmp_path: Path) -> None:
    part = copy_data(folder, tmp_path / "data")
    (marks,) = part.glob("data.*mrk*")
    flip(marks)
    status, problems = doctor(tmp_path / "data")
    assert (status, "put it aside and its events are missing" in problems) == (1, True), problems
    assert part.name in problems


@pytest.mark.parametrize("pattern", ["store/*/*/events.sql", "metadata/hedgerow.sql"])
def test_events_without_the_definition_of_their_table_are_not_hidden_by_an_empty_one(
    folder: Path, tmp_path: Path, pattern: str
) -> None:
    data = tmp_path / "data"
    part = copy_data(folder, data)
    (definition,) = (data / "events" / "chdb").glob(pattern)
    kept = definition.rename(tmp_path / "kept")
    with LiveServer(data) as server, server.client() as client:
        response = query(client, "SELECT count() FROM events")
        assert (response.status_code, "hedgerow doctor" in response.text) == (503, True)
        send(client, 1)
    status, problems = doctor(data)
    assert (status, "definition of the table events is missing" in problems) == (1, True), problems
    assert str(part.parent.parent.parent) in problems
    kept.replace(definition)
    with LiveServer(data) as server, server.client() as client:
        wait_for(lambda: count(client) == EVENTS + 1, at_most_s=60)


def test_the_reason_why_the_engine_cannot_open_its_folder_is_named(
    folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    copy_data(folder, data)
    (definition,) = data.glob("events/chdb/store/*/*/events.sql")
    truncate(definition)
    status, problems = doctor(data)
    assert (status, "events.sql" in problems) == (1, True), problems


def test_a_removed_event_store_is_not_taken_for_a_new_one(folder: Path, tmp_path: Path) -> None:
    copy_data(folder, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "events")
    status, problems = doctor(tmp_path / "data")
    assert (status, "events has no event store" in problems) == (1, True), problems
    done = run_in_process("doctor", data=tmp_path / "data")
    assert done.stdout.count(" event store: ") == 1, "it is not ok in another line"
    with LiveServer(tmp_path / "data") as server:
        wait_for(lambda: "events were captured, but their folder is missing" in server.errors, 20)
    (tmp_path / "data" / "events" / "chdb").mkdir(parents=True)
    status, problems = doctor(tmp_path / "data")
    assert (status, "but the event store has no tables" in problems) == (1, True), problems


def find_replicas(data: Path) -> Path:
    """Return the only part of the table of persons."""
    (part,) = (data / "events/chdb/data/hedgerow/persons").resolve().glob("all_*")
    return part


def drop_definition(data: Path) -> None:
    (definition,) = data.glob("events/chdb/store/*/*/persons.sql")
    definition.unlink()


def damage_columns(data: Path) -> None:
    part = find_replicas(data)
    flip(part / "columns.txt")
    status, problems = doctor(data)
    assert (status, "put it aside" in problems) == (1, True), problems
    assert "Start the service again" in problems


def damage_rows_and_do_as_doctor_says(data: Path) -> None:
    part = find_replicas(data)
    flip(part / "data.bin")
    status, problems = doctor(data)
    target = part.parent / "detached" / f"broken_{part.name}"
    assert (status, f"move this folder to {target}" in problems) == (1, True), problems
    part.rename(target)


@pytest.mark.parametrize(
    "damage", [drop_definition, damage_columns, damage_rows_and_do_as_doctor_says]
)
def test_damaged_replicas_of_persons_are_built_again(
    folder: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    data = tmp_path / "data"
    copy_data(folder, data)
    damage(data)
    with LiveServer(data) as server, server.client() as client:
        sql = "SELECT count(), uniq(id) FROM persons"
        wait_for(lambda: query(client, sql).json()["results"] == [[EVENTS, EVENTS]], at_most_s=60)
        joined = query(client, "SELECT count() FROM events WHERE person.created_at > '2020-01-01'")
        assert joined.json()["results"] == [[EVENTS]]
        status, problems = doctor(data)
    assert status == 0, problems
    assert '"replicas of persons were damaged and are built again"' in server.errors


def erase_page(data: Path, name: str) -> None:
    """Fill the first page of a table or an index with zeros."""
    with closing(sqlite3.connect(data / "hedgerow.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sql = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = connection.execute(sql, (name,)).fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray((data / "hedgerow.db").read_bytes())
    content[(page - 1) * page_bytes : page * page_bytes] = bytes(page_bytes)
    (data / "hedgerow.db").write_bytes(content)


def test_a_service_on_a_damaged_database_says_so_in_its_log(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    copy_data(folder, data)
    erase_page(data, "persons")
    with LiveServer(data, read_after_write_timeout_s="1") as server, server.client() as client:
        send(client, 1)
        response = client.get("/api/projects/1/persons/")
        assert (response.status_code, "restore it" in response.text) == (503, True)
        wait_for(lambda: '"the database file is damaged"' in server.errors, at_most_s=60)
    assert server.errors.count('"the database file is damaged"') == 1


@pytest.mark.parametrize("name", ["persons_by_uuid", "inbox", "ready_events"])
def test_a_damaged_page_of_the_state_is_found_and_not_backed_up(
    folder: Path, tmp_path: Path, name: str
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    shutil.copy(folder / "backup" / "hedgerow.db", data)
    erase_page(data, name)
    status, problems = doctor(data)
    assert (status, "Restore a backup" in problems) == (1, True), problems
    done = run_in_process("backup", str(tmp_path / "backup"), data=data)
    assert (done.returncode, "damaged" in done.stderr) == (1, True), done.stderr


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def change_letter(file: Path) -> None:
    """Change a text without damaging the structure of the file."""
    file.write_bytes(file.read_bytes().replace(b"user 7", b"user X", 1))


DAMAGE: list[tuple[str, Callable[[Path], None], str]] = [
    ("events/**/data.bin", flip, "data.bin is damaged"),
    ("events/**/data.*mrk*", flip, "is damaged"),
    ("events/**/data.bin", truncate, "data.bin is damaged"),
    ("events/**/checksums.txt", Path.unlink, "is not a complete backup: it lacks events/"),
    ("hedgerow.db", change_letter, "hedgerow.db is damaged"),
    ("hedgerow.db", truncate, "hedgerow.db is damaged"),
    ("encryption.key", flip, "encryption.key is damaged"),
    ("backup.json", truncate, "backup.json is damaged"),
    ("backup.json", Path.unlink, "lacks backup.json"),
]


@pytest.mark.parametrize(("pattern", "damage", "problem"), DAMAGE)
def test_a_damaged_backup_is_refused_and_nothing_is_restored(
    folder: Path, tmp_path: Path, pattern: str, damage: Callable[[Path], None], problem: str
) -> None:
    shutil.copytree(folder / "backup", tmp_path / "backup")
    damage(next((tmp_path / "backup").glob(pattern)))
    done = run_in_process("restore", str(tmp_path / "backup"), data=tmp_path / "new")
    assert (done.returncode, problem in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_damaged_write_ahead_log_loses_only_the_changes_after_the_damage(
    tmp_path: Path, is_cut_off: bool
) -> None:
    log = tmp_path / "hedgerow.db-wal"
    with LiveServer(tmp_path) as server, server.client() as client:
        assert create_flag(client, "before").status_code == 201
        end = log.stat().st_size
        assert create_flag(client, "after").status_code == 201
        server.process.kill()
        server.process.wait(30)
    assert log.stat().st_size > end
    if is_cut_off:
        log.write_bytes(log.read_bytes()[: end + 100])
    else:
        flip(log, start=end)
    with LiveServer(tmp_path) as server, server.client() as client:
        flags = client.get("/api/projects/1/feature_flags/").json()["results"]
        assert [flag["key"] for flag in flags] == ["before"]
        assert create_flag(client, "after").status_code == 201
    assert not log.exists()


def create_flag(client: httpx.Client, key: str) -> httpx.Response:
    filters = {"groups": [{"properties": [], "rollout_percentage": 100}]}
    body = {"key": key, "filters": filters}
    return client.post("/api/projects/1/feature_flags/", json=body)


@pytest.fixture
def damaged_server(
    request: pytest.FixtureRequest, tmp_path: Path, clickhouse: ClickHouseTestServer
) -> Iterator[LiveServer]:
    """A service on a PostgreSQL server that stopped, and started again with a damaged page of a
    table or an index."""
    relation, page = request.param
    postgres = PostgresTestServer()
    try:
        url = postgres.create_migrated_database()
        settings = {"database_url": url, "clickhouse_url": clickhouse.create_database()}
        settings |= {"read_after_write_timeout_s": "1"}
        with psycopg.connect(url, autocommit=True) as connection:
            with LiveServer(tmp_path, **settings) as server, server.client() as client:
                send(client, EVENTS)
                waiting: LiteralString = "SELECT 1 FROM inbox UNION ALL SELECT 1 FROM ready_events"
                wait_for(lambda: connection.execute(waiting).fetchone() is None, at_most_s=60)
            connection.execute("CHECKPOINT")
            sql = "SELECT current_setting('data_directory') || '/' || pg_relation_filepath(%s)"
            row = connection.execute(sql, (relation,)).fetchone()
            assert row is not None
        postgres.stop()
        with Path(row[0]).open("r+b") as file:
            file.seek(page * PAGE_BYTES)
            file.write(b"damaged!" * (PAGE_BYTES // 8))
        postgres.start()
        with LiveServer(tmp_path, **settings) as server:
            yield server
        done = run_in_process("doctor", "--json", data=tmp_path, **settings)
        found = [each for each in json.loads(done.stdout) if each["check"] == "database files"]
        assert (done.returncode, found[0]["verdict"]) == (1, "problem")
        assert f" {relation}: " in found[0]["detail"]
    finally:
        postgres.close()


@pytest.mark.parametrize("damaged_server", [("persons", 0)], indirect=True)
def test_reads_of_a_damaged_page_of_postgresql_get_503(
    damaged_server: LiveServer,
) -> None:
    with damaged_server.client() as client:

        def find(distinct_id: str) -> httpx.Response:
            parameters = {"distinct_id": distinct_id}
            return client.get("/api/projects/1/persons/", params=parameters)

        answers = (find(f"user {each}") for each in range(EVENTS))
        refused = next(each for each in answers if each.status_code != 200)
        assert refused.status_code == 503
        assert "hedgerow doctor" in read_error(refused)["detail"]
    assert '"the database file is damaged"' in damaged_server.errors


@pytest.mark.parametrize("damaged_server", [("persons_pkey", 1)], indirect=True)
def test_a_damaged_index_of_postgresql_is_named(damaged_server: LiveServer) -> None:
    with damaged_server.client() as client:
        assert client.get("/_readiness").status_code == 200
