"""Reads include every event that was acknowledged before, whichever process took it."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import PROJECT_KEY, LiveServer, LiveWorker, run_concurrently, wait_for
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
        "database_url": postgres.create_migrated_database(),
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
            _set_plan(client, "warm", "pro")
        yield clients


def _create_flag(client: httpx.Client, key: str, condition: dict[str, Any]) -> None:
    filters = {"groups": [{"properties": [{"operator": "exact", **condition}]}]}
    made = client.post("/api/projects/1/feature_flags/", json={"key": key, "filters": filters})
    assert made.status_code == 201, made.text


def _capture(client: httpx.Client, distinct_id: str, event: dict[str, Any]) -> None:
    body = {"api_key": PROJECT_KEY, "distinct_id": distinct_id, **event}
    assert client.post("/capture/", json=body).json() == {"status": 1}


def _set_plan(client: httpx.Client, distinct_id: str, plan: str) -> None:
    _capture(client, distinct_id, {"event": "$set", "properties": {"$set": {"plan": plan}}})


def _evaluate(client: httpx.Client, distinct_id: str, flag: str = "plan", **groups: str) -> Any:
    body = {"api_key": PROJECT_KEY, "distinct_id": distinct_id, "groups": groups}
    answer = client.post("/decide?v=3", json=body).json()
    assert not answer["errorsWhileComputingFlags"]
    return answer["featureFlags"][flag]


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
            _set_plan(there, person, value)
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
        _set_plan(here, known, "pro")
        properties = {"$anon_distinct_id": anonymous}
        _capture(there, known, {"event": "$identify", "properties": properties})
        assert _evaluate(third, anonymous) is True


def test_flags_see_properties_of_other_ids_of_the_person(clients: Clients) -> None:
    here, there, third = clients
    for number in range(5):
        before, known = f"visitor-{number}", f"member-{number}"
        _set_plan(here, before, "pro")
        properties = {"$anon_distinct_id": before}
        _capture(there, known, {"event": "$identify", "properties": properties})
        assert _evaluate(third, known) is True
        for plan in ("free", "pro"):
            _set_plan(clients[number % 3], before, plan)
            assert _evaluate(clients[(number + 1) % 3], known) is (plan == "pro")


def test_flags_see_groups_and_new_group_types(clients: Clients) -> None:
    by_plan = {"key": "plan", "value": "pro", "type": "group", "group_type_index": 0}
    filters = {
        "groups": [{"properties": [{"operator": "exact", **by_plan}]}],
        "aggregation_group_type_index": 0,
    }
    body = {"key": "company", "filters": filters}
    assert clients[0].post("/api/projects/1/feature_flags/", json=body).status_code == 201
    for client in clients:  # all of them know the flag, and no group type
        wait_for(partial(_knows_flag, client, "company"), at_most_s=120)
    for number, plan in enumerate(("pro", "free", "pro", "free")):
        there, here = clients[number % 3], clients[(number + 1) % 3]
        group = {"$group_type": "company", "$group_key": "acme", "$group_set": {"plan": plan}}
        _capture(there, "somebody", {"event": "$groupidentify", "properties": group})
        assert _evaluate(here, "ann", "company", company="acme") is (plan == "pro")


def _knows_flag(client: httpx.Client, key: str) -> bool:
    body = {"api_key": PROJECT_KEY, "distinct_id": "anyone"}
    return key in client.post("/decide?v=3", json=body).json()["featureFlags"]


@pytest.mark.parametrize("refresh", ["blocking", "force_blocking"])
def test_queries_count_every_acknowledged_event(clients: Clients, refresh: str) -> None:
    """A cached result is not reused after an event of another process."""
    count = f"select count() from events where event = 'counted {refresh}'"
    query = {"kind": "HogQLQuery", "query": count}
    for number in range(1, 7):
        _capture(clients[number % 3], f"counted-{number}", {"event": f"counted {refresh}"})
        for client in (clients[number // 2 % 3], clients[0]):
            answer = client.post(
                "/api/projects/1/query/", json={"query": query, "refresh": refresh}
            )
            assert answer.json()["results"] == [[number]]


def test_response_says_that_it_may_lack_acknowledged_events(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    """No worker runs until later, so the reads wait in vain."""
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
        "read_after_write_timeout_s": "0.1",
    }
    count = {"kind": "HogQLQuery", "query": "select count() from events"}

    def list_stale(client: httpx.Client) -> list[str]:
        answers = [
            client.get("/api/projects/1/persons/"),
            client.get("/api/projects/1/events/"),
            client.post("/api/projects/1/query/", json={"query": count}),
            client.get("/api/projects/1/feature_flags/"),
        ]
        assert {answer.status_code for answer in answers} == {200}
        return [answer.headers.get("x-hedgerow-stale", "") for answer in answers]

    with LiveServer(tmp_path / "a", "--no-worker", **settings) as server, server.client() as client:
        # The first query opens the store.
        wait_for(lambda: list_stale(client) == ["", "", "", ""], at_most_s=120)
        _set_plan(client, "ann", "pro")
        assert list_stale(client) == ["true", "true", "true", ""]
        with LiveWorker(tmp_path / "b", **settings):
            wait_for(lambda: list_stale(client) == ["", "", "", ""], at_most_s=120)
