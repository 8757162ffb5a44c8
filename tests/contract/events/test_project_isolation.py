"""Two projects with identical ids: no query in one returns data of the other."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.live import LiveServer

UUID = "0199aaaa-0000-7000-8000-0000000000"
NAMES = ("ours", "theirs")


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoProjects:
    client: httpx.Client
    ours: int
    cohorts: dict[str, int]
    persons: dict[str, list[str]]

    def fetch(self, path: str = "", **parameters: Any) -> str:
        response = self.client.get(f"/api/projects/{self.ours}/events/{path}", params=parameters)
        assert response.status_code in (200, 400, 404), response.text
        return response.text


@pytest.fixture(scope="module")
def world(live: LiveServer) -> Iterator[TwoProjects]:
    ids: dict[str, int] = {}
    cohorts: dict[str, int] = {}
    persons: dict[str, list[str]] = {}
    with live.client() as client:
        for name in NAMES:
            created = client.post("/api/projects/", json={"name": name}).json()
            ids[name], root = created["id"], f"/api/projects/{created['id']}/"
            secret = {"secret": f"of-{name}", f"only-{name}": 1}
            batch = [
                {
                    "event": f"event of-{name}",
                    "distinct_id": f"id-{number}",
                    "uuid": f"{UUID}{number:02}",
                    "timestamp": "2026-01-02T03:04:05Z",
                    "properties": {
                        **secret,
                        "$set": {"email": f"of-{name}@x", **secret},
                        "$groups": {"company": f"of-{name}", "shared": "acme"},
                    },
                }
                for number in range(5)
            ]
            group = {"$group_type": "shared", "$group_key": "acme", "$group_set": secret}
            batch.append({"event": "$groupidentify", "distinct_id": "id-0", "properties": group})
            sent = client.post("/batch/", json={"api_key": created["api_token"], "batch": batch})
            assert sent.json() == {"status": 1}
            client.get(f"{root}events/")  # waits until the events are stored
            static = {"name": f"of-{name}", "is_static": True}
            cohorts[name] = client.post(f"{root}cohorts/", json=static).json()["id"]
            members = {"csv": "id-1\nid-2"}
            client.patch(f"{root}cohorts/{cohorts[name]}/", json=members)
            listed = client.get(f"{root}persons/").json()["results"]
            persons[name] = [each["uuid"] for each in listed]
        yield TwoProjects(client=client, ours=ids["ours"], cohorts=cohorts, persons=persons)


def properties(**filter: Any) -> dict[str, str]:
    return {"properties": json.dumps([filter])}


QUERIES: list[dict[str, Any]] = [
    {},
    {"format": "csv"},
    {"distinct_id": "id-1"},
    {"event": "event of-theirs"},
    {"orderBy": '["timestamp"]'},
    properties(key="secret", operator="is_set"),
    properties(key="secret", value="of-theirs"),
    properties(key="secret", value="of-theirs", type="person"),
    properties(key="secret", value="x", operator="is_not", type="person"),
    properties(key="secret", value="of-theirs", type="group", group_type_index=1),
    properties(key="secret", value="x", operator="is_not", type="group", group_type_index=1),
    properties(key="1 = 1 or team_id != 0", type="hogql"),
    properties(key="distinct_id in (select distinct_id from events)", type="hogql"),
    {"where": "team_id > 0 or 1 = 1"},
    {"where": "1 = 1) or (1 = 1"},
    {"select": '["*", "person"]'},
    {"select": '["event", "count()", "groupArray(properties)"]'},
    {"select": '["person.properties.secret", "group_1.properties.secret", "pdi.person_id"]'},
    {"select": '["(select groupArray(properties) from persons)"]'},
    {"select": '["(select groupArray(properties) from groups)", "1"]'},
    {"select": '["(select count() from person_distinct_ids)"]'},
    {"select": '["(select groupArray(tuple(cohort_id, person_id)) from cohort_people)"]'},
    {"select": '["team_id"]', "where": "team_id in (select team_id from events)"},
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_no_query_returns_data_of_the_other_project(
    world: TwoProjects, query: dict[str, Any]
) -> None:
    text = world.fetch(**query)
    assert "of-theirs" not in text
    assert "only-theirs" not in text
    assert not any(uuid in text for uuid in world.persons["theirs"])


def test_the_same_queries_return_own_data(world: TwoProjects) -> None:
    assert "of-ours" in world.fetch()
    assert "only-ours" in world.fetch(format="csv")
    assert "of-ours" in world.fetch(select='["*", "person"]')
    assert "of-ours" in world.fetch(select='["(select groupArray(properties) from persons)"]')


def test_counts_include_only_own_data(world: TwoProjects) -> None:
    def count(expression: str) -> Any:
        found = json.loads(world.fetch(select=json.dumps([expression])))
        return found["results"][0][0]

    assert count("count()") == 6
    assert count("uniq(team_id)") == 1
    assert count("(select count() from persons)") == 5
    assert count("(select count() from person_distinct_ids)") == 5
    assert count("(select count() from groups)") == 1
    assert count("(select count() from cohort_people)") == 2
    assert count("(select count() from events as a join events as b on a.uuid = b.uuid)") == 6


def test_ids_of_the_other_project_are_unknown(world: TwoProjects) -> None:
    theirs, ours = world.cohorts["theirs"], world.cohorts["ours"]
    found = properties(key="id", type="cohort", value=ours)
    assert len(json.loads(world.fetch(**found))["results"]) == 2
    for query in (
        properties(key="id", type="cohort", value=theirs),
        {"where": f"person_id in cohort {theirs}"},
        {"where": "person_id in cohort 'of-theirs'"},
    ):
        assert json.loads(world.fetch(**query))["code"] == "cohort_does_not_exist"
    for uuid in world.persons["theirs"]:
        assert json.loads(world.fetch(person_id=uuid))["results"] == []
    assert json.loads(world.fetch(f"{uuid4()}/"))["code"] == "not_found"
    assert "of-theirs" not in world.fetch(f"{UUID}01/")


def test_values_include_only_own_data(world: TwoProjects) -> None:
    for key in ("secret", "custom_event", "only-theirs", "$set"):
        assert "theirs" not in world.fetch("values/", key=key)
    assert "theirs" not in world.fetch("values/", key="event", is_column="true")
