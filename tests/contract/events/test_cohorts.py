"""Cohort filters on events match the same persons as in flags."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.live import LiveServer

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


def person(key: str, operator: str, value: Any = None, **extra: Any) -> dict[str, Any]:
    return {"key": key, "type": "person", "operator": operator, "value": value, **extra}


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
    "false matches other values than true": group("AND", person("active", "exact", "false")),
    "is not": group("AND", person("plan", "is_not", "free")),
    "a range of versions": group("AND", person("version", "semver_gt", "1.2.3-rc.0")),
    "a pattern": group("AND", person("plan", "regex", "^p")),
    "no filters": group("AND"),
    "in another": group("AND", {"type": "cohort", "key": "id", "value": "{pros}"}),
    "not in another": group(
        "AND", {"type": "cohort", "key": "id", "value": "{pros}", "negation": True}
    ),
    "out of another": group(
        "OR", {"type": "cohort", "key": "id", "value": "{pros}", "operator": "not_in"}
    ),
    "in a list": group("AND", {"type": "cohort", "key": "id", "value": "{list}"}, ADULT),
}


class CohortProject:
    def __init__(self, client: httpx.Client) -> None:
        created = client.post("/api/projects/", json={"name": "Cohorts"}).json()
        self._client, self._root = client, f"/api/projects/{created['id']}/"
        batch = [
            {"event": "seen", "distinct_id": name, "properties": {"$set": properties}}
            for name, properties in PEOPLE.items()
        ]
        sent = client.post("/batch/", json={"api_key": created["api_token"], "batch": batch})
        assert sent.json() == {"status": 1}
        self.find_events({})
        self.cohort_ids = {
            "pros": self.create_cohort(group("AND", PRO)),
            "list": self.create_static_cohort("ann", "bob"),
        }

    def create_cohort(self, definition: Any) -> int:
        body = {"name": "Dynamic", "filters": {"properties": definition}}
        return self._create(body)

    def create_static_cohort(self, *ids: str) -> int:
        id = self._create({"name": "Static", "is_static": True})
        body = {"csv": "\n".join(ids)}
        assert self._client.patch(f"{self._root}cohorts/{id}/", json=body).status_code == 200
        return id

    def _create(self, body: Any) -> int:
        response = self._client.post(f"{self._root}cohorts/", json=body)
        assert response.status_code == 201, response.text
        id: int = response.json()["id"]
        return id

    def find_events(self, parameters: Any) -> list[str]:
        response = self._client.get(f"{self._root}events/", params=parameters)
        assert response.status_code == 200, response.text
        return sorted(each["distinct_id"] for each in response.json()["results"])

    def find_members(self, cohort_id: int) -> list[str]:
        """The members that flag evaluation finds in Python."""
        response = self._client.get(f"{self._root}persons/", params={"cohort": cohort_id})
        assert response.status_code == 200, response.text
        return sorted(each["distinct_ids"][0] for each in response.json()["results"])

    def substitute(self, definition: Any) -> Any:
        if isinstance(definition, dict):
            return {name: self.substitute(each) for name, each in definition.items()}
        if isinstance(definition, list):
            return [self.substitute(each) for each in definition]
        return (
            self.cohort_ids.get(definition[1:-1], definition)
            if isinstance(definition, str)
            else definition
        )


@pytest.fixture(scope="module")
def project(live: LiveServer) -> Iterator[CohortProject]:
    with live.client() as client:
        yield CohortProject(client)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_cohort_matches_the_same_persons_everywhere(project: CohortProject, name: str) -> None:
    id = project.create_cohort(project.substitute(DEFINITIONS[name]))
    expected = project.find_members(id)
    filter = f'[{{"key": "id", "type": "cohort", "value": {id}}}]'
    assert project.find_events({"properties": filter}) == expected
    assert project.find_events({"where": f"person_id in cohort {id}"}) == expected
    others = sorted(set(PEOPLE) - set(expected))
    filter = f'[{{"key": "id", "type": "cohort", "value": {id}, "operator": "not_in"}}]'
    assert project.find_events({"properties": filter}) == others
    assert project.find_events({"where": f"person_id not in cohort {id}"}) == others


def in_cohort(id: int, **extra: Any) -> dict[str, Any]:
    return {"type": "cohort", "key": "id", "value": id, **extra}


def nest_plainly(id: int, level: int) -> Any:
    return group("AND", *[in_cohort(id)] * 4)


def nest_with_filters(id: int, level: int) -> Any:
    return group(
        "AND",
        in_cohort(id),
        group("OR", in_cohort(id), person(f"a{level}", "exact", "x")),
        group("OR", in_cohort(id, operator="not_in"), person(f"b{level}", "is_not", "x")),
        group("OR", in_cohort(id, negation=True), in_cohort(id)),
    )


@pytest.mark.parametrize("nest", [nest_plainly, nest_with_filters])
def test_nested_cohorts_are_evaluated_once(project: CohortProject, nest: Any) -> None:
    """Eleven levels that each name the previous one four times: four million paths."""
    id = project.cohort_ids["pros"]
    for level in range(11):
        id = project.create_cohort(nest(id, level))
    expected = project.find_members(id)
    assert expected == ["ann", "cid"]
    filter = f'[{{"key": "id", "type": "cohort", "value": [{id}, {id}]}}]'
    assert project.find_events({"properties": filter}) == expected
    assert project.find_events({"where": f"person_id in cohort {id}"}) == expected


def test_definitions_select_different_persons(project: CohortProject) -> None:
    """The definitions above select different persons."""
    found = {
        str(project.find_members(project.create_cohort(project.substitute(d))))
        for d in DEFINITIONS.values()
    }
    assert len(found) >= 8
