"""Cohorts by behavior: flags, HogQL and the list of persons find the same persons."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.support.live import PROJECT_KEY, LiveServer, wait_for

PROJECT = "/api/projects/1"
PERSONS = 12
EVENTS = 180
LONG = 30
# Generous, for a busy machine.
TIMEOUT_S = 120

Clients = Sequence[httpx.Client]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def clients(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clients]:
    """Clients of one process, or of two that share the work."""
    folder = tmp_path_factory.mktemp("behaviors")
    settings: dict[str, str] = {}
    if request.param == "postgresql":
        settings = {
            "database_url": request.getfixturevalue("postgres").create_migrated_database(),
            "clickhouse_url": request.getfixturevalue("clickhouse").create_database(),
            "encryption_keys": generate_encryption_key(),
        }
    with ExitStack() as stack:
        servers = [
            stack.enter_context(LiveServer(folder / str(number), **settings))
            for number in range(2 if settings else 1)
        ]
        yield [stack.enter_context(server.client()) for server in servers]


def post(client: httpx.Client, path: str, body: Any, status: int = 201) -> Any:
    answer = client.post(PROJECT + path, json=body, timeout=60)
    assert answer.status_code == status, answer.text
    return answer.json()


def behavior(key: str, value: str = "performed_event", **more: Any) -> dict[str, Any]:
    window = {"time_value": LONG, "time_interval": "day"}
    return {
        **{"type": "behavioral", "event_type": "events", "key": key, "value": value},
        **window,
        **more,
    }


def at_least(count: int, key: str, operator: str = "gte", **more: Any) -> dict[str, Any]:
    fields = {"operator": operator, "operator_value": count, **more}
    return behavior(key, "performed_event_multiple", **fields)


def then(first: str, second: str, hours: int, **more: Any) -> dict[str, Any]:
    fields = {
        **{"seq_event": second, "seq_event_type": "events"},
        **{"seq_time_value": hours, "seq_time_interval": "hour"},
    }
    return behavior(first, "performed_event_sequence", **fields, **more)


def create_cohort(client: httpx.Client, name: str, *filters: Mapping[str, Any]) -> int:
    definition = {"type": "AND", "values": list(filters)}
    made = post(client, "/cohorts/", {"name": name, "filters": {"properties": definition}})
    assert (made["is_calculating"], made["calculation_progress"]) == (False, 100), made
    id: int = made["id"]
    return id


def create_flag(client: httpx.Client, key: str, cohort: int) -> None:
    condition = {"properties": [{"key": "id", "type": "cohort", "value": cohort}]}
    post(client, "/feature_flags/", {"key": key, "filters": {"groups": [condition]}})


def send(client: httpx.Client, events: Sequence[Mapping[str, Any]]) -> None:
    body = {"api_key": PROJECT_KEY, "batch": list(events)}
    assert client.post("/batch/", json=body).status_code == 200


def build_event(distinct_id: str, name: str, ago: timedelta, **properties: Any) -> dict[str, Any]:
    return {
        "event": name,
        "distinct_id": distinct_id,
        "timestamp": (datetime.now(UTC) - ago).isoformat(),
        "properties": properties,
    }


def decide(client: httpx.Client, distinct_id: str) -> dict[str, bool]:
    body = {"api_key": PROJECT_KEY, "distinct_id": distinct_id}
    answer = client.post("/decide?v=3", json=body).json()
    assert not answer["errorsWhileComputingFlags"]
    flags: dict[str, bool] = answer["featureFlags"]
    return flags


def query_members(client: httpx.Client, cohort: int) -> set[str]:
    sql = f"SELECT distinct_id FROM person_distinct_ids WHERE person_id IN COHORT {cohort}"
    query = {"kind": "HogQLQuery", "query": f"{sql} LIMIT 1000"}
    rows = post(client, "/query/", {"query": query, "refresh": "force_blocking"}, 200)["results"]
    return {row[0] for row in rows}


def list_members(client: httpx.Client, cohort: int) -> set[str]:
    found = client.get(f"{PROJECT}/persons/", params={"cohort": cohort, "limit": 500})
    assert found.status_code == 200, found.text
    return {id for person in found.json()["results"] for id in person["distinct_ids"]}


def find_disagreements(clients: Clients, cohorts: Mapping[str, int]) -> list[str]:
    """Compare what flags, queries and lists say. Each of several processes is asked."""
    found = clients[-1].get(f"{PROJECT}/persons/", params={"limit": 500}).json()["results"]
    ids = [id for person in found for id in person["distinct_ids"]]
    decided = {id: decide(clients[n % len(clients)], id) for n, id in enumerate(ids)}
    wrong = []
    for name, cohort in cohorts.items():
        by_flag = {id for id in ids if decided[id][name]}
        by_query, by_list = query_members(clients[0], cohort), list_members(clients[-1], cohort)
        if not by_flag == by_query == by_list:
            wrong.append(f"{name}: flag {by_flag}, query {by_query}, list {by_list}")
    return wrong


PRO = {"key": "plan", "value": "Pro", "operator": "exact", "type": "event"}
COHORTS: dict[str, list[dict[str, Any]]] = {
    "did-not": [behavior("a", negation=True)],
    "often": [at_least(3, "a")],
    "seldom": [at_least(4, "a", "lte")],
    "exactly": [at_least(2, "b", "exact", time_value=1, time_interval="week")],
    "pros": [at_least(2, "a", event_filters=[PRO])],
    "many-filters": [
        behavior("a", event_filters=[{**PRO, "operator": "is_not"}]),
        behavior("b", event_filters=[{"key": "n", "value": 3, "operator": "gt"}], negation=True),
    ],
    "first": [behavior("a", "performed_event_first_time", time_value=10)],
    "sequence": [then("a", "b", 12)],
    "stopped": [
        behavior("c", "stopped_performing_event", seq_time_value=5, seq_time_interval="day")
    ],
    "dates": [behavior("a", explicit_datetime="2020-01-01", explicit_datetime_to="2020-06-01")],
}


SHARED = ("often", "pros", "first", "sequence")


def random_events(source: random.Random, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        ago = timedelta(hours=source.uniform(-20, 45 * 24))
        if source.random() < 0.05:
            ago += datetime.now(UTC) - datetime(2020, source.randint(1, 12), 1, tzinfo=UTC)
        person = f"p{source.randrange(PERSONS)}"
        yield {
            **build_event(
                person,
                source.choice("aaabbc"),
                ago,
                plan=source.choice(["Pro", "pro", None, 3]),
                n=source.choice([1, 2.0, 3.5, "4", "x"]),
            ),
            "uuid": str(UUID(int=source.getrandbits(128), version=4)),
        }
        if source.random() < 0.04:
            other = f"p{source.randrange(PERSONS)}"
            yield build_event(person, "$merge_dangerously", timedelta(), alias=other)
        if source.random() < 0.04:
            event = build_event(person, "a", timedelta(days=1))
            yield {**event, "properties": {"$process_person_profile": False}}


def test_random_events_give_the_same_members_everywhere(clients: Clients) -> None:
    """Half of the events are stored before the cohorts exist. Some are sent twice."""
    source = random.Random(20261117)
    events = list(random_events(source, EVENTS))
    half = len(events) // 2
    send(clients[0], events[:half])
    action = post(
        clients[0],
        "/actions/",
        {"name": "buys", "steps": [{"event": "a", "properties": [PRO]}, {"event": "c"}]},
    )
    of_action = {**at_least(3, str(action["id"])), "event_type": "actions"}
    # Queries take most of the time of this test: two processes answer fewer.
    chosen = COHORTS if len(clients) == 1 else {name: COHORTS[name] for name in SHARED}
    cohorts = {
        name: create_cohort(clients[0], name, *filters)
        for name, filters in {**chosen, "action": [of_action]}.items()
    }
    for name, cohort in cohorts.items():
        create_flag(clients[0], name, cohort)
    # Another process knows them a moment later.
    wait_for(lambda: cohorts.keys() <= decide(clients[-1], "anyone").keys(), TIMEOUT_S)
    for start in range(half, len(events), 20):
        send(clients[start // 20 % len(clients)], events[start : start + 20])
    send(clients[0], [each for each in events[half:] if "uuid" in each][:10])
    assert find_disagreements(clients, cohorts) == []
    # Deleted events no longer count: some events, and all of a person.
    uuids = [each["uuid"] for each in events if "uuid" in each][::7]
    post(clients[0], "/events/delete/", {"uuids": uuids}, 200)
    person = clients[0].get(f"{PROJECT}/persons/", params={"distinct_id": "p3"}).json()
    uuid = person["results"][0]["uuid"]
    gone = clients[0].delete(f"{PROJECT}/persons/{uuid}/", params={"delete_events": "true"})
    assert gone.status_code in (202, 204), gone.text
    send(clients[-1], list(random_events(source, 30)))
    some = {name: cohorts[name] for name in ("often", "first", "action")}
    assert find_disagreements(clients, some) == []
    # A changed action counts other events, also stored ones. So do all events of a name that are
    # deleted. Until that is done, flags use what was counted before.
    steps = [{"event": "b", "url": "shop%cart", "url_matching": "contains"}, {"event": "c"}]
    changed = clients[0].patch(f"{PROJECT}/actions/{action['id']}/", json={"steps": steps})
    assert changed.status_code == 200, changed.text
    post(clients[0], "/events/delete/", {"event": "a"}, 200)
    send(clients[0], list(random_events(source, 30)))
    wait_for(lambda: not any(map(is_calculating, clients)), TIMEOUT_S)
    wait_for(lambda: find_disagreements(clients, some) == [], TIMEOUT_S)


def test_a_decision_sees_acknowledged_events(clients: Clients) -> None:
    """Whichever process takes the event, and whichever decides."""
    here, there = clients[0], clients[-1]
    create_flag(here, "clicks", create_cohort(here, "clicks", at_least(3, "click")))
    wait_for(lambda: "clicks" in decide(there, "anyone"), TIMEOUT_S)
    for number in range(4):
        known, anonymous = f"known-{number}", f"anonymous-{number}"
        for client, id in ((here, anonymous), (there, known), (here, known)):
            assert decide(client, known)["clicks"] is False
            send(client, [build_event(id, "click", timedelta())])
        assert decide(there, known)["clicks"] is False
        merge = build_event(known, "$identify", timedelta(), **{"$anon_distinct_id": anonymous})
        send(there, [merge])
        assert decide(here, known)["clicks"] is decide(there, anonymous)["clicks"] is True


def is_calculating(client: httpx.Client) -> bool:
    found = client.get(f"{PROJECT}/cohorts/").json()["results"]
    return any(each["is_calculating"] for each in found)
