"""Cohorts as filters on events: the persons whom flags would find in them, too."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.live import LiveServer

PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {"plan": "Pro", "age": 31, "active": True},
    "bob": {"plan": "free", "age": 17},
    "cid": {"plan": "pro", "age": "40", "version": "1.2.3-rc.1"},
    "dot": {"active": False, "age": None, "version": "1.3.0"},
    "eve": {},
}
PRO = {"key": "plan", "type": "person", "operator": "exact", "value": "pro"}
ADULT = {"key": "age", "type": "person", "operator": "gte", "value": 18}


def group(kind: str, *values: Any) -> dict[str, Any]:
    return {"type": kind, "values": list(values)}


def person(key: str, operator: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {"key": key, "type": "person", "operator": operator, "value": value, **more}


DEFINITIONS: dict[str, Any] = {
    "one filter": group("AND", PRO),
    "all of several": group("AND", PRO, ADULT),
    "any of several": group("OR", PRO, person("age", "lt", 18)),
    "groups in groups": group(
        "OR", group("AND", PRO, ADULT), group("AND", person("age", "is_set"))
    ),
    "a negated filter": group("AND", {**PRO, "negation": True}),
    "a negated group's part": group("OR", {**PRO, "negation": True}, ADULT),
    "not set": group("AND", person("plan", "is_not_set")),
    "set to null": group("AND", person("age", "is_set")),
    "true": group("AND", person("active", "exact", ["true"])),
    "false is what is not true": group("AND", person("active", "exact", "false")),
    "is not": group("AND", person("plan", "is_not", "free")),
    "a range of versions": group("AND", person("version", "semver_gt", "1.2.3-rc.0")),
    "a pattern": group("AND", person("plan", "regex", "^p")),
    "nobody asks": group("AND"),
    "in another": group("AND", {"type": "cohort", "key": "id", "value": "{pros}"}),
    "not in another": group(
        "AND", {"type": "cohort", "key": "id", "value": "{pros}", "negation": True}
    ),
    "out of another": group(
        "OR", {"type": "cohort", "key": "id", "value": "{pros}", "operator": "not_in"}
    ),
    "in a list": group("AND", {"type": "cohort", "key": "id", "value": "{list}"}, ADULT),
}


class World:
    def __init__(self, client: httpx.Client) -> None:
        made = client.post("/api/projects/", json={"name": "Cohorts"}).json()
        self._client, self._root = client, f"/api/projects/{made['id']}/"
        batch = [
            {"event": "seen", "distinct_id": name, "properties": {"$set": properties}}
            for name, properties in PEOPLE.items()
        ]
        sent = client.post("/batch/", json={"api_key": made["api_token"], "batch": batch})
        assert sent.json() == {"status": 1}
        self.events_where({})
        self.known = {"pros": self.cohort(group("AND", PRO)), "list": self.listed("ann", "bob")}

    def cohort(self, definition: Any) -> int:
        body = {"name": "A question", "filters": {"properties": definition}}
        return self._made(body)

    def listed(self, *ids: str) -> int:
        id = self._made({"name": "A list", "is_static": True})
        body = {"csv": "\n".join(ids)}
        assert self._client.patch(f"{self._root}cohorts/{id}/", json=body).status_code == 200
        return id

    def _made(self, body: Any) -> int:
        answer = self._client.post(f"{self._root}cohorts/", json=body)
        assert answer.status_code == 201, answer.text
        id: int = answer.json()["id"]
        return id

    def events_where(self, parameters: Any) -> list[str]:
        answer = self._client.get(f"{self._root}events/", params=parameters)
        assert answer.status_code == 200, answer.text
        return sorted(each["distinct_id"] for each in answer.json()["results"])

    def persons_in(self, cohort: int) -> list[str]:
        """As flags find them, walking over everybody in Python."""
        answer = self._client.get(f"{self._root}persons/", params={"cohort": cohort})
        assert answer.status_code == 200, answer.text
        return sorted(each["distinct_ids"][0] for each in answer.json()["results"])

    def filled(self, definition: Any) -> Any:
        if isinstance(definition, dict):
            return {name: self.filled(each) for name, each in definition.items()}
        if isinstance(definition, list):
            return [self.filled(each) for each in definition]
        return (
            self.known.get(definition[1:-1], definition)
            if isinstance(definition, str)
            else definition
        )


@pytest.fixture(scope="module")
def world(live: LiveServer) -> Iterator[World]:
    with live.client() as client:
        yield World(client)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_cohort_holds_the_same_persons_everywhere(world: World, name: str) -> None:
    id = world.cohort(world.filled(DEFINITIONS[name]))
    expected = world.persons_in(id)
    filter = f'[{{"key": "id", "type": "cohort", "value": {id}}}]'
    assert world.events_where({"properties": filter}) == expected
    assert world.events_where({"where": f"person_id in cohort {id}"}) == expected
    others = sorted(set(PEOPLE) - set(expected))
    filter = f'[{{"key": "id", "type": "cohort", "value": {id}, "operator": "not_in"}}]'
    assert world.events_where({"properties": filter}) == others
    assert world.events_where({"where": f"person_id not in cohort {id}"}) == others


def test_cohorts_differ(world: World) -> None:
    """The table above holds no question that all cohorts answer alike."""
    found = {str(world.persons_in(world.cohort(world.filled(d)))) for d in DEFINITIONS.values()}
    assert len(found) >= 8
