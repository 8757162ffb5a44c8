"""Reads include every event that was acknowledged before, whichever process took it."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import httpx
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import PROJECT_KEY, LiveServer, run_concurrently
from tests.support.postgres import PostgresTestServer

THREADS = 3
ROUNDS = 20
PERSONS = 5
ARGUMENTS = ((), (), ("--no-worker",))

Clients = tuple[httpx.Client, ...]


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: PostgresTestServer,
    clickhouse: ClickHouseTestServer,
) -> Iterator[tuple[LiveServer, ...]]:
    folder = tmp_path_factory.mktemp("servers")
    settings = {
        "database_url": postgres.create_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
    }
    with ExitStack() as stack:
        yield tuple(
            stack.enter_context(LiveServer(folder / str(number), *arguments, **settings))
            for number, arguments in enumerate(ARGUMENTS)
        )


@pytest.fixture(scope="module")
def clients(servers: tuple[LiveServer, ...]) -> Iterator[Clients]:
    """Clients of all processes, which know the flags of the project."""
    with ExitStack() as stack:
        clients = tuple(stack.enter_context(server.client()) for server in servers)
        _create_flag(clients[0], "plan", {"key": "plan", "value": "pro", "type": "person"})
        for client in clients:
            _capture(client, "warm", {"event": "$set", "properties": {"$set": {"plan": "pro"}}})
        yield clients


def _create_flag(client: httpx.Client, key: str, condition: dict[str, Any]) -> None:
    filters = {"groups": [{"properties": [{"operator": "exact", **condition}]}]}
    made = client.post("/api/projects/1/feature_flags/", json={"key": key, "filters": filters})
    assert made.status_code == 201, made.text


def _capture(client: httpx.Client, distinct_id: str, event: dict[str, Any]) -> None:
    body = {"api_key": PROJECT_KEY, "distinct_id": distinct_id, **event}
    assert client.post("/capture/", json=body).json() == {"status": 1}


def _evaluate(client: httpx.Client, distinct_id: str) -> Any:
    body = {"api_key": PROJECT_KEY, "distinct_id": distinct_id}
    answer = client.post("/decide?v=3", json=body).json()
    assert not answer["errorsWhileComputingFlags"]
    return answer["featureFlags"]["plan"]


def test_flags_see_the_last_acknowledged_property(clients: Clients) -> None:
    """Each thread changes one property again and again, on any process, and reads it on any."""
    numbers = count()

    def find_stale(number: int) -> list[str]:
        stale = []
        for round in range(ROUNDS):
            person = f"person-{number}-{round % PERSONS}"
            step = next(numbers)
            there, here = clients[step % 3], clients[step // 3 % 3]
            value = ("pro", "free")[round // PERSONS % 2]
            _capture(there, person, {"event": "$set", "properties": {"$set": {"plan": value}}})
            if _evaluate(here, person) is not (value == "pro"):
                stale.append(f"{person} {round}")
        return stale

    found = run_concurrently([partial(find_stale, number) for number in range(THREADS)])
    assert [each for stale in found for each in stale] == []


def test_flags_see_merged_persons(clients: Clients) -> None:
    """The event that merges is another person's."""
    here, there, third = clients
    for number in range(5):
        anonymous, known = f"anonymous-{number}", f"known-{number}"
        _capture(here, known, {"event": "$set", "properties": {"$set": {"plan": "pro"}}})
        properties = {"$anon_distinct_id": anonymous}
        _capture(there, known, {"event": "$identify", "properties": properties})
        assert _evaluate(third, anonymous) is True


def test_queries_count_every_acknowledged_event(clients: Clients) -> None:
    query = {"kind": "HogQLQuery", "query": "select count() from events where event = 'counted'"}
    for number in range(1, 7):
        _capture(clients[number % 3], f"counted-{number}", {"event": "counted"})
        answer = clients[number // 2 % 3].post(
            "/api/projects/1/query/", json={"query": query, "refresh": "force_blocking"}
        )
        assert answer.json()["results"] == [[number]]
