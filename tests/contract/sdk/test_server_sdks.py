"""posthog-python and posthog-node, current and from the time of /decide?v=3, and a live server."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.sdk.sdk_process import EDGE, PER_EVENT, SDKS, Sdk, SdkProcess
from tests.support.live import PROJECT_KEY, LiveServer

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
    """The server with the flags of the tests."""
    with server.client() as client:

        def create(path: str, body: dict[str, Any]) -> Any:
            response = client.post(f"/api/projects/1/{path}/", json=body)
            assert response.status_code == 201, response.text
            return response.json()

        create(
            "groups",
            {"group_type": "company", "group_key": "acme", "group_properties": {"size": 50}},
        )
        create("persons", {"distinct_ids": ["person-3"], "properties": {"plan": "free"}})
        listed = client.post(
            "/api/projects/1/cohorts/",
            data={"name": "Testers", "is_static": "true"},
            files={"csv": ("testers.csv", "distinct_id\nperson-3\n")},
        )
        testers = listed.json()["id"]
        pro_filters = {"properties": {"type": "OR", "values": [PRO]}}
        pros = create("cohorts", {"name": "Pros", "filters": pro_filters})["id"]
        for key, filters in definitions(testers, pros).items():
            create("feature_flags", {"key": key, "filters": filters})
        remote = {"groups": [EVERYBODY], "payloads": {"true": '{"uploads": 3}'}}
        encrypted = {"is_remote_configuration": True, "has_encrypted_payloads": True}
        create("feature_flags", {"key": "limits", "filters": remote, **encrypted})
        yield client


@pytest.fixture(scope="module")
def secret(admin: httpx.Client) -> str:
    response = admin.patch("/api/projects/1/rotate_secret_token/")
    return str(response.json()["secret_api_token"])


@pytest.fixture(scope="module", params=(*SDKS, EDGE), ids=lambda sdk: sdk.name)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    found: Sdk = request.param
    return found


@pytest.fixture(scope="module")
def remote(sdk: Sdk, server: LiveServer, admin: httpx.Client) -> Iterator[SdkProcess]:
    """A client with remote evaluation."""
    with sdk.start() as client:
        version = client.open(host=server.address, token=PROJECT_KEY, secret=None)
        assert version.startswith(sdk.version)
        yield client


@pytest.fixture(scope="module")
def local(sdk: Sdk, server: LiveServer, admin: httpx.Client, secret: str) -> Iterator[SdkProcess]:
    """A client with local evaluation."""
    with sdk.start() as client:
        client.open(host=server.address, token=PROJECT_KEY, secret=secret)
        yield client


def evaluate_flags(
    admin: httpx.Client, id: str, **options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    body = {"api_key": PROJECT_KEY, "distinct_id": id, **options}
    response = admin.post("/decide?v=3", json=body).json()
    return response["featureFlags"], response["featureFlagPayloads"]


def events_by_name(admin: httpx.Client, id: str) -> dict[str, dict[str, Any]]:
    response = admin.get("/api/projects/1/events/", params={"distinct_id": id, "limit": 500})
    assert response.status_code == 200, response.text
    return {event["event"]: event for event in response.json()["results"]}


def get_person(admin: httpx.Client, id: str) -> dict[str, Any]:
    [person] = admin.get("/api/projects/1/persons/", params={"distinct_id": id}).json()["results"]
    found: dict[str, Any] = person
    return found


def test_sdk_values_variants_and_payloads_match_the_server(
    remote: SdkProcess, sdk: Sdk, admin: httpx.Client
) -> None:
    person = {"plan": "pro"}
    seen: set[Any] = set()
    for id in PEOPLE[:12]:
        values, payloads = evaluate_flags(admin, id, person_properties=person)
        values_by_key, payloads_by_key = remote.all_flags(id=id, person=person)
        # Some SDKs omit flags that are off.
        assert {key: value for key, value in values_by_key.items() if value is not False} == {
            key: value for key, value in values.items() if value is not False
        }
        assert payloads_by_key.keys() == payloads.keys()
        seen |= {values["shades"], values["half"]}
        assert remote.flag(key="shades", id=id, person=person) == values["shades"]
    assert seen >= {"control", "test", True, False}
    payload = remote.payload(key="everybody", id="person-1")
    # The old posthog-python does not parse the payload.
    is_text = sdk.is_python and sdk.is_legacy
    assert payload == ('{"colour": "red"}' if is_text else {"colour": "red"})
    assert remote.flag(key="nobody", id="person-1") is False
    acme = {"groups": {"company": "acme"}}
    assert remote.flag(key="companies", id="person-1", **acme) is True
    assert remote.flag(key="companies", id="person-1", groups={"company": "tiny"}) is False
    assert remote.flag(key="listed", id="person-3") is True
    assert remote.flag(key="listed", id="person-4") is False


def test_sdk_get_all_flags_matches_the_server(
    remote: SdkProcess, local: SdkProcess, sdk: Sdk, admin: httpx.Client
) -> None:
    """The newer method; older clients lack it."""
    if sdk.is_legacy:
        pytest.skip("this version of the client has no such call")
    person = {"plan": "pro"}
    for id in ("person-2", "person-3"):
        values, payloads = evaluate_flags(admin, id, person_properties=person)
        for client in (remote, local):
            found = client.evaluate_flags(id=id, person=person)
            values_by_key = {key: value for key, (value, _) in found.items() if key != "limits"}
            assert values_by_key == {
                key: value for key, value in values.items() if key in values_by_key
            }
            assert values_by_key.keys() >= {"everybody", "half", "listed", "pros", "shades"}
            assert {key for key, (_, payload) in found.items() if payload is not None} == set(
                payloads
            )


def test_local_evaluation_agrees_with_the_server(
    local: SdkProcess, remote: SdkProcess, admin: httpx.Client
) -> None:
    keys = ("everybody", "nobody", "half", "pros", "shades", "in-cohort")
    counts: Counter[Any] = Counter()
    for number, id in enumerate(PEOPLE):
        person = {"plan": PLANS[number % 2]}
        values, _ = evaluate_flags(admin, id, person_properties=person)
        for key in keys:
            found = local.flag(key=key, id=id, local=True, person=person)
            assert found == values[key], (key, id)
            counts[key, found] += 1
    assert len(counts) >= 11  # every value of every flag occurred
    for id in PEOPLE[:6]:
        assert local.payload(key="shades", id=id) == remote.payload(key="shades", id=id), id
    for size, is_in in ((9, False), (11, True)):
        group = {"groups": {"company": "acme"}, "group_properties": {"company": {"size": size}}}
        assert local.flag(key="companies", id="x", local=True, **group) is is_in


def test_flags_that_need_stored_data_fall_back_to_the_server(local: SdkProcess) -> None:
    assert local.flag(key="listed", id="person-3", local=True) is None
    assert local.flag(key="listed", id="person-3") is True
    assert local.flag(key="listed", id="person-4") is False


def test_early_access_flags_are_evaluated_on_the_server_without_a_false_warning(
    local: SdkProcess, sdk: Sdk, admin: httpx.Client
) -> None:
    name = f"Early {sdk.name}"
    body = {"name": name, "stage": "beta"}
    feature = admin.post("/api/projects/1/early_access_feature/", json=body).json()
    key = feature["feature_flag"]["key"]
    enrolled = {"distinct_ids": [f"in-{key}"], "properties": {f"$feature_enrollment/{key}": "true"}}
    assert admin.post("/api/projects/1/persons/", json=enrolled).status_code == 201
    local.reload()
    assert local.flag(key=key, id=f"in-{key}", local=True) is None
    assert local.flag(key=key, id=f"in-{key}") is True
    assert local.flag(key=key, id="somebody") is False
    assert [text for text in local.warned() if "continuity" in text] == []


def test_remote_config_payload_is_decrypted(local: SdkProcess) -> None:
    assert local.remote_config(key="limits") in ('{"uploads": 3}', {"uploads": 3})


def test_changed_definitions_are_reloaded(local: SdkProcess, sdk: Sdk, admin: httpx.Client) -> None:
    key = f"late-{sdk.name.replace(' ', '-')}"
    assert local.flag(key=key, id="x", local=True) is None
    create = admin.post(FLAGS, json={"key": key, "filters": {"groups": [EVERYBODY]}}).json()
    local.reload()
    assert local.flag(key=key, id="x", local=True) is True
    local.reload()  # nothing changed: 304 keeps the definitions
    assert local.flag(key=key, id="x", local=True) is True
    admin.patch(f"{FLAGS}{create['id']}/", json={"active": False})
    local.reload()
    assert local.flag(key=key, id="x", local=True) is False


def test_events_persons_and_groups_arrive(
    remote: SdkProcess, sdk: Sdk, admin: httpx.Client
) -> None:
    id, before = f"{sdk.name} user", f"{sdk.name} visitor"
    remote.capture(id=before, event="seen", properties={"page": "/", "n": 1, "list": [1, "a"]})
    remote.identify(id=id, properties={"email": "ann@example.com", "plan": "pro"})
    remote.alias(previous=before, id=id)
    remote.group(type="company", key=f"{sdk.name} ltd", properties={"size": 7})
    grouped = {"company": f"{sdk.name} ltd"}
    remote.capture(id=id, event="bought", properties={"total": 12.5}, groups=grouped)
    assert remote.flag(key="shades", id=id) == remote.flag(key="shades", id=id)
    assert remote.flush() == []
    events = events_by_name(admin, id)
    assert events["bought"]["properties"]["total"] == 12.5
    assert events["bought"]["properties"]["$groups"] == grouped
    assert events["bought"]["properties"]["$lib"] == sdk.library
    called = events["$feature_flag_called"]["properties"]
    assert called["$feature_flag"] == "shades"
    assert called["$feature_flag_response"] == evaluate_flags(admin, id)[0]["shades"]
    seen = events_by_name(admin, before)["seen"]
    assert {name: seen["properties"][name] for name in ("page", "n", "list")} == {
        "page": "/",
        "n": 1,
        "list": [1, "a"],
    }
    person = get_person(admin, id)
    assert person["properties"]["email"] == "ann@example.com"
    assert set(person["distinct_ids"]) >= {id, before}
    assert get_person(admin, before)["uuid"] == person["uuid"]
    groups = admin.get("/api/projects/1/groups/", params={"group_type_index": 0}).json()["results"]
    sizes = {each["group_key"]: each["group_properties"].get("size") for each in groups}
    assert sizes[f"{sdk.name} ltd"] == 7


@pytest.mark.parametrize("sdk", PER_EVENT, ids=lambda sdk: sdk.name)
def test_newer_capture_endpoints_accept_events(
    sdk: Sdk, server: LiveServer, admin: httpx.Client
) -> None:
    id, before = f"{sdk.name} user", f"{sdk.name} visitor"
    with sdk.start() as client:
        client.open(host=server.address, token=PROJECT_KEY, secret=None)
        client.capture(id=before, event="seen", properties={"page": "/"})
        client.identify(id=id, properties={"plan": "pro"})
        client.alias(previous=before, id=id)
        client.capture_ai(id=id, event="$ai_generation", properties={"$ai_model": "small"})
        assert client.flush() == []
    seen = events_by_name(admin, before)["seen"]["properties"]
    assert (seen["page"], seen["$lib"]) == ("/", f"posthog-{sdk.name.split()[0]}")
    assert events_by_name(admin, id)["$ai_generation"]["properties"]["$ai_model"] == "small"
    person = get_person(admin, id)
    assert person["properties"]["plan"] == "pro"
    assert set(person["distinct_ids"]) == {id, before}
    lines = admin.get("/metrics").text.splitlines()
    for path in (sdk.capture_path, "/i/v0/ai/batch"):
        assert any(path.rstrip("/") in line for line in lines), path
