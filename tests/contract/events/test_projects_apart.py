"""Two projects with the same ids everywhere: nothing that one asks shows a byte of the other."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.live import LiveServer

UUID = "0199aaaa-0000-7000-8000-0000000000"
NAMES = ("ours", "theirs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    client: httpx.Client
    ours: int
    cohorts: dict[str, int]
    persons: dict[str, list[str]]

    def text(self, path: str = "", **parameters: Any) -> str:
        answer = self.client.get(f"/api/projects/{self.ours}/events/{path}", params=parameters)
        assert answer.status_code in (200, 400, 404), answer.text
        return answer.text


@pytest.fixture(scope="module")
def world(live: LiveServer) -> Iterator[Mirrored]:
    ids: dict[str, int] = {}
    cohorts: dict[str, int] = {}
    persons: dict[str, list[str]] = {}
    with live.client() as client:
        for name in NAMES:
            made = client.post("/api/projects/", json={"name": name}).json()
            ids[name], root = made["id"], f"/api/projects/{made['id']}/"
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
            sent = client.post("/batch/", json={"api_key": made["api_token"], "batch": batch})
            assert sent.json() == {"status": 1}
            client.get(f"{root}events/")  # waits until they are there
            static = {"name": f"of-{name}", "is_static": True}
            cohorts[name] = client.post(f"{root}cohorts/", json=static).json()["id"]
            members = {"csv": "id-1\nid-2"}
            client.patch(f"{root}cohorts/{cohorts[name]}/", json=members)
            listed = client.get(f"{root}persons/").json()["results"]
            persons[name] = [each["uuid"] for each in listed]
        yield Mirrored(client=client, ours=ids["ours"], cohorts=cohorts, persons=persons)


def properties(**filter: Any) -> dict[str, str]:
    return {"properties": json.dumps([filter])}


QUESTIONS: list[dict[str, Any]] = [
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


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_no_question_shows_the_other_project(world: Mirrored, question: dict[str, Any]) -> None:
    text = world.text(**question)
    assert "of-theirs" not in text
    assert "only-theirs" not in text
    assert not any(uuid in text for uuid in world.persons["theirs"])


def test_the_same_questions_do_show_ours(world: Mirrored) -> None:
    assert "of-ours" in world.text()
    assert "only-ours" in world.text(format="csv")
    assert "of-ours" in world.text(select='["*", "person"]')
    assert "of-ours" in world.text(select='["(select groupArray(properties) from persons)"]')


def test_counts_are_ours_alone(world: Mirrored) -> None:
    def counted(expression: str) -> Any:
        found = json.loads(world.text(select=json.dumps([expression])))
        return found["results"][0][0]

    assert counted("count()") == 6
    assert counted("uniq(team_id)") == 1
    assert counted("(select count() from persons)") == 5
    assert counted("(select count() from person_distinct_ids)") == 5
    assert counted("(select count() from groups)") == 1
    assert counted("(select count() from cohort_people)") == 2
    assert counted("(select count() from events as a join events as b on a.uuid = b.uuid)") == 6


def test_the_others_ids_mean_nothing_here(world: Mirrored) -> None:
    theirs, ours = world.cohorts["theirs"], world.cohorts["ours"]
    found = properties(key="id", type="cohort", value=ours)
    assert len(json.loads(world.text(**found))["results"]) == 2
    for question in (
        properties(key="id", type="cohort", value=theirs),
        {"where": f"person_id in cohort {theirs}"},
        {"where": "person_id in cohort 'of-theirs'"},
    ):
        assert json.loads(world.text(**question))["code"] == "cohort_does_not_exist"
    for uuid in world.persons["theirs"]:
        assert json.loads(world.text(person_id=uuid))["results"] == []
    assert json.loads(world.text(f"{uuid4()}/"))["code"] == "not_found"
    assert "of-theirs" not in world.text(f"{UUID}01/")


def test_values_are_ours_alone(world: Mirrored) -> None:
    for key in ("secret", "custom_event", "only-theirs", "$set"):
        assert "theirs" not in world.text("values/", key=key)
    assert "theirs" not in world.text("values/", key="event", is_column="true")
