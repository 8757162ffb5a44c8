"""A project is copied from one Hedgerow to another: the same people get the same flag values."""

import json
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hedgerow.cli.importers import source as import_source
from hedgerow.errors import OperatorError
from tests.acceptance.import_fixtures import (
    ANSWERED,
    BASE,
    COMPANIES,
    EVENTS,
    PEOPLE,
    THERE_KEY,
    THERE_TOKEN,
    filters,
    furnish,
    ready,
    send,
)
from tests.support.live import (
    HEDGEROW,
    PERSONAL_KEY,
    PROJECT_KEY,
    LiveServer,
    build_environment,
    run_in_process,
    wait_for,
)
from tests.support.receiver import CUTS, HANGS, PlannedResponse, ReceivedRequest, Receiver


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    keys = {"bootstrap_project_key": THERE_TOKEN, "bootstrap_personal_key": THERE_KEY}
    with LiveServer(
        tmp_path_factory.mktemp("there"), rate_limits_enabled="false", **keys
    ) as running:
        with running.client(THERE_KEY) as client:
            furnish(client)
        yield running


@pytest.fixture
def here(tmp_path: Path) -> Iterator[LiveServer]:
    with furnished(tmp_path / "here") as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Start a service that several tests share."""
    with furnished(tmp_path_factory.mktemp("shared") / "here") as running:
        yield running


@contextmanager
def furnished(data: Path) -> Iterator[LiveServer]:
    """Start a service that has some items already, so that its ids differ from the source."""
    with LiveServer(data, rate_limits_enabled="false") as running:
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
    done = run_in_process(*arguments(there, here, "--yes", *more))
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def stored(client: httpx.Client) -> dict[str, Any]:
    """Return the items of a project by name."""
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
        {
            name.partition("/")[0] if name.startswith("$survey") else name: value
            for name, value in properties.items()
            if name != "$creator_event_uuid"
        },
        sort_keys=True,
    )


def _all(client: httpx.Client, path: str, **parameters: str) -> list[dict[str, Any]]:
    page = ready(client.get(f"{BASE}{path}", params={"limit": 1000, **parameters}))
    found: list[dict[str, Any]] = page["results"]
    return found


def answers(client: httpx.Client, token: str, id: str, company: str) -> Any:
    body = {"api_key": token, "distinct_id": id, "groups": {"company": company, "planet": id}}
    flags = ready(client.post("/flags/?v=2", json=body))["flags"]
    return {
        key: (flag["enabled"], flag["variant"], flag["metadata"]["payload"])
        for key, flag in flags.items()
        if not key.startswith("own-") and key != "secret"
    }


def without_surveys(answers: dict[str, Any]) -> dict[str, Any]:
    """Without the flags of surveys, whose keys are made up."""
    return {key: value for key, value in answers.items() if not key.startswith("survey-")}


def assert_same_answers(there: LiveServer, here: LiveServer) -> None:
    ids = [*PEOPLE, *(f"anon-{n}" for n in range(1, 20, 2)), "stranger"]
    with there.client(None) as one, here.client(None) as other:
        pairs = [
            (
                without_surveys(answers(one, THERE_TOKEN, id, COMPANIES[n % 3])),
                without_surveys(answers(other, PROJECT_KEY, id, COMPANIES[n % 3])),
            )
            for n, id in enumerate(ids)
        ]
    assert [mine for _, mine in pairs] == [theirs for theirs, _ in pairs]
    # And they are no constants.
    for key in pairs[0][0].keys() - {"off"}:
        assert len({json.dumps(theirs[key]) for theirs, _ in pairs}) > 1 or key == "settings", key


def test_everything_is_copied_and_flags_have_the_same_values(
    there: LiveServer, here: LiveServer
) -> None:
    with here.client() as client, there.client(THERE_KEY) as source:
        before = stored(client)
        plan = run_in_process(*arguments(there.address, here, "--persons", "--events", "--dry-run"))
        assert plan.returncode == 0, plan.stderr
        assert stored(client) == before
        assert not (here.data.parent / "state.json").exists()
        assert plan.stdout.splitlines() == [
            f"From {there.address} project 1 into {here.address} project 1:",
            "  group types: 1 to create, 1 unchanged",
            "  cohorts: 4 to create",
            "  flags: 15 to create",
            "  early access features: 1 to create",
            "  surveys: 1 to create",
            "  experiments: 2 to create",
            "  groups of type company: 3",
            "  groups of type planet: 0",
            f"  events: {EVENTS + 451:,}",
            "  persons: 300",
            "Skipped:",
            "  flag secret: Its payload is encrypted and cannot be read from the source: create "
            "the flag by hand.",
            "Imported with differences:",
            "  flag settings: It is a remote configuration flag here, too.",
        ]
        shown = run_in_process(*arguments(there.address, here))
        assert (shown.returncode, stored(client)) == (0, before)
        assert shown.stdout.endswith("Confirm it with --yes.\n")

        assert copied(there.address, here, "--persons", "--events").endswith("Imported.\n")
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
        [survey] = _all(client, "surveys/")
        [origin_survey] = _all(source, "surveys/")
        for name in ("name", "type", "questions", "start_date"):
            assert survey[name] == origin_survey[name]
        assert survey["linked_flag"]["key"] == "needed"
        for id in (ANSWERED, "user-1"):
            answer = answers(client, PROJECT_KEY, id, "acme")
            is_asked, _, _ = answer[survey["internal_targeting_flag"]["key"]]
            is_chosen, _, _ = answer[survey["targeting_flag"]["key"]]
            assert (is_asked, is_chosen) == (id != ANSWERED, True)

        [tried] = _all(client, "experiments/")
        [origin] = _all(source, "experiments/")
        for name in ("name", "status", "start_date", "metrics", "parameters"):
            assert tried[name] == origin[name]
        assert tried["feature_flag"]["key"] == "ways"

        again = copied(there.address, here)
        assert "flags: 15 unchanged" in again
        assert "experiments: 2 unchanged" in again
        assert "cohorts: 4 unchanged" in again
        assert "surveys: 1 unchanged" in again
        state = here.data.parent / "state.json"
        kept = json.loads(state.read_text())
        assert kept["surveys"] == {origin_survey["id"]: survey["id"]}
        [archived] = _all(client, "experiments/", archived="true")
        assert set(kept["experiments"].values()) == {tried["id"], archived["id"]}
        state.unlink()
        forgotten = copied(there.address, here)
        assert "  cohorts: 3 unchanged, 1 differ\n" in forgotten
        assert "  cohort Friends: members\n" in forgotten
        assert stored(client) == found


# Each request would read those of the whole world, for nothing.
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Between:
    """A service behind something that is not always well. `ill` is what it answers instead, by a
    part of the path; in `cut` are paths of which it loses the answer to a POST, once. Its pages are
    small."""

    def __init__(self, server: LiveServer) -> None:
        self._server = server
        self.ill: dict[str, list[PlannedResponse]] = {}
        self.cut: list[str] = []
        self.paths: list[str] = []

    def __call__(self, received: ReceivedRequest) -> PlannedResponse:
        self.paths.append(received.path)
        for part, ills in self.ill.items():
            if part in received.path and ills:
                return ills.pop(0)
        answer = httpx.request(
            received.method,
            self._server.address + _with_small_pages(received.path),
            headers={
                name: received.headers[name]
                for name in ("host", "authorization", "content-type")
                if name in received.headers
            },
            content=received.body,
            timeout=60,
            verify=NO_CERTIFICATES,
        )
        if received.method == "POST" and received.path in self.cut:
            self.cut.remove(received.path)
            return PlannedResponse(status=CUTS)
        return PlannedResponse(
            status=answer.status_code,
            headers={"content-type": answer.headers.get("content-type", "")},
            body=answer.content,
        )

    def list_requests(self, part: str) -> list[str]:
        return [path for path in self.paths if part in path]


def _with_small_pages(path: str) -> str:
    few = "/groups/?" in path or "cohort=" in path
    return path.replace("limit=1000", "limit=2" if few else "limit=200")


def stopped_at(between: Between, part: str, command: list[str], how: signal.Signals) -> Any:
    """Run the command until a request for `part` hangs, and stop it."""
    between.ill = {part: [PlannedResponse(status=HANGS)]}
    running = subprocess.Popen(
        [HEDGEROW, *command],
        env=build_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    before = len(between.list_requests(part))
    try:
        wait_for(lambda: len(between.list_requests(part)) > before, 60)
        running.send_signal(how)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    between.ill = {}
    return running.returncode, errors


def test_an_interrupted_import_continues_and_waits_for_a_failing_source(
    there: LiveServer, here: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    between, before_us = Between(there), Between(here)
    # The target creates an item, and the response gets lost.
    ours = "/api/projects/1"
    before_us.cut = [f"{ours}/cohorts/", f"{ours}/feature_flags/", "/batch/"]
    with (
        Receiver(between) as proxy,
        Receiver(before_us) as own_proxy,
        here.client() as client,
        there.client(THERE_KEY) as source,
    ):
        address = f"http://127.0.0.1:{proxy.port}"
        more = ("--persons", "--events", "--server", f"http://127.0.0.1:{own_proxy.port}")
        command = arguments(address, here, "--yes", *more)
        assert stopped_at(between, "cursor=", command, signal.SIGKILL)[0] == -signal.SIGKILL
        assert before_us.cut == []
        begun = between.list_requests("/events/")
        state = json.loads((here.data.parent / "state.json").read_text())
        assert state["walks"]["events"]["done"] == 200
        ended, errors = stopped_at(between, "persons/?limit=1000", command, signal.SIGINT)
        assert (ended, errors) == (130, "Stopped. Run the same command to continue.\n")
        first, *others = between.list_requests("/events/")
        assert len(begun) == 2
        # The first page was requested once, and each other page until it arrived.
        assert [path for path in others if path == first] == []
        between.ill = {
            "feature_flags/": [
                PlannedResponse(status=429, headers={"retry-after": "0"}, body=b"{}")
            ],
            "cohorts/": [PlannedResponse(status=502, body=b"<html>")],
            "persons/": [PlannedResponse(status=CUTS)],
        }
        monkeypatch.setattr(import_source, "PAUSES_S", (0.01, 0.01))
        monkeypatch.setattr(import_source, "ANNOUNCED_WAIT_S", 0.5)
        done = run_in_process(*command)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Imported."), done.stderr
        assert "asks to wait 0 min, until" in done.stderr
        assert between.list_requests("/persons/?limit=1&include_total=true")
        assert between.list_requests("group_type_index=0&limit=2")
        assert len(between.list_requests("cohort=")) > 1
        assert between.ill == {"feature_flags/": [], "cohorts/": [], "persons/": []}
        found, wanted = stored(client), stored(source)
        assert found["events"] == wanted["events"]
        assert found["persons"] == wanted["persons"]
        assert found["cohorts"] == sorted([*wanted["cohorts"], "own 0", "own 1", "own 2"])
        assert found["features"] == wanted["features"]
        [friends] = [each for each in _all(client, "cohorts/") if each["name"] == "Friends"]
        assert friends["count"] == 3
        groups = ready(client.get(f"{BASE}groups/", params={"group_type_index": 1}))["results"]
        assert [each["group_key"] for each in groups] == COMPANIES


def test_newer_data_of_the_target_stays(there: LiveServer, shared: LiveServer) -> None:
    here, dropping = shared, Between(shared)
    with here.client() as client, Receiver(dropping) as proxy:
        own = ("--server", f"http://127.0.0.1:{proxy.port}")
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
        # A service that accepts events and drops them is detected.
        refusal = {"status": 1, "rejected": [{"detail": "No\x1b[2J."}]}
        dropping.ill = {"/batch/": [PlannedResponse(body=json.dumps(refusal).encode())] * 9}
        done = run_in_process(*arguments(there.address, here, *own, "--yes"))
        assert done.returncode == 1
        assert "event None: No\\x1b[2J.\n" in done.stderr
        assert re.search(r"cohort Friends: [23] member\(s\) are not processed yet", done.stderr)
        dropping.ill = {}
        copied(there.address, here, *own)
        output = done.stdout
        assert "  flags: 14 to create, 1 differ\n" in output
        assert "  flag half: name, filters, tags\n" in output
        assert "members of static cohorts are copied with the distinct ids" in output
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
        with there.client(THERE_KEY) as source:
            _take_back(source)
            for plan in ("gold", "team"):
                change = {"event": "$set", "distinct_id": "user-2"}
                send(source, THERE_TOKEN, [{**change, "properties": {"$set": {"plan": plan}}}])
                ready(source.get(f"{BASE}persons/"))
                copied(there.address, here, *own, "--overwrite")
                [user] = ready(client.get(f"{BASE}persons/?distinct_id=user-2"))["results"]
                assert user["properties"]["plan"] == plan
        half = ready(client.get(f"{BASE}feature_flags/half/"))
        assert (half["filters"]["groups"][0]["rollout_percentage"], half["tags"]) == (50, ["old"])
        [survey] = _all(client, "surveys/")
        taken = ("start_date", "linked_flag_id", "targeting_flag")
        assert [survey[name] for name in taken] == [None, None, None]
        [experiment] = _all(client, "experiments/")
        assert (experiment["name"], experiment["start_date"]) == ("Two ways", None)
        assert "surveys: 1 unchanged" in copied(there.address, here, *own, "--dry-run")


def _take_back(source: httpx.Client) -> None:
    """The survey and the experiment that run are drafts again, the survey one for all."""
    for path, body in (
        (
            "surveys/",
            {"start_date": None, "linked_flag_id": None, "remove_targeting_flag": True},
        ),
        ("experiments/", {"start_date": None}),
    ):
        [item] = _all(source, path)
        ready(source.patch(f"{BASE}{path}{item['id']}/", json=body))


def test_unleash_and_flagsmith_exports_become_flags(shared: LiveServer, tmp_path: Path) -> None:
    variants = [
        {"name": "a", "weight": 500, "payload": {"type": "json", "value": '{"x": 1}'}},
        {"name": "b", "weight": 500},
    ]
    named = {"name": "userWithId", "parameters": {"userIds": "ann,ben"}, "constraints": []}
    rolled = {
        "name": "flexibleRollout",
        "parameters": {"rollout": "100", "stickiness": "default"},
        "constraints": [{"contextName": "plan", "operator": "IN", "values": ["pro"]}],
        "variants": variants,
    }
    strategies = [
        {"featureName": "team.named", **named},
        {"featureName": "varied", **rolled},
        {"featureName": "child", "name": "default"},
    ]
    names = ("child", "team.named", "varied")
    export = {
        "features": [{"name": name} for name in names],
        "featureStrategies": strategies,
        "featureEnvironments": [
            {"featureName": name, "environment": "production", "enabled": True} for name in names
        ],
        "dependencies": [{"feature": "child", "dependencies": [{"feature": "team.named"}]}],
    }
    option = {"percentage_allocation": 100, "value": "blue", "type": "unicode"}
    features = [
        {"name": "smith-off", "enabled": False, "value": "x", "multivariate": []},
        {"name": "smith-value", "enabled": True, "value": 7, "multivariate": []},
        {"name": "smith-many", "enabled": True, "value": "red", "multivariate": [option]},
    ]
    for command, document in (("unleash", export), ("flagsmith", features)):
        file = tmp_path / f"{command}.json"
        file.write_text(json.dumps(document))
        service = ("--server", shared.address, "--key", PERSONAL_KEY)
        shown = run_in_process("import", command, str(file), *service)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.startswith(f"From {file} into {shared.address} project 1:\n")
        assert "  flags: 3 to create\n" in shown.stdout
        done = run_in_process("import", command, str(file), *service, "--yes")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Imported."), done.stderr
        again = run_in_process("import", command, str(file), *service, "--dry-run")
        assert "  flags: 3 unchanged\n" in again.stdout
    with shared.client(None) as client:
        body = {
            "api_key": PROJECT_KEY,
            "distinct_id": "ann",
            "person_properties": {"plan": "pro"},
        }
        decision = ready(client.post("/decide/?v=3", json=body))
        answers, payloads = decision["featureFlags"], decision["featureFlagPayloads"]
        assert (answers["team-named"], answers["child"]) == (True, True)
        assert answers["varied"] in ("a", "b")
        assert (answers["smith-off"], answers["smith-many"]) == (False, "blue")
        assert (payloads["smith-value"], payloads["smith-many"]) == ("7", '"blue"')
        stranger = ready(client.post("/decide/?v=3", json={**body, "distinct_id": "cy"}))
        answers = stranger["featureFlags"]
        assert (answers["team-named"], answers["child"]) == (False, False)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for text, command in (("cannot be read", "unleash"), ("cannot be read", "flagsmith")):
        done = run_in_process("import", command, str(broken), "--key", PERSONAL_KEY)
        assert (done.returncode, text in done.stderr) == (1, True)


def test_a_key_without_a_scope_gets_an_error_that_names_it(
    there: LiveServer, tmp_path: Path
) -> None:
    def problem(*more: str) -> str:
        command = arguments(there.address, there, "--state", str(tmp_path / "s.json"), *more)
        done = run_in_process(*command)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    host = there.address.removeprefix("http://")
    assert problem("--personal-key", "phx_wrong").startswith(
        f"hedgerow: {host} does not accept this personal API key."
    )
    with there.client(THERE_KEY) as client:
        body = {"label": "little", "scopes": ["feature_flag:read"]}
        little = ready(client.post("/api/personal_api_keys/", json=body))["value"]
    assert problem("--personal-key", little).startswith(
        f"hedgerow: {host}: the personal API key may not read groups_types. It needs the scope "
        "group:read."
    )
    assert "has no such project" in problem("--project", "77")
    assert "a URL that begins with http:// or https://" in problem("--host", "eu.posthog.com")
    assert "--since limits events" in problem("--since", "-7d")
    error = problem("--host", "https://bob:hush@eu.posthog.com")
    assert ("must not contain a user name or password" in error, "hush" in error) == (True, False)
    # Control characters of the source do not reach the terminal.
    rude = PlannedResponse(status=400, body=json.dumps({"detail": "a\x1b[2J\nb"}).encode())
    with Receiver(lambda _: rude) as proxy:
        error = problem("--host", f"http://127.0.0.1:{proxy.port}")
    assert error.endswith("responds with HTTP 400. a\\x1b[2J\\nb\n")
    # Members of a cohort are persons.
    with (
        Receiver(lambda _: PlannedResponse(status=403, body=b"{}")) as proxy,
        import_source.ImportSource(f"http://127.0.0.1:{proxy.port}", "key", "1") as source,
        pytest.raises(OperatorError, match=r"may not read persons\. It needs the scope p"),
    ):
        list(source.members(4, None))
