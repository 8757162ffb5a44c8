"""Two processes on one PostgreSQL database are one service."""

from collections.abc import Iterator

import pytest

from hedgerow.lib.sealing import new_sealing_key
from tests.clickhouse_http import OwnClickHouse
from tests.live import PROJECT_KEY, LiveServer, error_of, seconds_until
from tests.postgres import OwnPostgres

# The promise is 1 s; a busy machine gets more.
SOON_S = 60.0


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, postgres: OwnPostgres, clickhouse: OwnClickHouse
) -> Iterator[tuple[LiveServer, LiveServer]]:
    folder = tmp_path_factory.mktemp("pair")
    settings = {
        "database_url": postgres.new_database(),
        "clickhouse_url": clickhouse.new_database(),
        "sealing_keys": new_sealing_key(),
    }
    with (
        LiveServer(folder / "one", **settings) as one,
        LiveServer(folder / "two", "--no-worker", **settings) as two,
    ):
        yield one, two


def test_only_the_first_of_them_prints_keys(pair: tuple[LiveServer, LiveServer]) -> None:
    one, two = pair
    assert "phx_" in one.output
    assert "phx_" not in two.output


def test_a_project_made_in_one_is_in_the_other_at_once(
    pair: tuple[LiveServer, LiveServer],
) -> None:
    one, two = pair
    with one.client() as here, two.client() as there:
        made = here.post("/api/projects/", json={"name": "Shared"})
        assert made.status_code == 201
        assert there.get(f"/api/projects/{made.json()['id']}/").json() == made.json()


def test_a_key_made_in_one_opens_the_other_at_once_and_revoked_there_ends_here(
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
            assert (refused.status_code, error_of(refused)["code"]) == (
                401,
                "authentication_failed",
            )
            seconds_until(
                lambda: new_here.get("/api/users/@me/").status_code == 401, at_most_s=SOON_S
            )


def test_narrowing_a_key_in_one_narrows_it_in_the_other(
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
            seconds_until(
                lambda: there.get("/api/projects/1/activity_log/").status_code == 403,
                at_most_s=SOON_S,
            )


def test_an_app_that_is_enabled_in_one_is_told_by_the_other(
    pair: tuple[LiveServer, LiveServer],
) -> None:
    one, two = pair
    base = "/api/projects/1/pipeline_frontend_apps_configs/"
    with one.client() as here, two.client(key=None) as there:

        def told() -> list[int]:
            body = {"api_key": PROJECT_KEY, "distinct_id": "somebody"}
            return [app["id"] for app in there.post("/decide?v=3", json=body).json()["siteApps"]]

        id = here.post(base, json={"plugin": 21, "enabled": True}).json()["id"]
        seconds_until(lambda: told() == [id], at_most_s=SOON_S)
        assert here.patch(f"{base}{id}/", json={"enabled": False}).status_code == 200
        seconds_until(lambda: told() == [], at_most_s=SOON_S)


def test_nothing_is_kept_in_their_data_folders(pair: tuple[LiveServer, LiveServer]) -> None:
    assert [path for server in pair for path in server.data.iterdir()] == []
