"""`flag('key')` in HogQL has for each event the value that `/decide` gives its distinct id."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.insights.world import QUERY, send
from tests.support.live import PROJECT_KEY, LiveServer

API = "/api/projects/1"
IDS = [
    *(f"user-{n}" for n in range(30)),
    "tab\there",
    "back\\slash",
    "line\nbreak",
    "Größe 🌿",
    "'",
]
PERSONLESS = [f"visitor-{n}" for n in range(10)]
COMPANIES = ["acme", "globex", "initech", "1:a"]


def condition(*properties: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"properties": list(properties), "rollout_percentage": 100, **fields}


def prop(key: str, value: Any, operator: str = "exact", **fields: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "person", **fields}


def of_group(key: str, value: Any, operator: str = "exact") -> dict[str, Any]:
    return prop(key, value, operator, type="group", group_type_index=0)


VARIANTS = {
    "variants": [
        {"key": "control", "rollout_percentage": 30},
        {"key": "test", "rollout_percentage": 50},
        {"key": "late one", "rollout_percentage": 20},
    ]
}
FLAGS: dict[str, dict[str, Any]] = {
    "half": {"groups": [condition(rollout_percentage=50)]},
    "variants": {"groups": [condition(rollout_percentage=80)], "multivariate": VARIANTS},
    "forced": {
        "groups": [condition(prop("plan", "pro"), variant="test"), condition()],
        "multivariate": VARIANTS,
    },
    "operators": {
        "groups": [
            condition(prop("age", 30, "gt"), prop("email", "@x.org", "icontains")),
            condition(prop("email", r"^u\w*1", "regex"), rollout_percentage=70),
            condition(prop("plan", None, "is_not_set")),
        ]
    },
    "by-id": {"groups": [condition(prop("distinct_id", "visitor", "icontains"))]},
    "holdout": {
        "groups": [condition(rollout_percentage=60)],
        "holdout": {"id": 7, "exclusion_percentage": 30},
    },
    "enrolled": {"groups": [condition(rollout_percentage=10)], "feature_enrollment": True},
    "super": {
        "groups": [condition(rollout_percentage=30)],
        "super_groups": [condition(prop("beta", "true"))],
    },
    "exit": {
        "groups": [condition(prop("plan", "pro"), rollout_percentage=20), condition()],
        "early_exit": True,
    },
    "company": {
        "groups": [condition()],
        "aggregation_group_type_index": 0,
        "multivariate": VARIANTS,
    },
    "company-size": {
        "groups": [condition(of_group("size", 10, "gt"))],
        "aggregation_group_type_index": 0,
        "multivariate": VARIANTS,
    },
    "mixed": {
        "groups": [
            condition(of_group("size", 10, "gt"), aggregation_group_type_index=0),
            condition(prop("plan", "pro"), rollout_percentage=50),
        ]
    },
    "continued": {"groups": [condition(rollout_percentage=50)]},
    "inactive": {"groups": [condition()]},
    "nothing": {"groups": [condition(rollout_percentage=0)]},
}


def create_flags(client: httpx.Client) -> None:
    cohort = client.post(
        f"{API}/cohorts/",
        json={
            "name": "pros",
            "filters": {"properties": {"type": "AND", "values": [prop("plan", "pro")]}},
        },
    ).json()["id"]
    static = client.post(
        f"{API}/cohorts/",
        json={"name": "few", "is_static": True, "csv": "\n".join(IDS[:9])},
    ).json()["id"]
    flags = FLAGS | {
        "cohorts": {
            "groups": [
                condition({"key": "id", "value": cohort, "type": "cohort"}, rollout_percentage=50),
                condition({"key": "id", "value": static, "type": "cohort"}),
            ]
        }
    }
    ids = {}
    for key, filters in flags.items():
        body = {
            "key": key,
            "filters": filters,
            "active": key != "inactive",
            "ensure_experience_continuity": key == "continued",
        }
        response = client.post(f"{API}/feature_flags/", json=body)
        assert response.status_code == 201, (key, response.text)
        ids[key] = response.json()["id"]
    needed = prop(str(ids["variants"]), "test", "flag_evaluates_to", type="flag")
    body = {"key": "depends", "filters": {"groups": [condition(needed, rollout_percentage=80)]}}
    response = client.post(f"{API}/feature_flags/", json=body)
    assert response.status_code == 201, response.text


def send_world(client: httpx.Client) -> None:
    chance = random.Random(40)
    events: list[dict[str, Any]] = []

    def add(id: str, properties: dict[str, Any], name: str = "seen") -> None:
        events.append({"event": name, "distinct_id": id, "properties": properties})

    for number, company in enumerate(COMPANIES[:3]):
        group = {
            "$group_type": "company",
            "$group_key": company,
            "$group_set": {"size": number * 9},
        }
        add("user-0", group, "$groupidentify")
    for id in IDS:
        known = {
            "plan": chance.choice(["pro", "free"]),
            "age": chance.choice([20, 40, "35"]),
            "email": f"u{chance.randint(1, 20)}@{chance.choice(['x', 'y'])}.org",
            "beta": chance.choice([True, False]),
            "$feature_enrollment/enrolled": chance.choice([True, False, "true"]),
        }
        chosen = {key: value for key, value in known.items() if chance.random() < 0.7}
        add(id, {"$set": chosen})
        if chance.random() < 0.7:
            add(id, {"$groups": {"company": chance.choice(COMPANIES)}})
    for number in range(0, 10, 2):  # merged persons
        add(f"user-{number}", {"$anon_distinct_id": f"anonymous-{number}"}, "$identify")
        add(f"anonymous-{number}", {})
    for id in PERSONLESS:
        add(id, {"$process_person_profile": False})
    send(client, *events)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("flag-values")
    settings = {}
    if request.param == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").create_migrated_database()
    with LiveServer(folder, **settings) as server, server.client() as client:
        send_world(client)
        create_flags(client)
        for number in (0, 4, 8):  # the hash keys from before a login
            body = {"distinct_id": f"user-{number}", "$anon_distinct_id": f"anonymous-{number}"}
            decide(client, **body)
        yield client


def decide(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post("/decide?v=3", json={"api_key": PROJECT_KEY, **body})
    assert response.status_code == 200, response.text
    assert not response.json()["errorsWhileComputingFlags"]
    flags: dict[str, Any] = response.json()["featureFlags"]
    return flags


def query(client: httpx.Client, text: str) -> list[list[Any]]:
    body = {"query": {"kind": "HogQLQuery", "query": text}}
    response = client.post(QUERY, json=body)
    assert response.status_code == 200, response.text
    rows: list[list[Any]] = response.json()["results"]
    return rows


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower()


def test_each_event_has_the_value_of_decide(world: httpx.Client) -> None:
    keys = [*FLAGS, "cohorts", "depends"]
    decided: dict[tuple[str, str], dict[str, Any]] = {}
    seen: dict[str, set[str]] = {}
    for start in range(0, len(keys), 5):
        chosen = keys[start : start + 5]
        columns = ", ".join(f"flag('{key}')" for key in chosen)
        rows = query(world, f"select distinct_id, $group_0, {columns} from events limit 1000")
        assert len(rows) > 80
        for id, company, *values in rows:
            if (id, company) not in decided:
                groups = {"groups": {"company": company}} if company else {}
                decided[id, company] = decide(world, distinct_id=id, **groups)
            expected = [as_text(decided[id, company].get(key, False)) for key in chosen]
            assert values == expected, (id, company, chosen)
            for key, value in zip(chosen, values, strict=True):
                seen.setdefault(key, set()).add(value)
    # The comparison is worth something: most flags have several values.
    assert {key for key in keys if len(seen[key]) == 1} == {"inactive", "nothing"}
    assert {"control", "test", "late one"} <= seen["variants"]


def test_flag_filters_groups_and_breaks_down(world: httpx.Client) -> None:
    rows = query(world, "select flag('variants'), count() from events group by 1 order by 1")
    by_name = query(
        world, "select flag('variants') as value, count() from events group by value order by value"
    )
    assert rows == by_name
    counts = dict(map(tuple, rows))
    for value, count in counts.items():
        text = f"select count() from events e where Flag('variants') = '{value}'"
        assert query(world, text) == [[count]]
    (whole,) = query(world, "select count() from events")
    assert sum(counts.values()) == whole[0]
    body = {
        "kind": "TrendsQuery",
        "series": [{"kind": "EventsNode"}],
        "trendsFilter": {"display": "BoldNumber"},
        "breakdownFilter": {"breakdown": "flag('variants')", "breakdown_type": "hogql"},
    }
    response = world.post(QUERY, json={"query": body})
    assert response.status_code == 200, response.text
    results = response.json()["results"]
    assert {each["breakdown_value"]: each["aggregated_value"] for each in results} == counts
    users = {
        "kind": "FunnelsQuery",
        "series": [{"kind": "EventsNode", "event": "seen"}],
        "properties": [{"type": "hogql", "key": "flag('half') = 'true'"}],
    }
    response = world.post(QUERY, json={"query": users})
    text = "select uniqExact(person_id) from events where event = 'seen' and flag('half') = 'true'"
    assert response.json()["results"][0]["count"] == query(world, text)[0][0]


def test_changes_are_seen_at_once(world: httpx.Client) -> None:
    body = {"key": "changing", "filters": {"groups": [condition(rollout_percentage=0)]}}
    id = world.post(f"{API}/feature_flags/", json=body).json()["id"]
    text = "select flag('changing') from events group by 1"
    assert query(world, text) == [["false"]]
    filters = {"groups": [condition(prop("moved", "yes"))]}
    world.patch(f"{API}/feature_flags/{id}/", json={"filters": filters})
    assert query(world, text) == [["false"]]
    moved = {"event": "seen", "distinct_id": "mover", "properties": {"$set": {"moved": "yes"}}}
    send(world, moved)
    assert query(world, f"{text} order by 1") == [["false"], ["true"]]
    world.delete(f"{API}/feature_flags/{id}/")
    assert refuse(world, text)["detail"].startswith("Could not find the flag 'changing'")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("select flag('absent') from events", "Could not find the flag 'absent'"),
        ("select flag(event) from events", "Expected the key of a flag"),
        ("select flag('half') from persons", "flag() needs a query of one events table"),
        ("select flag('half')", "flag() needs a query of one events table"),
        (
            "select " + ", ".join(f"flag('f{n}')" for n in range(6)) + " from events",
            "A query can have at most 5 flags",
        ),
    ],
)
def test_wrong_calls_are_refused(world: httpx.Client, text: str, detail: str) -> None:
    assert refuse(world, text)["detail"].startswith(detail)


def test_a_flag_by_device_is_refused(world: httpx.Client) -> None:
    body = {
        "key": "device",
        "filters": {"groups": [condition(rollout_percentage=50)]},
        "bucketing_identifier": "device_id",
    }
    assert world.post(f"{API}/feature_flags/", json=body).status_code == 201
    error = refuse(world, "select flag('device') from events")
    assert error["code"] == "not_supported"


def refuse(client: httpx.Client, text: str) -> dict[str, Any]:
    body = {"query": {"kind": "HogQLQuery", "query": text}}
    response = client.post(QUERY, json=body)
    assert response.status_code == 400, response.text
    found: dict[str, Any] = response.json()
    return found


# What-if: drafts of saved flags, and a new one.
DRAFTS: dict[str, dict[str, Any]] = {
    "half": {"groups": [condition(rollout_percentage=80)]},
    "forced": {"groups": [condition(prop("plan", "pro")), condition(rollout_percentage=10)]},
    "operators": {"groups": [condition(prop("age", 30, "gt"))]},
    "holdout": {"groups": [condition(rollout_percentage=90)]},
    "mixed": {"groups": [condition(prop("plan", "free"))]},
    "company-size": {
        "groups": [condition(of_group("size", 5, "gt"))],
        "aggregation_group_type_index": 0,
    },
    "continued": {"groups": [condition(rollout_percentage=90)]},
    "drafted": {"groups": [condition(prop("email", "@x.org", "icontains"))]},
}


def list_people(client: httpx.Client) -> dict[str, tuple[str, str, int]]:
    """Return the latest distinct id and company of each person, and how often it was `seen`."""
    text = (
        "select toString(person_id), distinct_id, $group_0, event from events"
        " order by timestamp, uuid limit 10000"
    )
    people: dict[str, tuple[str, str, int]] = {}
    for person, id, company, event in query(client, text):
        seen = people.get(person, ("", "", 0))[2] + (event == "seen")
        people[person] = (id, company or "", seen)
    return people


def decide_all(client: httpx.Client, people: dict[str, tuple[str, str, int]]) -> dict[str, Any]:
    return {
        person: decide(
            client, distinct_id=id, **({"groups": {"company": company}} if company else {})
        )
        for person, (id, company, _) in people.items()
    }


def test_what_if_counts_what_the_engine_decides_person_by_person(world: httpx.Client) -> None:
    people = list_people(world)
    flags = world.get(f"{API}/feature_flags/", params={"limit": 1000}).json()["results"]
    ids = {each["key"]: each["id"] for each in flags}
    plans = {
        row[0]: row[1] or "(none)"
        for row in query(world, "select toString(id), properties.plan from persons limit 1000")
    }
    before = decide_all(world, people)
    answers = {}
    for key, filters in DRAFTS.items():
        draft = {"id": ids[key]} if key in ids else {"key": key}
        body = {**draft, "filters": filters, "segment": "plan", "metric": "seen", "days": 30}
        response = world.post(f"{API}/feature_flags/what_if/", json=body)
        assert response.status_code == 200, response.text
        answers[key] = response.json()
    for key, filters in DRAFTS.items():
        path, method = f"{API}/feature_flags/", "POST"
        if key in ids:
            path, method = f"{path}{ids[key]}/", "PATCH"
        saved = world.request(method, path, json={"key": key, "filters": filters})
        assert saved.is_success, saved.text
    after = decide_all(world, people)
    for key, answer in answers.items():
        check_what_if(answer, key, people, (before, after), plans)


def check_what_if(
    answer: dict[str, Any],
    key: str,
    people: dict[str, tuple[str, str, int]],
    decided: tuple[dict[str, Any], dict[str, Any]],
    plans: dict[str, str],
) -> None:
    values = {
        person: tuple(as_text(side[person].get(key, False)) for side in decided)
        for person in people
    }
    changed = {person: pair for person, pair in values.items() if pair[0] != pair[1]}
    assert answer["is_complete"] is True
    assert (answer["total_persons"], answer["evaluated_persons"]) == (len(people), len(people))
    assert answer["changed_persons"] == len(changed) > 0, key
    for number, side in enumerate(("before", "after")):
        assert answer[side] == dict(Counter(pair[number] for pair in values.values())), key
    found = {(each["before"], each["after"]): each["persons"] for each in answer["changes"]}
    assert found == dict(Counter(changed.values()))
    for each in answer["changes"]:
        for person in each["sample"]:
            assert people[person["person_id"]][0] == person["distinct_id"]
            assert changed[person["person_id"]] == (each["before"], each["after"])
    assert answer["metric"]["changed"] == {
        "persons": sum(people[person][2] > 0 for person in changed),
        "events": sum(people[person][2] for person in changed),
    }
    segments = {each["value"]: each["changed_persons"] for each in answer["segments"]}
    expected = Counter(plans.get(person, "(none)") for person in changed)
    assert {value: count for value, count in segments.items() if count} == dict(expected)


def test_what_if_says_when_it_is_a_sample(world: httpx.Client) -> None:
    body = {"key": "sampled", "filters": {"groups": [condition()]}, "max_people": 10}
    answer = world.post(f"{API}/feature_flags/what_if/", json=body).json()
    assert (answer["evaluated_persons"], answer["changed_persons"]) == (10, 10)
    assert (answer["is_complete"], answer["stopped_by"]) == (False, "row_limit")
    assert answer["total_persons"] == len(list_people(world))
    called = {**body, "population": "evaluated"}
    nothing = world.post(f"{API}/feature_flags/what_if/", json=called).json()
    assert (nothing["total_persons"], nothing["changed_percent"]) == (0, None)
