"""Hedgerow works behind PgBouncer in transaction mode, without options of PgBouncer or Hedgerow."""

from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.fault.decide_requests import build_filters, create_flag
from tests.support.live import PROJECT_KEY, LiveServer, run_concurrently, run_in_process, wait_for
from tests.support.pgbouncer import find_pgbouncer, run_pgbouncer
from tests.support.postgres import PostgresTestServer

ROUNDS = 8  # the driver would prepare a statement after five


@pytest.mark.skipif(
    find_pgbouncer() is None, reason="PgBouncer is missing: tests/support/install_pgbouncer gets it"
)
def test_installation_behind_pgbouncer(tmp_path: Path, postgres: PostgresTestServer) -> None:
    data = tmp_path / "data"
    with run_pgbouncer(postgres, postgres.create_database(), tmp_path) as url:
        with LiveServer(data, database_url=url) as server, server.client() as client:
            create_flag(client, "on", build_filters())
            for number in range(ROUNDS):
                names = [f"person-{each}" for each in range(8)]
                run_concurrently([partial(_use, client, name, number) for name in names])
        assert "Traceback" not in server.errors
        assert '"level": "error"' not in server.errors
        for command in (("doctor",), ("migrate", "--check"), ("backup", str(tmp_path / "copy"))):
            done = run_in_process(*command, data=data, database_url=url)
            assert done.returncode == 0, done.stderr


def _use(client: httpx.Client, name: str, number: int) -> None:
    """Read a person, evaluate a flag, and list the events, after capturing an event."""
    user = {"api_key": PROJECT_KEY, "distinct_id": name}
    event = {**user, "event": "seen", "properties": {"$set": {"number": number}}}
    assert client.post("/capture", json=event).status_code == 200
    flags = client.post("/decide?v=3", json=user).json()
    assert (flags["featureFlags"], flags["errorsWhileComputingFlags"]) == ({"on": True}, False)

    def is_visible() -> bool:
        by_id = {"distinct_id": name}
        persons = client.get("/api/projects/1/persons/", params=by_id).json()["results"]
        events = client.get("/api/projects/1/events/", params=by_id).json()["results"]
        numbers = [person["properties"]["number"] for person in persons]
        return (numbers, len(events)) == ([number], number + 1)

    wait_for(is_visible, at_most_s=60)
