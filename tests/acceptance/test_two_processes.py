"""Two processes on one PostgreSQL database are one service."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from hedgerow import __version__
from hedgerow.lib.encryption import generate_encryption_key
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    build_environment,
    read_error,
    run_in_process,
    wait_for,
)
from tests.support.postgres import PostgresTestServer

# The command line of another version.
OTHER_VERSION = (
    sys.executable,
    "-c",
    "import hedgerow; hedgerow.__version__ = '9.9.9'; from hedgerow.cli import main; main()",
)
WARNING = "another version shares the database"
# The guarantee is 1 s; a busy machine gets more.
TIMEOUT_S = 60.0
# Paths with a limit for each key, by the name of the limit.
LIMITED_PATHS = {
    "sdk project ": f"/flags/definitions?token={PROJECT_KEY}",
    "api ": "/api/projects/1/",
}


def _create_databases(
    postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> dict[str, str]:
    return {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
    }


@contextmanager
def _start_pair(folder: Path, **settings: str) -> Iterator[tuple[LiveServer, LiveServer]]:
    settings = {"encryption_keys": generate_encryption_key(), **settings}
    with (
        LiveServer(folder / "one", **settings) as one,
        LiveServer(folder / "two", "--no-worker", **settings) as two,
    ):
        yield one, two


@pytest.fixture(scope="module")
def shared(postgres: PostgresTestServer, clickhouse: ClickHouseTestServer) -> dict[str, str]:
    """The settings of all processes."""
    urls = _create_databases(postgres, clickhouse)
    return {**urls, "encryption_keys": generate_encryption_key()}


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, shared: dict[str, str]
) -> Iterator[tuple[LiveServer, LiveServer]]:
    with _start_pair(tmp_path_factory.mktemp("pair"), **shared) as pair:
        yield pair


def test_only_the_first_process_prints_keys(pair: tuple[LiveServer, LiveServer]) -> None:
    one, two = pair
    assert "Personal key" in one.output
    assert "Personal key" not in two.output


def test_project_created_in_one_process_is_visible_in_the_other(
    pair: tuple[LiveServer, LiveServer],
) -> None:
    one, two = pair
    with one.client() as here, two.client() as there:
        made = here.post("/api/projects/", json={"name": "Shared"})
        assert made.status_code == 201
        assert there.get(f"/api/projects/{made.json()['id']}/").json() == made.json()


def test_key_created_or_revoked_in_one_process_is_so_in_the_other(
    pair: tuple[LiveServer, LiveServer],
) -> None:
    one, two = pair
    with one.client() as here, two.client() as there:
        made = here.post("/api/personal_api_keys/", json={"label": "both", "scopes": ["*"]}).json()
        with one.client(made["value"]) as new_here, two.client(made["value"]) as new_there:
            assert new_there.get("/api/users/@me/").status_code == 200
            assert new_here.get("/api/users/@me/").status_code == 200
            assert there.delete(f"/api/personal_api_keys/{made['id']}/").status_code == 204
            refused = new_there.get("/api/users/@me/")
            assert (refused.status_code, read_error(refused)["code"]) == (
                401,
                "authentication_failed",
            )
            wait_for(
                lambda: new_here.get("/api/users/@me/").status_code == 401, at_most_s=TIMEOUT_S
            )


def test_key_restricted_in_one_process_is_restricted_in_the_other(
    pair: tuple[LiveServer, LiveServer],
) -> None:
    one, two = pair
    with one.client() as here:
        made = here.post("/api/personal_api_keys/", json={"label": "less", "scopes": ["*"]}).json()
        with two.client(made["value"]) as there:
            assert there.get("/api/projects/1/activity_log/").status_code == 200
            change = here.patch(
                f"/api/personal_api_keys/{made['id']}/", json={"scopes": ["project:read"]}
            )
            assert change.status_code == 200
            wait_for(
                lambda: there.get("/api/projects/1/activity_log/").status_code == 403,
                at_most_s=TIMEOUT_S,
            )


def test_app_enabled_in_one_process_is_served_by_the_other(
    pair: tuple[LiveServer, LiveServer],
) -> None:
    one, two = pair
    base = "/api/projects/1/pipeline_frontend_apps_configs/"
    with one.client() as here, two.client(key=None) as there:

        def list_site_apps() -> list[int]:
            body = {"api_key": PROJECT_KEY, "distinct_id": "user"}
            return [app["id"] for app in there.post("/decide?v=3", json=body).json()["siteApps"]]

        id = here.post(base, json={"plugin": 21, "enabled": True}).json()["id"]
        wait_for(lambda: list_site_apps() == [id], at_most_s=TIMEOUT_S)
        assert here.patch(f"{base}{id}/", json={"enabled": False}).status_code == 200
        wait_for(lambda: list_site_apps() == [], at_most_s=TIMEOUT_S)


def test_data_folders_have_only_copies_of_flags(pair: tuple[LiveServer, LiveServer]) -> None:
    assert {path.name for server in pair for path in server.data.iterdir()} <= {"flag-copies"}


def test_processes_of_two_versions_name_each_other(
    tmp_path: Path, pair: tuple[LiveServer, LiveServer], shared: dict[str, str]
) -> None:
    this, _ = pair
    errors = tmp_path / "errors"
    with errors.open("wb") as stream:
        other = subprocess.Popen(
            [*OTHER_VERSION, "serve", "--no-worker", "--data", str(tmp_path / "other")],
            env=build_environment(**shared),
            stdout=subprocess.DEVNULL,
            stderr=stream,
        )
    try:
        wait_for(lambda: WARNING in this.errors, at_most_s=TIMEOUT_S)
        wait_for(lambda: WARNING in errors.read_text(), at_most_s=TIMEOUT_S)
        assert "processes of Hedgerow 9.9.9 use this database" in this.errors
        assert f"processes of Hedgerow {__version__} use this database" in errors.read_text()
        checked = run_in_process("doctor", data=this.data, **shared).stdout
        assert "warning processes: processes of Hedgerow 9.9.9 use this database" in checked
    finally:
        other.terminate()
        other.wait(60)
    checked = run_in_process("doctor", data=this.data, **shared).stdout
    assert "ok      processes: " in checked
    assert this.errors.count(WARNING) == 1


def test_rate_limits_are_shared(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    """The second process is called less often than the limit allows, and refuses nevertheless."""
    urls = _create_databases(postgres, clickhouse)
    call = {"api_key": PROJECT_KEY, "distinct_id": "ann"}

    def evaluate(client: httpx.Client) -> int:
        return client.post("/decide?v=3", json=call).status_code

    with (
        _start_pair(tmp_path, project_calls_per_s="1", **urls) as (one, two),
        one.client(None) as busy,
        two.client(None) as calm,
    ):

        def is_refused() -> bool:
            for _ in range(50):
                evaluate(busy)
            time.sleep(1)
            return evaluate(calm) == 429

        wait_for(is_refused, at_most_s=TIMEOUT_S)
        assert "hedgerow_requests_refused_total" in busy.get("/metrics").text


def test_limits_of_keys_are_shared(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    """The process tells others of its calls, and refuses after calls that others tell of."""
    urls = _create_databases(postgres, clickhouse)
    settings = {"encryption_keys": generate_encryption_key(), "rate_limits_enabled": "true"}
    shared = "SELECT bucket FROM rate_usage WHERE starts_with(bucket, %s)"
    tell = "INSERT INTO rate_usage VALUES ('another', %s, 1000, clock_timestamp())"
    with (
        LiveServer(tmp_path, **urls, **settings) as server,
        server.client() as client,
        psycopg.connect(urls["database_url"], autocommit=True) as database,
    ):
        for limit, path in LIMITED_PATHS.items():

            def find_bucket(limit: str = limit) -> tuple[str] | None:
                return database.execute(shared, [limit]).fetchone()

            def is_refused(path: str = path) -> bool:
                time.sleep(1)
                return client.get(path).status_code == 429

            assert client.get(path).status_code == 200
            wait_for(lambda: find_bucket() is not None, at_most_s=TIMEOUT_S)
            database.execute(tell, find_bucket())
            wait_for(is_refused, at_most_s=TIMEOUT_S)


def test_session_and_role_that_end_in_one_process_end_in_the_other(
    pair: tuple[LiveServer, LiveServer],
) -> None:
    one, two = pair
    own_page = {"Sec-Fetch-Site": "same-origin"}
    invites = "/api/organizations/@current/invites/"
    with one.client() as here, one.client(None) as browser, two.client(None) as there:
        wanted = {"target_email": "ann@example.com", "project_roles": {"1": "viewer"}}
        link = here.post(invites, json=wanted).json()["link"]
        body = {"token": link, "first_name": "Ann", "password": "correct horse battery"}
        assert browser.post("/api/signup/", json=body, headers=own_page).status_code == 201
        there.cookies = browser.cookies
        member = there.get("/api/organizations/@current/members/@me/").json()["id"]
        path = f"/api/organizations/@current/members/{member}/"
        flags = "/api/projects/1/feature_flags/"
        assert there.get(flags).status_code == 200
        assert here.patch(path, json={"project_roles": {}}).status_code == 200
        wait_for(lambda: there.get(flags).status_code == 403, TIMEOUT_S)
        assert here.delete(f"{path}sessions/").status_code == 204
        wait_for(lambda: there.get("/api/users/@me/").status_code == 401, TIMEOUT_S)
