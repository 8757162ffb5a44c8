"""A flag at an earlier time: the value that `/decide` gave then, from the activity log and the
events."""

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from hedgerow.lib.clock import format_iso, utc_now
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, Installation, LiveServer

FLAGS = "/api/projects/1/feature_flags/"
COHORTS = "/api/projects/1/cohorts/"


@pytest.fixture(scope="module")
def server(installation: Installation) -> Iterator[LiveServer]:
    with installation.server() as opened:
        yield opened


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


def create(client: httpx.Client, path: str, **fields: Any) -> int:
    response = client.post(path, json=fields)
    assert response.status_code == 201, response.text
    id: int = response.json()["id"]
    return id


def change(client: httpx.Client, path: str, **fields: Any) -> None:
    response = client.patch(path, json=fields)
    assert response.status_code == 200, response.text


def capture(client: httpx.Client, who: str, event: str, **properties: Any) -> None:
    body = {"api_key": PROJECT_KEY, "event": event, "distinct_id": who, "properties": properties}
    assert client.post("/capture/", json=body).status_code == 200


def set_properties(client: httpx.Client, who: str, **properties: Any) -> None:
    capture(client, who, "seen", **{"$set": properties})


def decide(client: httpx.Client, who: str, key: str, **groups: str) -> Any:
    body = {"api_key": PROJECT_KEY, "distinct_id": who, "groups": groups}
    return client.post("/decide?v=3", json=body).json()["featureFlags"].get(key)


def mark() -> str:
    """Return a time between two changes: none happens at the same moment."""
    time.sleep(0.01)
    now = format_iso(utc_now())
    time.sleep(0.01)
    return now


def ask(client: httpx.Client, key: str | int, who: str, at: str, **fields: Any) -> httpx.Response:
    body = {"distinct_id": who, "timestamp": at, **fields}
    return client.post(f"{FLAGS}{key}/test_evaluation/", json=body)


def with_plan(plan: str, rollout: int = 100, *others: Any) -> dict[str, Any]:
    own = {"key": "plan", "type": "person", "value": plan, "operator": "exact"}
    return {"groups": [{"properties": [own, *others], "rollout_percentage": rollout}]}


def test_values_are_those_of_then(client: httpx.Client) -> None:
    """Random changes of flags, a cohort, persons and a group, each followed by the real values."""
    chance = random.Random(17)
    cohort = create(client, COHORTS, name="paying", filters={"properties": _define_cohort("pro")})
    in_cohort = {"key": "id", "type": "cohort", "value": cohort, "operator": "in"}
    needed = create(client, FLAGS, key="needed", filters=with_plan("pro"))
    ids = {
        "by-plan": create(client, FLAGS, key="by-plan", filters=with_plan("free", 60)),
        "by-cohort": create(client, FLAGS, key="by-cohort", filters=_with_filter(in_cohort)),
        "by-flag": create(
            client,
            FLAGS,
            key="by-flag",
            filters=_with_filter(
                {"key": str(needed), "type": "flag", "value": True, "operator": "flag_evaluates_to"}
            ),
        ),
    }
    persons = ["hist-ann", "hist-bob", "hist-cleo"]
    history: list[tuple[str, dict[tuple[str, str], Any]]] = []
    for _ in range(14):
        who, plan = chance.choice(persons), chance.choice(["free", "pro"])
        match chance.randrange(5):
            case 0:
                change(client, f"{FLAGS}{ids['by-plan']}/", filters=with_plan(plan, 70))
            case 1:
                change(client, f"{COHORTS}{cohort}/", filters={"properties": _define_cohort(plan)})
            case 2:
                change(client, f"{FLAGS}{ids['by-cohort']}/", active=chance.random() < 0.5)
            case 3:
                change(client, f"{FLAGS}{needed}/", filters=with_plan(plan))
            case _:
                set_properties(client, who, plan=plan)
        values = {(who, key): decide(client, who, key) for who in persons for key in ids}
        history.append((mark(), values))
    assert len({json.dumps(list(values.values())) for _, values in history}) > 3
    for at, values in history:
        for (who, key), value in values.items():
            found = ask(client, key, who, at)
            assert found.status_code == 200, found.text
            assert found.json()["result"] == value, (at, who, key, found.json())


def _define_cohort(plan: str) -> dict[str, Any]:
    leaf = {"key": "plan", "type": "person", "value": plan, "operator": "exact"}
    return {"type": "AND", "values": [{"type": "AND", "values": [leaf]}]}


def _with_filter(filter: dict[str, Any]) -> dict[str, Any]:
    return {"groups": [{"properties": [filter], "rollout_percentage": 100}]}


def test_a_login_counts_from_its_time_on(client: httpx.Client) -> None:
    create(client, FLAGS, key="paid-only", filters=with_plan("paid"))
    set_properties(client, "hist-user", plan="paid")
    capture(client, "hist-anonymous", "seen")
    assert decide(client, "hist-anonymous", "paid-only") is False
    before = mark()
    capture(client, "hist-user", "$identify", **{"$anon_distinct_id": "hist-anonymous"})
    assert decide(client, "hist-anonymous", "paid-only") is True
    after = mark()
    set_properties(client, "hist-user", plan="free")
    assert decide(client, "hist-anonymous", "paid-only") is False
    results = [
        ask(client, "paid-only", "hist-anonymous", at).json()["result"] for at in (before, after)
    ]
    assert results == [False, True]
    assert ask(client, "paid-only", "hist-user", before).json()["result"] is True


def test_groups_have_the_properties_of_then(client: httpx.Client) -> None:
    properties = {"$group_type": "firm", "$group_key": "acme", "$group_set": {"size": 1}}
    capture(client, "hist-ann", "$groupidentify", **properties)
    filters = {
        "aggregation_group_type_index": 0,
        "groups": [
            {
                "properties": [
                    {"key": "size", "type": "group", "group_type_index": 0, "value": 1,
                     "operator": "exact"}
                ],
                "rollout_percentage": 100,
            }
        ],
    }  # fmt: skip
    assert decide(client, "hist-ann", "none", firm="acme") is None  # waits for the group type
    create(client, FLAGS, key="small-firms", filters=filters)
    assert decide(client, "hist-ann", "small-firms", firm="acme") is True
    small = mark()
    capture(client, "hist-ann", "$groupidentify", **{**properties, "$group_set": {"size": 900}})
    assert decide(client, "hist-ann", "small-firms", firm="acme") is False
    large = mark()
    groups = {"firm": "acme"}
    assert ask(client, "small-firms", "hist-ann", small, groups=groups).json()["result"] is True
    assert ask(client, "small-firms", "hist-ann", large, groups=groups).json()["result"] is False
    wrong = ask(client, "small-firms", "hist-ann", large, groups={"nope": "x"})
    assert (wrong.status_code, wrong.json()["attr"]) == (400, "groups")


def test_deleted_flags_and_keys_of_then(client: httpx.Client) -> None:
    start = mark()
    id = create(client, FLAGS, key="old-name", filters=with_plan("free"))
    named = mark()
    change(client, f"{FLAGS}{id}/", key="new-name")
    assert client.delete(f"{FLAGS}{id}/").status_code == 204
    gone = mark()
    found = ask(client, "old-name", "nobody", named)
    assert (found.status_code, found.json()["flag_changes_since"]) == (200, 2)
    assert ask(client, id, "nobody", named).json()["flag_key"] == "old-name"
    for at, detail in ((start, "did not exist"), (gone, "was deleted")):
        refused = ask(client, id, "nobody", at)
        assert (refused.status_code, refused.json()["attr"]) == (400, "timestamp")
        assert detail in refused.json()["detail"]
    assert ask(client, "no-such-flag", "nobody", named).status_code == 404


def test_what_cannot_be_known_is_said(client: httpx.Client) -> None:
    members = create(client, COHORTS, name="listed", is_static=True)
    create(
        client,
        FLAGS,
        key="unsure",
        filters=with_plan(
            "pro", 100, {"key": "id", "type": "cohort", "value": members, "operator": "in"}
        ),
    )
    set_properties(client, "hist-edited", plan="free")
    decide(client, "hist-edited", "unsure")
    before = mark()
    person = client.get("/api/projects/1/persons/?distinct_id=hist-edited").json()["results"][0]
    path = f"/api/projects/1/persons/{person['uuid']}/"
    change(client, path, properties={"plan": "pro"})
    edited = mark()
    set_properties(client, "hist-edited", other=1)
    decide(client, "hist-edited", "unsure")
    notes = ask(client, "unsure", "hist-edited", edited).json()["notes"]
    assert any("static cohort" in note and "listed" in note for note in notes)
    assert any("changed over the API" in note and "plan" in note for note in notes)
    notes = ask(client, "unsure", "hist-edited", before).json()["notes"]
    assert not any("changed over the API" in note for note in notes)
    [_, unknown] = ask(client, "unsure", "hist-never-seen", edited).json()["notes"]
    assert "No event of this distinct id" in unknown


def test_invalid_requests_name_the_field(client: httpx.Client) -> None:
    create(client, FLAGS, key="asked", filters=with_plan("free"))
    path = f"{FLAGS}asked/test_evaluation/"
    for body, attr in (
        ({}, "distinct_id"),
        ({"distinct_id": "a", "person_id": "b"}, "distinct_id"),
        ({"distinct_id": "a", "timestamp": "someday"}, "timestamp"),
        ({"distinct_id": "a", "timestamp": "2999-01-01"}, "timestamp"),
        ({"distinct_id": "a", "at": "-1d"}, "at"),
    ):
        response = client.post(path, json=body)
        assert (response.status_code, response.json()["attr"]) == (400, attr), response.text
    assert client.post(path, json={"person_id": "x"}).status_code == 404


def test_the_command_asks_the_service_or_reads_the_data(
    installation: Installation, server: LiveServer, client: httpx.Client
) -> None:
    create(client, FLAGS, key="on-the-line", filters=with_plan("pro"))
    set_properties(client, "hist-line", plan="pro")
    assert decide(client, "hist-line", "on-the-line") is True
    at = mark()
    change(client, f"{FLAGS}on-the-line/", active=False)
    set_properties(client, "hist-line", plan="free")
    assert decide(client, "hist-line", "on-the-line") is False
    command = ("flags", "evaluate", "on-the-line", "hist-line", "--at", at)
    keyed = ("--server", server.address, "--key", PERSONAL_KEY)
    done = installation.run_in_process(*command, *keyed)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == 'on-the-line for "hist-line"'
    assert lines[1].endswith("the flag has changed 1 time(s) since")
    assert "  value    true" in lines
    assert '  yes  person plan exact "pro": "pro" (stored)' in lines
    found = json.loads(installation.run_in_process(*command, *keyed, "--json").stdout)
    assert (found["value"], found["flag_changes_since"], found["notes"]) == (True, 1, [])
    refused = installation.run_in_process(*command)
    assert (refused.returncode, "HEDGEROW_PERSONAL_KEY" in refused.stderr) == (1, True)
    server.stop()
    here = installation.run_in_process(*command)
    assert here.returncode == 0, here.stderr
    assert here.stdout == done.stdout
