"""posthog-python and posthog-node, of today and of the time of /decide?v=3, and a live server."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.sdk.driven import EDGE, PER_EVENT, SDKS, Driven, Sdk
from tests.live import PROJECT_KEY, LiveServer

FLAGS = "/api/projects/1/feature_flags/"
EVERYBODY = {"properties": [], "rollout_percentage": 100}
PRO = {"key": "plan", "type": "person", "operator": "exact", "value": ["pro"]}
VARIANTS = [
    {"key": "control", "rollout_percentage": 50},
    {"key": "test", "rollout_percentage": 50},
]
PEOPLE = [f"person-{n}" for n in range(20)]
PLANS = ("pro", "free")


def definitions(testers: int, pros: int) -> dict[str, dict[str, Any]]:
    def cohort(id: int) -> dict[str, Any]:
        return {"key": "id", "type": "cohort", "operator": "in", "value": id}

    return {
        "everybody": {"groups": [EVERYBODY], "payloads": {"true": '{"colour": "red"}'}},
        "nobody": {"groups": [{"properties": [], "rollout_percentage": 0}]},
        "half": {"groups": [{"properties": [], "rollout_percentage": 50}]},
        "pros": {"groups": [{"properties": [PRO], "rollout_percentage": 60}]},
        "shades": {
            "groups": [{"properties": [], "rollout_percentage": 80}],
            "multivariate": {"variants": VARIANTS},
            "payloads": {"control": "1", "test": '["two"]'},
        },
        "in-cohort": {"groups": [{"properties": [cohort(pros)], "rollout_percentage": 100}]},
        "listed": {"groups": [{"properties": [cohort(testers)], "rollout_percentage": 100}]},
        "companies": {
            "groups": [
                {
                    "properties": [
                        {
                            "key": "size",
                            "type": "group",
                            "group_type_index": 0,
                            "operator": "gt",
                            "value": 10,
                        }
                    ],
                    "rollout_percentage": 100,
                }
            ],
            "aggregation_group_type_index": 0,
        },
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("sdk")) as server:
        yield server


@pytest.fixture(scope="module")
def admin(server: LiveServer) -> Iterator[httpx.Client]:
    """The server with the flags that clients ask for."""
    with server.client() as client:

        def made(path: str, body: dict[str, Any]) -> Any:
            answer = client.post(f"/api/projects/1/{path}/", json=body)
            assert answer.status_code == 201, answer.text
            return answer.json()

        made(
            "groups",
            {"group_type": "company", "group_key": "acme", "group_properties": {"size": 50}},
        )
        made("persons", {"distinct_ids": ["person-3"], "properties": {"plan": "free"}})
        listed = client.post(
            "/api/projects/1/cohorts/",
            data={"name": "Testers", "is_static": "true"},
            files={"csv": ("testers.csv", "distinct_id\nperson-3\n")},
        )
        testers = listed.json()["id"]
        question = {"properties": {"type": "OR", "values": [PRO]}}
        pros = made("cohorts", {"name": "Pros", "filters": question})["id"]
        for key, filters in definitions(testers, pros).items():
            made("feature_flags", {"key": key, "filters": filters})
        remote = {"groups": [EVERYBODY], "payloads": {"true": '{"uploads": 3}'}}
        sealed = {"is_remote_configuration": True, "has_encrypted_payloads": True}
        made("feature_flags", {"key": "limits", "filters": remote, **sealed})
        yield client


@pytest.fixture(scope="module")
def secret(admin: httpx.Client) -> str:
    answer = admin.patch("/api/projects/1/rotate_secret_token/")
    return str(answer.json()["secret_api_token"])


@pytest.fixture(scope="module", params=(*SDKS, EDGE), ids=lambda sdk: sdk.name)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    found: Sdk = request.param
    return found


@pytest.fixture(scope="module")
def remote(sdk: Sdk, server: LiveServer, admin: httpx.Client) -> Iterator[Driven]:
    """A client that asks the server for everything."""
    with sdk.driven() as client:
        version = client.open(host=server.address, token=PROJECT_KEY, secret=None)
        assert version.startswith(sdk.version)
        yield client


@pytest.fixture(scope="module")
def local(sdk: Sdk, server: LiveServer, admin: httpx.Client, secret: str) -> Iterator[Driven]:
    """A client that evaluates flags by itself."""
    with sdk.driven() as client:
        client.open(host=server.address, token=PROJECT_KEY, secret=secret)
        yield client


def decided(admin: httpx.Client, id: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    body = {"api_key": PROJECT_KEY, "distinct_id": id, **more}
    answer = admin.post("/decide?v=3", json=body).json()
    return answer["featureFlags"], answer["featureFlagPayloads"]


def events_of(admin: httpx.Client, id: str) -> dict[str, dict[str, Any]]:
    answer = admin.get("/api/projects/1/events/", params={"distinct_id": id, "limit": 500})
    assert answer.status_code == 200, answer.text
    return {event["event"]: event for event in answer.json()["results"]}


def person_of(admin: httpx.Client, id: str) -> dict[str, Any]:
    [person] = admin.get("/api/projects/1/persons/", params={"distinct_id": id}).json()["results"]
    found: dict[str, Any] = person
    return found


def test_values_variants_and_payloads_are_those_of_the_server(
    remote: Driven, sdk: Sdk, admin: httpx.Client
) -> None:
    person = {"plan": "pro"}
    seen: set[Any] = set()
    for id in PEOPLE[:12]:
        values, payloads = decided(admin, id, person_properties=person)
        told, told_payloads = remote.everything(id=id, person=person)
        # Some leave out what is off.
        assert {key: value for key, value in told.items() if value is not False} == {
            key: value for key, value in values.items() if value is not False
        }
        assert told_payloads.keys() == payloads.keys()
        seen |= {values["shades"], values["half"]}
        assert remote.flag(key="shades", id=id, person=person) == values["shades"]
    assert seen >= {"control", "test", True, False}
    payload = remote.payload(key="everybody", id="person-1")
    # The python of old leaves the reading of it to the app.
    is_text = sdk.is_python and sdk.is_old
    assert payload == ('{"colour": "red"}' if is_text else {"colour": "red"})
    assert remote.flag(key="nobody", id="person-1") is False
    acme = {"groups": {"company": "acme"}}
    assert remote.flag(key="companies", id="person-1", **acme) is True
    assert remote.flag(key="companies", id="person-1", groups={"company": "tiny"}) is False
    assert remote.flag(key="listed", id="person-3") is True
    assert remote.flag(key="listed", id="person-4") is False


def test_flags_evaluated_together_are_those_of_the_server(
    remote: Driven, local: Driven, sdk: Sdk, admin: httpx.Client
) -> None:
    """The newer way to ask, which older clients do not have."""
    if sdk.is_old:
        pytest.skip("this version of the client has no such call")
    person = {"plan": "pro"}
    for id in ("person-2", "person-3"):
        values, payloads = decided(admin, id, person_properties=person)
        for client in (remote, local):
            found = client.evaluated(id=id, person=person)
            told = {key: value for key, (value, _) in found.items() if key != "limits"}
            assert told == {key: value for key, value in values.items() if key in told}
            assert told.keys() >= {"everybody", "half", "listed", "pros", "shades"}
            assert {key for key, (_, payload) in found.items() if payload is not None} == set(
                payloads
            )


def test_local_evaluation_agrees_with_the_server(
    local: Driven, remote: Driven, admin: httpx.Client
) -> None:
    keys = ("everybody", "nobody", "half", "pros", "shades", "in-cohort")
    counts: Counter[Any] = Counter()
    for number, id in enumerate(PEOPLE):
        person = {"plan": PLANS[number % 2]}
        values, _ = decided(admin, id, person_properties=person)
        for key in keys:
            found = local.flag(key=key, id=id, local=True, person=person)
            assert found == values[key], (key, id)
            counts[key, found] += 1
    assert len(counts) >= 11  # every value of every flag was met
    for id in PEOPLE[:6]:
        assert local.payload(key="shades", id=id) == remote.payload(key="shades", id=id), id
    for size, is_in in ((9, False), (11, True)):
        group = {"groups": {"company": "acme"}, "group_properties": {"company": {"size": size}}}
        assert local.flag(key="companies", id="x", local=True, **group) is is_in


def test_what_cannot_be_known_locally_is_asked_of_the_server(local: Driven) -> None:
    assert local.flag(key="listed", id="person-3", local=True) is None
    assert local.flag(key="listed", id="person-3") is True
    assert local.flag(key="listed", id="person-4") is False


def test_a_remote_configuration_comes_in_the_clear(local: Driven) -> None:
    assert local.remote_config(key="limits") in ('{"uploads": 3}', {"uploads": 3})


def test_definitions_are_read_again_when_they_change(
    local: Driven, sdk: Sdk, admin: httpx.Client
) -> None:
    key = f"late-{sdk.name.replace(' ', '-')}"
    assert local.flag(key=key, id="x", local=True) is None
    made = admin.post(FLAGS, json={"key": key, "filters": {"groups": [EVERYBODY]}}).json()
    local.reload()
    assert local.flag(key=key, id="x", local=True) is True
    local.reload()  # nothing has changed: what it had is still there
    assert local.flag(key=key, id="x", local=True) is True
    admin.patch(f"{FLAGS}{made['id']}/", json={"active": False})
    local.reload()
    assert local.flag(key=key, id="x", local=True) is False


def test_events_persons_and_groups_arrive(remote: Driven, sdk: Sdk, admin: httpx.Client) -> None:
    id, before = f"{sdk.name} user", f"{sdk.name} visitor"
    remote.capture(id=before, event="seen", properties={"page": "/", "n": 1, "list": [1, "a"]})
    remote.identify(id=id, properties={"email": "ann@example.com", "plan": "pro"})
    remote.alias(before=before, id=id)
    remote.group(type="company", key=f"{sdk.name} ltd", properties={"size": 7})
    grouped = {"company": f"{sdk.name} ltd"}
    remote.capture(id=id, event="bought", properties={"total": 12.5}, groups=grouped)
    assert remote.flag(key="shades", id=id) == remote.flag(key="shades", id=id)
    assert remote.flush() == []
    events = events_of(admin, id)
    assert events["bought"]["properties"]["total"] == 12.5
    assert events["bought"]["properties"]["$groups"] == grouped
    assert events["bought"]["properties"]["$lib"] == sdk.library
    called = events["$feature_flag_called"]["properties"]
    assert called["$feature_flag"] == "shades"
    assert called["$feature_flag_response"] == decided(admin, id)[0]["shades"]
    seen = events_of(admin, before)["seen"]
    assert {name: seen["properties"][name] for name in ("page", "n", "list")} == {
        "page": "/",
        "n": 1,
        "list": [1, "a"],
    }
    person = person_of(admin, id)
    assert person["properties"]["email"] == "ann@example.com"
    assert set(person["distinct_ids"]) >= {id, before}
    assert person_of(admin, before)["uuid"] == person["uuid"]
    groups = admin.get("/api/projects/1/groups/", params={"group_type_index": 0}).json()["results"]
    sizes = {each["group_key"]: each["group_properties"].get("size") for each in groups}
    assert sizes[f"{sdk.name} ltd"] == 7


@pytest.mark.parametrize("sdk", PER_EVENT, ids=lambda sdk: sdk.name)
def test_the_newer_doors_for_events_are_open(
    sdk: Sdk, server: LiveServer, admin: httpx.Client
) -> None:
    id, before = f"{sdk.name} user", f"{sdk.name} visitor"
    with sdk.driven() as client:
        client.open(host=server.address, token=PROJECT_KEY, secret=None)
        client.capture(id=before, event="seen", properties={"page": "/"})
        client.identify(id=id, properties={"plan": "pro"})
        client.alias(before=before, id=id)
        client.capture_ai(id=id, event="$ai_generation", properties={"$ai_model": "small"})
        assert client.flush() == []
    seen = events_of(admin, before)["seen"]["properties"]
    assert (seen["page"], seen["$lib"]) == ("/", f"posthog-{sdk.name.split()[0]}")
    assert events_of(admin, id)["$ai_generation"]["properties"]["$ai_model"] == "small"
    person = person_of(admin, id)
    assert person["properties"]["plan"] == "pro"
    assert set(person["distinct_ids"]) == {id, before}
    lines = admin.get("/metrics").text.splitlines()
    for path in (sdk.captures_at, "/i/v0/ai/batch"):
        assert any(path.rstrip("/") in line for line in lines), path
