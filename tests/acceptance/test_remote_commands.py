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
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer, run_in_process


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
        (("show", "missing"), 4, "Not found"),
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
