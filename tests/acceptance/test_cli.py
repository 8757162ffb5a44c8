"""Commands next to a running server, on both engines: the server sees changes at once."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from tests.support.live import (
    PROJECT_KEY,
    Installation,
    LiveServer,
    wait_for,
)

# A revoked key stops working within a second; a busy machine gets more.
SOON_S = 60.0
NARROW = ("--scope", "project:read", "--scope", "plugin:write", "--project", "1")


@pytest.fixture(scope="module")
def made(installation: Installation) -> Any:
    """Run the first `init --json`."""
    return installation.run_json("init")


@pytest.fixture(scope="module")
def server(installation: Installation, made: Any) -> Iterator[LiveServer]:
    with installation.server() as server:
        yield server


@pytest.fixture(scope="module")
def repeated(
    installation: Installation, server: LiveServer
) -> Mapping[str, subprocess.CompletedProcess[str]]:
    """Run commands that have nothing to do."""
    commands = ("init --json", "migrate --check", "doctor")
    return {line: installation.run_in_process(*line.split()) for line in commands}


@pytest.fixture(scope="module")
def keys(installation: Installation, server: LiveServer) -> Mapping[str, Any]:
    """Create keys, by label."""
    grants: Mapping[str, tuple[str, ...]] = {"wide": (), "narrow": NARROW}
    return {
        label: installation.run_json("keys", "create", "--label", label, *grant)
        for label, grant in grants.items()
    }


@pytest.fixture(scope="module")
def project(installation: Installation, server: LiveServer) -> Any:
    return installation.run_json("projects", "create", "Garden", "--timezone", "Europe/Oslo")


def test_init_makes_everything_and_prints_the_keys(made: Any) -> None:
    assert made["setup_link"].startswith("http://127.0.0.1:")
    assert "/#setup=" in made["setup_link"]
    assert {**made, "setup_link": None} == {
        "setup_link": None,
        "created": True,
        "project_id": 1,
        "project_key": PROJECT_KEY,
        # It is configured.
        "personal_key": None,
    }


def test_a_server_after_init_prints_no_secret(server: LiveServer) -> None:
    assert "phx_" not in server.output + server.errors


def test_init_again_changes_nothing_and_shows_no_secret(
    made: Any, repeated: Mapping[str, subprocess.CompletedProcess[str]]
) -> None:
    again = repeated["init --json"]
    assert (again.returncode, again.stderr) == (0, "")
    assert json.loads(again.stdout) == {
        **made,
        "created": False,
        "personal_key": None,
        "setup_link": None,
    }


def test_a_check_of_the_migrations_finds_nothing_to_do(
    repeated: Mapping[str, subprocess.CompletedProcess[str]],
) -> None:
    assert repeated["migrate --check"].returncode == 0
    assert repeated["migrate --check"].stdout.startswith("Up to date")


def test_doctor_finds_it_healthy(
    installation: Installation, repeated: Mapping[str, subprocess.CompletedProcess[str]]
) -> None:
    engine = "PostgreSQL 18" if installation.settings else "SQLite 3"
    assert repeated["doctor"].returncode == 0, repeated["doctor"].stdout
    assert f"engine: {engine}" in repeated["doctor"].stdout


def test_a_key_of_the_command_line_works_in_the_running_server_at_its_first_request(
    server: LiveServer, keys: Mapping[str, Any]
) -> None:
    assert _status(server, keys["wide"]["value"], "/api/projects/1/") == 200
    assert (keys["wide"]["scopes"], keys["wide"]["scoped_teams"]) == (["*"], [])


def test_a_project_of_the_command_line_is_in_the_running_server_at_its_first_request(
    server: LiveServer, project: Any
) -> None:
    with server.client() as client:
        shown = client.get(f"/api/projects/{project['id']}/").json()
    assert {name: shown[name] for name in project} == project
    assert (project["name"], project["timezone"]) == ("Garden", "Europe/Oslo")


def test_a_key_is_held_to_its_scopes_and_projects(
    server: LiveServer, keys: Mapping[str, Any], project: Any
) -> None:
    value = keys["narrow"]["value"]
    assert keys["narrow"]["scopes"] == ["project:read", "plugin:write"]
    assert keys["narrow"]["scoped_teams"] == [1]
    assert _status(server, value, "/api/projects/1/") == 200
    assert _status(server, value, "/api/environments/1/pipeline_destination_configs/") == 200
    assert _status(server, value, f"/api/projects/{project['id']}/") == 403
    assert _status(server, value, "/api/projects/1/activity_log/") == 403


@pytest.fixture(scope="module")
def rolled(installation: Installation, server: LiveServer, keys: Mapping[str, Any]) -> Any:
    assert _status(server, keys["wide"]["value"]) == 200
    return installation.run_json("keys", "roll", "wide")


def test_a_rolled_key_has_a_new_value_and_the_old_one_ends(
    server: LiveServer, keys: Mapping[str, Any], rolled: Any
) -> None:
    old = keys["wide"]
    wait_for(lambda: _status(server, old["value"]) == 401, at_most_s=SOON_S)
    assert _status(server, rolled["value"]) == 200
    assert rolled["id"] == old["id"]


def test_a_revoked_key_ends_and_the_list_no_longer_has_it(
    installation: Installation, server: LiveServer, rolled: Any
) -> None:
    assert _status(server, rolled["value"]) == 200
    done = installation.run_in_process("keys", "revoke", rolled["id"])
    assert (done.returncode, done.stdout) == (0, "Revoked 'wide'.\n")
    wait_for(lambda: _status(server, rolled["value"]) == 401, at_most_s=SOON_S)
    listed = installation.run_json("keys", "list")
    assert [(key["label"], key["mask_value"][:7]) for key in listed] == [
        ("narrow", "phx_..."),
        ("First key", "phx_..."),
    ]
    assert [key for key in listed if "value" in key] == []


def test_projects_list_shows_all_with_their_public_keys(
    installation: Installation, project: Any
) -> None:
    listed = installation.run_json("projects", "list")
    assert [(item["id"], item["api_token"]) for item in listed] == [
        (1, PROJECT_KEY),
        (project["id"], project["api_token"]),
    ]


def test_secret_keys_of_the_command_line_open_definitions(
    installation: Installation, server: LiveServer, project: Any
) -> None:
    def secret(*options: str) -> Any:
        return installation.run_json("projects", "secret", str(project["id"]), *options)

    none = {"secret_api_token_mask": None, "secret_api_token_backup_mask": None}
    nothing = {"id": project["id"], "name": "Garden", "secret_api_token": None, **none}
    assert secret() == nothing
    first, second = secret("--new"), secret("--new")
    values = [each["secret_api_token"] for each in (first, second)]
    assert second["secret_api_token_backup_mask"] == first["secret_api_token_mask"]
    assert [_status(server, value, "/flags/definitions") for value in values] == [200, 200]
    assert secret() == {**second, "secret_api_token": None}
    ended = secret("--end-previous")
    assert ended["secret_api_token_backup_mask"] is None
    gone, kept = values
    wait_for(lambda: _status(server, gone, "/flags/definitions") == 401, at_most_s=120)
    assert _status(server, kept, "/flags/definitions") == 200
    shown = installation.run_in_process("projects", "secret", str(project["id"]))
    assert (shown.returncode, kept in shown.stdout) == (0, False)
    assert second["secret_api_token_mask"] in shown.stdout
    missing = installation.run_in_process("projects", "secret", "999")
    assert missing.returncode == 4
    assert "No project has the id 999" in missing.stderr


def _status(server: LiveServer, key: str, path: str = "/api/users/@me/") -> int:
    given = {"Authorization": f"Bearer {key}"}
    return httpx.get(server.address + path, headers=given, timeout=60, verify=False).status_code
