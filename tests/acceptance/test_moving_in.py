"""A project of one Hedgerow is moved into another: the same people get the same answers."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live import (
    HEDGEROW,
    PERSONAL_KEY,
    PROJECT_KEY,
    LiveServer,
    environment,
    run_here,
    seconds_until,
)
from tests.receiver import CUTS, HANGS, Answer, Received, Receiver

PEOPLE = [f"user-{n}" for n in range(300)]
COMPANIES = ["acme", "globex", "initech"]
THERE_KEY = "phx_a-personal-key-of-the-other-service"
THERE_TOKEN = "phc_a-project-key-of-the-other-service"
EVENTS = 1200
BASE = "/api/projects/1/"


def ready(answer: httpx.Response) -> Any:
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def filters(*properties: dict[str, Any], rollout: float = 100, **more: Any) -> dict[str, Any]:
    return {"groups": [{"properties": list(properties), "rollout_percentage": rollout}], **more}


def asks(key: str, value: Any, operator: str = "exact", **more: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "person", **more}


def send(client: httpx.Client, token: str, events: list[dict[str, Any]]) -> None:
    for at in range(0, len(events), 500):
        body = {"api_key": token, "batch": events[at : at + 500], "historical_migration": True}
        ready(client.post("/batch/", json=body))


def person(n: int) -> list[dict[str, Any]]:
    """Somebody whom their app knows by two names, if their number is odd."""
    about = {
        "plan": ("free", "pro", "team")[n % 3],
        "country": ("NZ", "DE")[n % 2],
        "age": n,
        "email": f"user{n}@example.com",
    }
    if n % 7 == 0:
        about["$feature_enrollment/concept-car"] = True
    events: list[dict[str, Any]] = [
        {"event": "$set", "properties": {"$set": about}},
    ]
    if n % 2:
        events.append({"event": "$identify", "properties": {"$anon_distinct_id": f"anon-{n}"}})
    at = f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z"
    return [{"distinct_id": PEOPLE[n], "timestamp": at, **event} for event in events]


def furnish(client: httpx.Client) -> None:
    """A project with something of everything."""
    send(client, THERE_TOKEN, [event for n in range(len(PEOPLE)) for event in person(n)])
    seen = [
        {
            "event": f"seen {n % 5}",
            "distinct_id": PEOPLE[n % len(PEOPLE)],
            "timestamp": f"2026-02-{1 + n // 60:02}T00:{n % 60:02}:00Z",
            "properties": {"n": n, "words": "ü 🌿", "$groups": {"company": COMPANIES[n % 3]}},
        }
        for n in range(EVENTS)
    ]
    send(client, THERE_TOKEN, seen)
    for n, key in enumerate(COMPANIES):
        body = {"group_type": "company", "group_key": key, "group_properties": {"size": n * 50}}
        ready(client.post(f"{BASE}groups/", json=body))
    ready(client.post(f"{BASE}groups_types/", json={"group_type": "planet"}))
    cohorts = {}
    for name, properties in {
        "Pro": asks("plan", ["pro"]),
        "Old": asks("age", 150, "gt"),
    }.items():
        definition = {"type": "OR", "values": [{"type": "AND", "values": [properties]}]}
        body = {"name": name, "filters": {"properties": definition}}
        cohorts[name] = ready(client.post(f"{BASE}cohorts/", json=body))["id"]
    within = [
        {"key": "id", "type": "cohort", "value": cohorts["Pro"], "negation": True},
        {"key": "id", "type": "cohort", "value": cohorts["Old"]},
    ]
    body = {"name": "Old and not pro", "filters": {"properties": {"type": "AND", "values": within}}}
    cohorts["both"] = ready(client.post(f"{BASE}cohorts/", json=body))["id"]
    ready(client.get(f"{BASE}persons/"))  # which waits until all of them are there
    friends = {"name": "Friends", "is_static": True, "csv": "user-1\nuser-2\nanon-3\n"}
    cohorts["static"] = ready(client.post(f"{BASE}cohorts/", json=friends))["id"]

    def flag(key: str, filters: Any, **more: Any) -> int:
        made = ready(
            client.post(f"{BASE}feature_flags/", json={"key": key, "filters": filters, **more})
        )
        return int(made["id"])

    def of(name: str) -> dict[str, Any]:
        return {"key": "id", "type": "cohort", "value": cohorts[name], "operator": "in"}

    flag("half", filters(rollout=50), tags=["old"], name="Half of them")
    flag("in-pro", filters(of("Pro"), rollout=80))
    flag("in-both", filters(of("both")))
    flag("friends", filters(of("static")))
    needed = flag("needed", filters(asks("country", "NZ"), rollout=60))
    flag(
        "needs",
        filters(
            {
                "key": str(needed),
                "type": "flag",
                "value": True,
                "operator": "flag_evaluates_to",
            }
        ),
    )
    variants = [
        {"key": "red", "rollout_percentage": 30},
        {"key": "green", "rollout_percentage": 70},
    ]
    flag(
        "colours",
        filters(
            rollout=90,
            multivariate={"variants": variants},
            payloads={"red": '{"hex": "#f00"}', "green": 7},
        ),
    )
    flag("by-company", filters(rollout=50, aggregation_group_type_index=0))
    large = {
        "key": "size",
        "type": "group",
        "group_type_index": 0,
        "value": 40,
        "operator": "gt",
    }
    flag("large", filters(large, aggregation_group_type_index=0))
    flag("by-planet", filters(rollout=50, aggregation_group_type_index=1))
    flag("off", filters(), active=False)
    flag("pattern", filters(asks("email", "^user1.*@example", "regex")))
    flag(
        "secret",
        {**filters(), "payloads": {"true": '"hush"'}},
        is_remote_configuration=True,
        has_encrypted_payloads=True,
    )
    flag("settings", {**filters(), "payloads": {"true": '{"a": 1}'}}, is_remote_configuration=True)
    feature = {
        "name": "Concept car",
        "stage": "beta",
        "description": "It flies.",
        "documentation_url": "https://example.com/car",
        "payload": {"wheels": 0},
    }
    ready(client.post(f"{BASE}early_access_feature/", json=feature))


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    keys = {"bootstrap_project_key": THERE_TOKEN, "bootstrap_personal_key": THERE_KEY}
    with LiveServer(tmp_path_factory.mktemp("there"), rate_limits="false", **keys) as running:
        with running.client(THERE_KEY) as client:
            furnish(client)
        yield running


@pytest.fixture
def here(tmp_path: Path) -> Iterator[LiveServer]:
    """One with some things of its own, so that no number means the same as there."""
    with LiveServer(tmp_path / "here", rate_limits="false") as running:
        with running.client() as client:
            ready(client.post(f"{BASE}groups_types/", json={"group_type": "planet"}))
            for n in range(3):
                cohort = {"name": f"own {n}", "is_static": True}
                ready(client.post(f"{BASE}cohorts/", json=cohort))
                flag = {"key": f"own-{n}", "filters": filters()}
                ready(client.post(f"{BASE}feature_flags/", json=flag))
        yield running


def arguments(there: str, here: LiveServer, *more: str) -> list[str]:
    state = str(here.data.parent / "state.json")
    return [
        *("import", "posthog", "--host", there, "--project", "1", "--personal-key", THERE_KEY),
        *("--server", here.address, "--key", PERSONAL_KEY, "--state", state, *more),
    ]


def copied(there: str, here: LiveServer, *more: str) -> str:
    done = run_here(*arguments(there, here, "--yes", *more))
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def stored(client: httpx.Client) -> dict[str, Any]:
    """All that a project has, by what tells them apart."""
    ask = {"query": {"kind": "HogQLQuery", "query": ALL_EVENTS}, "refresh": "force_blocking"}
    return {
        "flags": {each["key"]: each for each in _all(client, "feature_flags/")},
        "cohorts": sorted(each["name"] for each in _all(client, "cohorts/")),
        "features": [each["name"] for each in _all(client, "early_access_feature/")],
        "persons": sorted(
            (sorted(each["distinct_ids"]), _own(each["properties"]), each["created_at"])
            for each in _all(client, "persons/")
        ),
        "events": [
            [*rest, json.loads(properties.replace("$group_1", "$group_0"))]
            for *rest, properties in ready(client.post(f"{BASE}query/", json=ask))["results"]
        ],
    }


ALL_EVENTS = (
    "SELECT uuid, event, distinct_id, timestamp, properties FROM events "
    "WHERE event LIKE 'seen%' ORDER BY uuid LIMIT 50000"
)


def _own(properties: dict[str, Any]) -> str:
    return json.dumps(
        {name: value for name, value in properties.items() if name != "$creator_event_uuid"},
        sort_keys=True,
    )


def _all(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ready(client.get(f"{BASE}{path}", params={"limit": 1000}))[
        "results"
    ]
    return found


def answers(client: httpx.Client, token: str, id: str, company: str) -> Any:
    body = {"api_key": token, "distinct_id": id, "groups": {"company": company, "planet": id}}
    flags = ready(client.post("/flags/?v=2", json=body))["flags"]
    return {
        key: (flag["enabled"], flag["variant"], flag["metadata"]["payload"])
        for key, flag in flags.items()
        if not key.startswith("own-") and key != "secret"
    }


def assert_same_answers(there: LiveServer, here: LiveServer) -> None:
    ids = [*PEOPLE, *(f"anon-{n}" for n in range(1, 20, 2)), "stranger"]
    with there.client(None) as one, here.client(None) as other:
        pairs = [
            (
                answers(one, THERE_TOKEN, id, COMPANIES[n % 3]),
                answers(other, PROJECT_KEY, id, COMPANIES[n % 3]),
            )
            for n, id in enumerate(ids)
        ]
    assert [mine for _, mine in pairs] == [theirs for theirs, _ in pairs]
    # And they are no constants.
    for key in pairs[0][0].keys() - {"off"}:
        assert len({json.dumps(theirs[key]) for theirs, _ in pairs}) > 1 or key == "settings", key


def test_everything_is_moved_and_everybody_gets_the_same_answers(
    there: LiveServer, here: LiveServer
) -> None:
    with here.client() as client, there.client(THERE_KEY) as source:
        before = stored(client)
        plan = run_here(*arguments(there.address, here, "--persons", "--events", "--dry-run"))
        assert plan.returncode == 0, plan.stderr
        assert stored(client) == before
        assert not (here.data.parent / "state.json").exists()
        assert plan.stdout.splitlines() == [
            f"From {there.address} project 1 into {here.address} project 1:",
            "  group types: 1 to make, 1 here already",
            "  cohorts: 4 to make",
            "  flags: 14 to make",
            "  early access features: 1 to make",
            "  groups of type company: 3",
            "  groups of type planet: 0",
            f"  events: {EVENTS + 450:,}",
            "  persons: 300",
            "Cannot be copied:",
            "  flag secret: Its payload is encrypted, and the source tells it to nobody: make it "
            "by hand.",
            "Copied, and yet not the same:",
            "  flag settings: A remote configuration: copied as one.",
        ]
        shown = run_here(*arguments(there.address, here))
        assert (shown.returncode, stored(client)) == (0, before)
        assert shown.stdout.endswith("Say --yes to carry it out.\n")

        assert copied(there.address, here, "--persons", "--events").endswith("Copied.\n")
        found, wanted = stored(client), stored(source)
        assert found["events"] == wanted["events"]
        assert len(found["events"]) == EVENTS
        assert found["persons"] == wanted["persons"]
        assert len(found["persons"]) == 300
        assert found["features"] == ["Concept car"]
        assert found["cohorts"] == sorted([*wanted["cohorts"], "own 0", "own 1", "own 2"])
        for key in wanted["flags"].keys() - {"secret"}:
            for name in ("name", "active", "tags", "is_remote_configuration"):
                assert found["flags"][key][name] == wanted["flags"][key][name]
        groups = ready(client.get(f"{BASE}groups/", params={"group_type_index": 1}))["results"]
        assert [(each["group_key"], each["group_properties"]) for each in groups] == [
            ("acme", {"size": 0}),
            ("globex", {"size": 50}),
            ("initech", {"size": 100}),
        ]
        assert_same_answers(there, here)

        again = copied(there.address, here, "--persons", "--events")
        assert "flags: 14 here already" in again
        assert "cohorts: 4 here already" in again
        (here.data.parent / "state.json").unlink()
        assert "cohorts: 4 here already" in copied(there.address, here, "--persons", "--events")
        assert stored(client) == found


class Between:
    """A source behind something that is not always well."""

    def __init__(self, there: LiveServer) -> None:
        self._there = there
        self.ill: dict[str, list[Answer]] = {}
        self.paths: list[str] = []

    def __call__(self, received: Received) -> Answer:
        self.paths.append(received.path)
        for part, ills in self.ill.items():
            if part in received.path and ills:
                return ills.pop(0)
        answer = httpx.request(
            received.method,
            self._there.address + received.path,
            headers={name: received.headers[name] for name in ("host", "authorization")},
            content=received.body,
            timeout=60,
        )
        return Answer(
            status=answer.status_code,
            headers={"content-type": answer.headers["content-type"]},
            body=answer.content,
        )

    def asked(self, part: str) -> list[str]:
        return [path for path in self.paths if part in path]


def stopped_at(between: Between, part: str, command: list[str], how: signal.Signals) -> Any:
    """Run the command until the source hangs where it is asked for `part`, and end it so."""
    between.ill = {part: [Answer(status=HANGS)]}
    running = subprocess.Popen(
        [HEDGEROW, *command],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    before = len(between.asked(part))
    try:
        seconds_until(lambda: len(between.asked(part)) > before, 60)
        running.send_signal(how)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    between.ill = {}
    return running.returncode, errors


def test_it_is_interrupted_and_goes_on_and_a_source_that_is_ill_is_waited_for(
    there: LiveServer, here: LiveServer
) -> None:
    between = Between(there)
    with Receiver(between) as proxy, here.client() as client, there.client(THERE_KEY) as source:
        address = f"http://127.0.0.1:{proxy.port}"
        command = arguments(address, here, "--yes", "--persons", "--events")
        assert stopped_at(between, "cursor=", command, signal.SIGKILL)[0] == -signal.SIGKILL
        begun = between.asked("/events/")
        state = json.loads((here.data.parent / "state.json").read_text())
        assert state["walks"]["events"]["done"] == 500
        ended, errors = stopped_at(between, "persons/?limit=500", command, signal.SIGINT)
        assert (ended, errors) == (130, "Stopped. The same command goes on from here.\n")
        first, *others = between.asked("/events/")
        assert len(begun) == 2
        # The first page was asked for once, and each of the others until it came.
        assert [path for path in others if path == first] == []
        between.ill = {
            "feature_flags/": [Answer(status=429, headers={"retry-after": "0"}, body=b"{}")],
            "cohorts/": [Answer(status=502, body=b"<html>")],
            "persons/": [Answer(status=CUTS)],
        }
        assert copied(address, here, "--persons", "--events").endswith("Copied.\n")
        assert between.ill == {"feature_flags/": [], "cohorts/": [], "persons/": []}
        found, wanted = stored(client), stored(source)
        assert found["events"] == wanted["events"]
        assert found["persons"] == wanted["persons"]
        assert found["cohorts"] == sorted([*wanted["cohorts"], "own 0", "own 1", "own 2"])
        assert found["features"] == wanted["features"]
    assert_same_answers(there, here)


def test_what_is_here_and_newer_stays(there: LiveServer, here: LiveServer) -> None:
    with here.client() as client:
        ready(client.post(f"{BASE}feature_flags/", json={"key": "half", "filters": filters()}))
        live = {
            "api_key": PROJECT_KEY,
            "batch": [
                {
                    "event": "$set",
                    "distinct_id": "user-1",
                    "properties": {"$set": {"plan": "new here", "shoes": 2}},
                },
                {
                    "event": "$groupidentify",
                    "distinct_id": "user-1",
                    "properties": {
                        "$group_type": "company",
                        "$group_key": "acme",
                        "$group_set": {"size": 1000},
                    },
                },
            ],
        }
        ready(client.post("/batch/", json=live))
        ready(client.get(f"{BASE}persons/"))
        told = copied(there.address, here)
        assert "  flags: 13 to make, 1 differ\n" in told
        assert "  flag half: name, filters, tags\n" in told
        assert "persons who are members of static cohorts come with them" in told
        people = {
            max(each["distinct_ids"]): each["properties"] for each in _all(client, "persons/")
        }
        assert people.keys() == {"user-1", "user-2", "user-3"}
        assert people["user-1"]["plan"] == "new here"
        assert (people["user-1"]["shoes"], people["user-1"]["age"]) == (2, 1)
        assert people["user-2"]["plan"] == "team"
        groups = ready(client.get(f"{BASE}groups/", params={"group_type_index": 1}))["results"]
        assert [each["group_properties"]["size"] for each in groups] == [1000, 50, 100]
        half = ready(client.get(f"{BASE}feature_flags/half/"))
        assert half["filters"]["groups"][0]["rollout_percentage"] == 100
        copied(there.address, here, "--overwrite")
        half = ready(client.get(f"{BASE}feature_flags/half/"))
        assert (half["filters"]["groups"][0]["rollout_percentage"], half["tags"]) == (50, ["old"])


def test_who_may_not_read_there_is_told_what_is_missing(there: LiveServer, tmp_path: Path) -> None:
    def problem(*more: str) -> str:
        command = arguments(there.address, there, "--state", str(tmp_path / "s.json"), *more)
        done = run_here(*command)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    host = there.address.removeprefix("http://")
    assert problem("--personal-key", "phx_wrong").startswith(
        f"hedgerow: {host} does not know this personal key."
    )
    with there.client(THERE_KEY) as client:
        body = {"label": "little", "scopes": ["feature_flag:read"]}
        little = ready(client.post("/api/personal_api_keys/", json=body))["value"]
    assert problem("--personal-key", little).startswith(
        f"hedgerow: {host}: the personal key may not read groups_types: it needs the scope "
        "group:read."
    )
    assert "has no such project" in problem("--project", "77")
    assert "http:// or https:// is wanted" in problem("--host", "eu.posthog.com")
    assert "--since is about events" in problem("--since", "-7d")
