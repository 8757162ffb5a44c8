"""Import apps end to end: files, the web, S3, PostgreSQL and another instance, all of them real."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer, run_in_process
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import PlannedResponse, Receiver, wait_until
from tests.support.s3 import KEY_ID, SECRET, S3Server

RECORDS = "/api/environments/1/pipeline_import_apps_configs/"
FILES, POSTGRES, POSTHOG = 41, 42, 43
OVER = ("done", "failed", "cancelled")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    data = tmp_path_factory.mktemp("imports")
    (data / "imports" / "1").mkdir(parents=True)
    with LiveServer(data, allow_private_destinations="true") as running:
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


@pytest.fixture
def folder(server: LiveServer) -> Path:
    return server.data / "imports" / "1"


def importer(client: httpx.Client, plugin: int, **settings: Any) -> str:
    """The path of a new record."""
    path = f"{RECORDS}{client.post(RECORDS, json={'plugin': plugin}).json()['id']}/"
    configured = client.put(f"{path}config/", json=settings)
    assert configured.status_code == 200, configured.text
    return path


def run(client: httpx.Client, path: str, type: str = "import", **payload: Any) -> dict[str, Any]:
    """A job of a record, when it is over."""
    answer = client.post(f"{path}job/", json={"job": {"type": type, "payload": payload}})
    assert answer.status_code == 200, answer.text
    job = f"{path}jobs/{answer.headers['x-job-id']}/"
    wait_until(lambda: client.get(job).json()["status"] in OVER, 60)
    found: dict[str, Any] = client.get(job).json()
    return found


def events(client: httpx.Client, name: str) -> list[dict[str, Any]]:
    """The stored events of a name, oldest first."""
    parameters: dict[str, str | int] = {
        "event": name,
        "after": "2000-01-01",
        "limit": 1000,
        "orderBy": '["timestamp"]',
    }
    results: list[dict[str, Any]] = client.get("/api/projects/1/events/", params=parameters).json()[
        "results"
    ]
    return results


def test_good_rows_are_imported_and_bad_rows_reported_by_line(
    client: httpx.Client, folder: Path
) -> None:
    (folder / "orders.csv").write_text(
        "when,who,price,code\n"
        "2026-01-01T10:00:00Z,ann,12.5,007\n"
        "yesterday,ben,1,1\n"
        '2026-01-02T10:00:00Z,"cy ""x""",3,\n'
        "2026-01-03T10:00:00Z,too,many,fields,here\n"
        "2026-01-04T10:00:00Z,,4,4\n"
        '2026-01-05T10:00:00Z,"two\nlines",5,true\n'
    )
    mapping = {"event": "=ordered", "distinct_id": "who", "timestamp": "when"}
    path = importer(client, FILES, source="orders.csv", mapping=mapping)
    job = run(client, path)
    assert (job["status"], job["done"]) == ("done", 6)
    assert (job["details"]["imported"], job["details"]["bad"]) == (3, 3)
    assert [sample["place"] for sample in job["details"]["samples"]] == [
        "orders.csv line 5",
        "orders.csv line 3",
        "orders.csv line 6",
    ]
    stored = events(client, "ordered")
    assert [(each["distinct_id"], each["properties"]) for each in stored] == [
        ("ann", {"price": 12.5, "code": "007"}),
        ('cy "x"', {"price": 3}),
        ("two\nlines", {"price": 5, "code": True}),
    ]
    assert stored[0]["timestamp"].startswith("2026-01-01T10:00:00")
    people = client.get("/api/projects/1/persons/?distinct_id=ann").json()
    assert people["count"] == 1
    lines = client.get(f"{path}logs/?level=warning").json()["results"]
    assert len(lines) == 3
    # From the beginning, and yet nothing is stored twice.
    assert run(client, path, again=True)["details"]["imported"] == 3
    assert [each["id"] for each in events(client, "ordered")] == [each["id"] for each in stored]


def test_a_folder_is_read_once_and_new_files_later(client: httpx.Client, folder: Path) -> None:
    inner = folder / "daily" / "deep"
    inner.mkdir(parents=True)
    rows = [{"event": "daily", "distinct_id": f"u{n}", "n": n} for n in range(2500)]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (inner / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    (folder / "daily" / "b.jsonl").write_text('{"event": "daily", "distinct_id": "b"}\n')
    (folder / "daily" / "notes.txt").write_text("no rows")
    (folder / "daily" / "link.jsonl").symlink_to("/etc/passwd")
    path = importer(client, FILES, source="daily")
    assert run(client, path)["done"] == 2501
    assert run(client, path)["done"] == 0
    (folder / "daily" / "c.jsonl").write_text('{"event": "daily", "distinct_id": "c"}\nno json\n')
    third = run(client, path)
    assert (third["details"]["imported"], third["details"]["bad"]) == (1, 1)
    assert third["details"]["samples"][0]["place"] == "daily/c.jsonl line 2"


@pytest.mark.parametrize("source", ["../2/secret.csv", "/etc/passwd", "out/secret.csv", "out.csv"])
def test_no_path_leads_out_of_the_projects_folder(
    client: httpx.Client, folder: Path, source: str
) -> None:
    outside = folder.parent / "2"
    outside.mkdir(exist_ok=True)
    (outside / "secret.csv").write_text("event,distinct_id\nsecret,x\n")
    for name, target in (("out", outside), ("out.csv", outside / "secret.csv")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
    job = run(client, importer(client, FILES, source=source))
    assert job["status"] == "failed"
    assert "import folder" in job["error"] or "Links are not followed" in job["error"]
    assert events(client, "secret") == []


def test_a_file_from_the_web_is_imported_once(client: httpx.Client) -> None:
    body = b'{"event": "webbed", "distinct_id": "w"}\n'
    with Receiver() as there:
        target = there.url.replace("/hook", "/file.jsonl")
        there.decide = lambda received: (
            PlannedResponse(status=302, headers={"location": target})
            if received.path == "/moved"
            else PlannedResponse(
                headers={"etag": '"v1"'}, body=b"" if received.method == "HEAD" else body
            )
        )
        path = importer(client, FILES, source=there.url.replace("/hook", "/moved"), format="jsonl")
        assert run(client, path)["details"]["imported"] == 1
        assert run(client, path)["done"] == 0
    assert len(events(client, "webbed")) == 1


def test_objects_are_imported_from_s3(client: httpx.Client, tmp_path: Path) -> None:
    with S3Server(tmp_path) as s3:
        (s3.create_bucket("drop") / "in").mkdir()
        (tmp_path / "drop" / "in" / "a.csv").write_text("event,distinct_id\nstored,s\n")
        path = importer(
            client,
            FILES,
            source="s3://drop/in/",
            endpoint=s3.endpoint,
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
        )
        assert run(client, path, "test_connection")["status"] == "done"
        assert run(client, path)["details"]["imported"] == 1
        assert run(client, path)["done"] == 0
    assert len(events(client, "stored")) == 1


def test_a_query_continues_where_it_ended(
    client: httpx.Client, postgres: PostgresTestServer
) -> None:
    url = postgres.create_database()
    with psycopg.connect(url, autocommit=True) as connection, postgres.forward_port() as port:
        connection.execute("CREATE TABLE orders (id bigint, who text, at timestamptz, tags jsonb)")
        connection.execute(
            "INSERT INTO orders SELECT n, 'u' || n, '2026-02-01Z'::timestamptz, '{\"a\": [1]}'"
            " FROM generate_series(1, 2500) AS n"
        )
        path = importer(
            client,
            POSTGRES,
            url=f"postgresql://postgres:any@127.0.0.1:{port}{urlsplit(url).path}",
            query="SELECT *, 'sold' AS event FROM orders WHERE who LIKE 'u%';",
            cursor_column="id",
            mapping={"distinct_id": "who", "timestamp": "at"},
        )
        assert run(client, path, "test_connection")["status"] == "done"
        assert run(client, path)["details"]["imported"] == 2500
        assert run(client, path)["done"] == 0
        # The first has the cursor's last value, and is another row all the same.
        connection.execute("INSERT INTO orders VALUES (2500, 'u', now(), NULL)")
        connection.execute("INSERT INTO orders VALUES (2501, 'u', now(), NULL)")
        assert run(client, path)["details"]["imported"] == 2
        wait_until(lambda: len(events(client, "sold")) == 1000)
        sold = events(client, "sold")
        assert {each["properties"]["tags"]["a"][0] for each in sold} == {1}
        assert {each["timestamp"][:10] for each in sold} == {"2026-02-01"}
        client.patch(f"{path}config/", json={"query": "DELETE FROM orders RETURNING *"})
        refused = run(client, path)
        assert (refused["status"], "PostgreSQL reports" in refused["error"]) == ("failed", True)


def test_another_instance_is_copied_with_uuid_and_time(
    client: httpx.Client, tmp_path: Path
) -> None:
    sent = [
        {
            "event": "copied",
            "distinct_id": f"u{n % 7}",
            "timestamp": f"2026-03-{n // 100 + 1:02}T00:00:{n % 60:02}Z",
            "properties": {"n": n},
        }
        for n in range(1200)
    ]
    with LiveServer(tmp_path) as other, other.client() as there:
        there.post("/batch/", json={"api_key": PROJECT_KEY, "batch": sent})
        path = importer(
            client, POSTHOG, host=other.address, personal_key=PERSONAL_KEY, project_id="1"
        )
        assert run(client, path, "test_connection")["status"] == "done"
        job = run(client, path)
        assert (job["status"], job["done"]) == ("done", 1200)
        originals = events(there, "copied")
        assert [each["id"] for each in events(client, "copied")] == [
            each["id"] for each in originals
        ]
        later = {"event": "copied later", "distinct_id": "u1"}
        there.post("/capture/", json={"api_key": PROJECT_KEY, **later})
        # A little of what was read before is read again, and stored once.
        assert run(client, path)["done"] < 1000
        (copy,) = events(client, "copied later")
        assert copy["id"] == events(there, "copied later")[0]["id"]
        client.patch(f"{path}config/", json={"personal_key": "phx_wrong"})
        assert "401" in run(client, path)["error"]


def test_an_import_runs_on_schedule(client: httpx.Client, folder: Path) -> None:
    (folder / "by_itself.csv").write_text("event,distinct_id\nby itself,x\n")
    path = importer(client, FILES, source="by_itself.csv", schedule="1h")
    assert client.get(f"{path}schedule/").json() == {"schedule": "1h", "next_run_at": None}
    assert client.patch(path, json={"enabled": True}).status_code == 200
    wait_until(lambda: client.get(f"{path}jobs/").json()["count"] == 1)
    (job,) = client.get(f"{path}jobs/").json()["results"]
    assert (job["type"], job["requested_by"]) == ("import", "Schedule")
    wait_until(lambda: len(events(client, "by itself")) == 1)
    assert client.get(f"{path}schedule/").json()["next_run_at"] > job["created_at"]
    wrong = client.patch(f"{path}config/", json={"schedule": "sometimes"})
    assert (wrong.status_code, wrong.json()["attr"]) == (400, "config__schedule")


def test_the_command_line_sends_files(
    client: httpx.Client, server: LiveServer, tmp_path: Path
) -> None:
    file = tmp_path / "visits.csv"
    rows = "".join(f"2026-04-01T00:00:00Z,u{n % 9},{n}\n" for n in range(3000))
    file.write_text("at,who,n\n" + rows + "never,u1,1\n")
    options = ["--map", "event==visited", "--map", "distinct_id=who", "--map", "timestamp=at"]
    there: dict[str, Any] = {"server_url": server.address, "project_key": PROJECT_KEY}
    checked = run_in_process("import", str(file), *options, "--dry-run")
    assert checked.stdout.endswith("3000 row(s) can be sent, 1 bad.\n")
    assert '"event": "visited"' in checked.stdout
    assert events(client, "visited") == []
    for _ in range(2):
        sent = run_in_process("import", str(file), *options, **there)
        assert sent.returncode == 1
        assert sent.stdout == "3000 row(s) sent, 1 bad.\n"
        assert "visits.csv line 3002: The timestamp never is not a valid date." in sent.stderr
    wait_until(lambda: count(client, "visited") == 3000)
    rest = run_in_process("import", str(file), *options, "--from-line", "2500", **there)
    assert rest.stdout == "1000 row(s) sent, 1 bad.\n"
    stranger = run_in_process(
        "import", str(file), *options, **(there | {"project_key": "phc_" + "x" * 20})
    )
    assert (stranger.returncode, "stopped before line 1" in stranger.stderr) == (3, True)
    wrong = run_in_process("import", str(file), "--map", "who=x", **there)
    assert (wrong.returncode, "Unknown field" in wrong.stderr) == (1, True)


def count(client: httpx.Client, name: str) -> int:
    query = {"kind": "HogQLQuery", "query": f"select count() from events where event = '{name}'"}
    answer = client.post(
        "/api/projects/1/query/", json={"query": query, "refresh": "force_blocking"}
    )
    return int(answer.json()["results"][0][0])
