"""`hedgerow login`, and the commands that manage flags of a service elsewhere."""

import json
import stat
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from hedgerow.cli import stored_login
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer, run_in_process, wait_for


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("remote")) as server:
        yield server


@pytest.fixture
def login_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "hedgerow" / "login.json"
    monkeypatch.setattr(stored_login, "get_login_path", lambda: path)
    return path


def log_in(live: LiveServer, monkeypatch: pytest.MonkeyPatch, key: str) -> CompletedProcess[str]:
    monkeypatch.setattr("sys.stdin", StringIO(f"{key}\n"))
    return run_in_process("login", f"{live.address}/")


def run(live: LiveServer, *arguments: str) -> CompletedProcess[str]:
    return run_in_process(*arguments, server_url=live.address, personal_key=PERSONAL_KEY)


def run_json(live: LiveServer, *arguments: str) -> Any:
    done = run(live, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def evaluate(live: LiveServer, distinct_id: str = "ann", **properties: str) -> Any:
    body = {
        "api_key": PROJECT_KEY,
        "distinct_id": distinct_id,
        "person_properties": properties,
    }
    with live.client(key=None) as client:
        return client.post("/decide?v=3", json=body).json()["featureFlags"]


def test_login_stores_the_key_for_this_user_only(
    live: LiveServer, login_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = log_in(live, monkeypatch, PERSONAL_KEY)
    assert (done.returncode, done.stderr) == (0, "")
    assert PERSONAL_KEY not in done.stdout
    assert stat.S_IMODE(login_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(login_file.parent.stat().st_mode) == 0o700
    assert json.loads(login_file.read_text()) == {"url": live.address, "key": PERSONAL_KEY}
    assert run_in_process("flags", "list").returncode == 0
    assert run_in_process("experiments", "list").stdout == "No experiments.\n"
    assert run_in_process("logout").stdout == f"Logged out of {live.address}.\n"
    assert not login_file.exists()
    assert "hedgerow login" in run_in_process("flags", "list").stderr


def test_login_refuses_a_wrong_key(
    live: LiveServer, login_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_in(live, monkeypatch, "phx_" + "0" * 40).returncode == 3
    assert log_in(live, monkeypatch, "").returncode == 1
    assert not login_file.exists()


def test_a_stored_key_is_not_sent_to_another_service(
    live: LiveServer, login_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(live, monkeypatch, PERSONAL_KEY)
    other = run_in_process("flags", "list", "--server", "http://127.0.0.1:9")
    assert (other.returncode, "needs a personal API key" in other.stderr) == (1, True)


def test_flags_are_managed_over_http(live: LiveServer) -> None:
    created = run(live, "flags", "create", "new-cart", "--property", "plan=pro", "--rollout", "100")
    assert created.stdout == "Created new-cart: enabled, 100 % of persons with 1 filter(s).\n"
    assert evaluate(live, plan="pro")["new-cart"] is True
    assert evaluate(live, plan="free")["new-cart"] is False
    run(live, "flags", "rollout", "new-cart", "12.5")
    shown = run_json(live, "flags", "show", "new-cart")
    assert shown["filters"]["groups"][0]["rollout_percentage"] == 12.5
    assert shown["filters"]["groups"][0]["properties"][0]["value"] == "pro"
    assert run_json(live, "flags", "disable", "new-cart")["active"] is False
    assert evaluate(live, plan="pro")["new-cart"] is False
    assert run(live, "flags", "disable", "new-cart").returncode == 0
    listed = run_json(live, "flags", "list", "--state", "disabled", "--search", "cart")
    assert [flag["key"] for flag in listed] == ["new-cart"]
    assert run(live, "flags", "enable", "new-cart").stdout.startswith("Enabled new-cart: enabled")
    assert "condition 1: 12.5 %" in run(live, "flags", "show", "new-cart").stdout


def test_variants_are_created_with_their_shares(live: LiveServer) -> None:
    variants = ("--variant", "control=50", "--variant", "test=50")
    run(live, "flags", "create", "color", *variants, "--rollout", "100")
    assert evaluate(live)["color"] in ("control", "test")
    assert "variant test: 50 %" in run(live, "flags", "show", "color").stdout


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (("show", "missing"), 4, "Not found. /api/projects/1/feature_flags/missing/"),
        (("enable", "missing/../color"), 4, "Not found"),
        (("create", "not a key"), 1, "key"),
        (("create", "x", "--property", "plan"), 1, "NAME=VALUE"),
        (("create", "x", "--variant", "a=much"), 1, "has no percentage"),
        (("rollout", "two", "10"), 1, "--condition"),
        (("rollout", "two", "101"), 2, "PERCENT"),
    ],
)
def test_failures_have_their_status(
    live: LiveServer, arguments: tuple[str, ...], status: int, error: str
) -> None:
    with live.client() as client:
        group = {"properties": [], "rollout_percentage": 1}
        body = {"key": "two", "filters": {"groups": [group, group]}}
        client.post("/api/projects/@current/feature_flags/", json=body)
    done = run(live, "flags", *arguments)
    assert (done.returncode, error in done.stderr) == (status, True), done.stderr


def test_status_tells_a_refused_key_from_a_service_that_is_down(live: LiveServer) -> None:
    refused = run_in_process(
        "flags", "list", server_url=live.address, personal_key="phx_" + "0" * 40
    )
    down = run_in_process(
        "flags", "list", server_url="http://127.0.0.1:9", personal_key=PERSONAL_KEY
    )
    assert (refused.returncode, down.returncode) == (3, 5)


FLAG_FILE = """version: 1
flags:
  - key: from-a-file
    name: Applied over HTTP
    filters: {groups: [{properties: [], rollout_percentage: 100}]}
"""
PIPELINE_FILE = """version: 1
destinations:
  - name: Orders
    component: hedgerow/webhook
    settings: {url: "http://127.0.0.1:9/", secret: !env ORDERS_SECRET}
"""


def test_flags_are_applied_and_exported_as_on_the_database(
    live: LiveServer, tmp_path: Path
) -> None:
    file, exported = tmp_path / "flags.yaml", tmp_path / "exported.yaml"
    file.write_text(FLAG_FILE)
    planned = run(live, "flags", "apply", str(file), "--check")
    assert (planned.returncode, "  + from-a-file, new" in planned.stdout) == (1, True)
    assert "Confirm with --yes" in run(live, "flags", "apply", str(file)).stderr
    applied = run_json(live, "flags", "apply", str(file), "--yes")
    assert (applied["created"], applied["applied"]) == (["from-a-file"], True)
    assert evaluate(live)["from-a-file"] is True
    assert run(live, "flags", "apply", str(file), "--check").returncode == 0
    assert run(live, "flags", "export", "-o", str(exported)).returncode == 0
    here = run_in_process("flags", "export", data=live.data)
    assert exported.read_text() == here.stdout
    file.write_text(FLAG_FILE.replace("key: from-a-file", "key: not a key"))
    refused = run(live, "flags", "apply", str(file), "--yes")
    assert (refused.returncode, "flags.yaml: flags[0]" in refused.stderr) == (1, True), refused


def test_a_plan_that_has_changed_is_not_applied(live: LiveServer) -> None:
    path = "/api/projects/@current/documents/definitions/"
    document = {"version": 1, "events": [{"name": "paid", "description": "first"}]}
    with live.client() as client:
        shown = client.post(path, json={"document": document}).json()
        document["events"][0]["description"] = "second"  # type: ignore[index]
        body = {"document": document, "plan": shown["plan"]}
        assert client.post(path, json=body).status_code == 409
    assert "paid" not in run(live, "definitions", "export").stdout


def test_secrets_of_pipelines_come_from_the_environment_of_the_command(
    live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(PIPELINE_FILE)
    monkeypatch.setenv("ORDERS_SECRET", "only-here")
    done = run(live, "pipelines", "apply", str(file), "--yes")
    monkeypatch.delenv("ORDERS_SECRET")
    assert (done.returncode, "only-here" in done.stdout) == (0, False), done.stderr
    assert "secret: (secret) set" in done.stdout
    exported = run(live, "pipelines", "export").stdout
    assert ("!env" in exported, "only-here" in exported) == (True, False)
    assert run(live, "pipelines", "apply", str(file), "--check").returncode == 0


def test_other_documents_are_exported_and_applied(live: LiveServer, tmp_path: Path) -> None:
    for name in ("definitions", "dashboards"):
        file = tmp_path / f"{name}.yaml"
        assert run(live, name, "export", "-o", str(file)).returncode == 0
        assert run(live, name, "apply", str(file), "--check").stdout == "Nothing to change.\n"


def test_flags_are_explained_over_http(live: LiveServer) -> None:
    run(live, "flags", "create", "explained", "--property", "plan=pro", "--rollout", "100")
    command = ("flags", "evaluate", "explained", "ann", "--property", "plan=pro")
    here = run_in_process(*command, data=live.data)
    assert run(live, *command).stdout == here.stdout
    assert run_json(live, *command)["value"] is True
    assert "explained" in run(live, "flags", "evaluate", "ann").stdout
    assert "There is no flag" in run(live, "flags", "evaluate", "missing", "ann").stderr


def test_keys_are_managed_over_http(live: LiveServer) -> None:
    created = run_json(live, "keys", "create", "--label", "remote", "--scope", "plugin:read")
    assert created["value"].startswith("phx_")
    listed = run_json(live, "keys", "list")
    assert listed == json.loads(run_in_process("keys", "list", "--json", data=live.data).stdout)
    assert created["id"] in [key["id"] for key in listed]
    rolled = run_json(live, "keys", "roll", "remote")
    assert rolled["value"] not in (created["value"], None)
    assert run(live, "keys", "revoke", "remote").stdout == "Revoked 'remote'.\n"
    assert run(live, "keys", "revoke", "remote").returncode == 4
    refused = run_in_process("keys", "list", server_url=live.address, personal_key=rolled["value"])
    assert refused.returncode == 3


def test_projects_are_created_and_deleted_over_http(live: LiveServer) -> None:
    created = run_json(live, "projects", "create", "Short lived", "--timezone", "Europe/Oslo")
    assert created in run_json(live, "projects", "list")
    id = str(created["id"])
    secret = run_json(live, "projects", "secret", id, "--new")
    assert secret["secret_api_token"].startswith("phs_")
    assert "phs_" in run(live, "projects", "secret", id).stdout
    assert run_json(live, "projects", "secret", id)["secret_api_token"] is None
    asked = run(live, "projects", "delete", id)
    assert (asked.returncode, "Confirm with --yes" in asked.stderr) == (1, True)
    assert "unprocessed events" in asked.stdout
    deleted = run(live, "projects", "delete", id, "--yes")
    assert deleted.returncode == 0
    assert f"Deleted project {id}, 'Short lived'." in deleted.stdout
    assert run(live, "projects", "delete", id, "--yes").returncode == 4


def test_people_are_managed_over_http(live: LiveServer) -> None:
    invited = run_json(live, "users", "invite", "ann@example.com", "--role", "1=viewer")
    assert invited["link"].startswith(live.address)
    run_in_process("users", "add", "bo@example.com", "--name", "Bo", data=live.data)
    change = ("users", "role", "bo@example.com", "--role", "1=editor")
    wait_for(lambda: run(live, *change).returncode == 0, at_most_s=60)
    listed = run_json(live, "users", "list")
    assert listed == json.loads(run_in_process("users", "list", "--json", data=live.data).stdout)
    assert "1=editor" in run(live, "users", "list").stdout.lower()
    assert run(live, "users", "sessions", "bo@example.com").stdout == "No sessions.\n"
    role = run_json(live, "users", "roles", "create", "Surveyor", "--scope", "survey:write")
    assert role in run_json(live, "users", "roles", "list")
    assert run(live, "users", "roles", "remove", "Surveyor").returncode == 0
    removed = run_json(live, "users", "remove", "bo@example.com", "--yes")
    assert removed == {"email": "bo@example.com", "removed": True, "revoked_keys": 0}
    assert run(live, "users", "remove", "bo@example.com", "--yes").returncode == 4


def test_files_are_imported_with_the_login(
    live: LiveServer, login_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("event,distinct_id\nordered,ann\n")
    log_in(live, monkeypatch, PERSONAL_KEY)
    done = run_in_process("import", "files", str(file), "--json")
    assert (done.returncode, json.loads(done.stdout)["rows"]) == (0, 1), done.stderr


def test_options_choose_between_a_service_and_the_database(
    live: LiveServer, login_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "There is no installation" in run_in_process("keys", "list").stderr
    log_in(live, monkeypatch, PERSONAL_KEY)
    assert run_in_process("keys", "list").returncode == 0
    elsewhere = run_in_process("keys", "list", data=tmp_path / "absent")
    assert "There is no installation" in elsewhere.stderr
    both = run_in_process("keys", "list", "--server", live.address, data=live.data)
    assert "not both" in both.stderr
