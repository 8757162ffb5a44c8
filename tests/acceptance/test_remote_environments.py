"""Environments, flags of products, dead letters, components and deletion of events: commands print
the same on a service and on its database."""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer, run_in_process, wait_for

PRODUCT_FILE = """version: 1
flags:
  - key: whole
    name: Everywhere
    filters: {groups: [{properties: [], rollout_percentage: 100}]}
    environments:
      live: {active: false}
"""
SCHEMA = {"properties": {"amount": {"type": "number"}}, "required": ["amount"]}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("remote")) as server:
        yield server


def run(
    live: LiveServer, *arguments: str, key: str = PERSONAL_KEY, project: str = "0"
) -> CompletedProcess[str]:
    return run_in_process(*arguments, server_url=live.address, personal_key=key, project=project)


def run_json(live: LiveServer, *arguments: str) -> Any:
    done = run(live, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_both(live: LiveServer, *arguments: str) -> str:
    """Run a command that changes nothing on the service and on its database."""
    there, here = run(live, *arguments), run_in_process(*arguments, data=live.data)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout), there.stderr
    return there.stdout


@pytest.fixture(scope="module")
def projects(live: LiveServer) -> tuple[str, str]:
    made = [run_json(live, "projects", "create", name) for name in ("Dev", "Live")]
    return str(made[0]["id"]), str(made[1]["id"])


@pytest.fixture(scope="module")
def shop(live: LiveServer, projects: tuple[str, str]) -> str:
    dev, live_project = projects
    made = run(live, "environments", "create", "Shop", f"dev={dev}")
    assert made.stdout == f"Created 'Shop': dev (project {dev}).\n", made.stderr
    added = run_json(live, "environments", "add", "Shop", f"live={live_project}")
    assert [each["name"] for each in added["environments"]] == ["dev", "live"]
    return "Shop"


def test_environments_are_managed_over_http(live: LiveServer, shop: str) -> None:
    assert "Shop     live" in run_both(live, "environments", "list")
    run_both(live, "environments", "list", "--json")
    protected = run(live, "environments", "protect", shop, "live")
    assert "protected" in protected.stdout, protected.stderr
    refused = run(live, "environments", "protect", shop, "live", "--off")
    assert (refused.returncode, "X-Break-Glass" in refused.stderr) == (1, True)
    reason = ("--break-glass", "end of the test")
    assert run(live, "environments", "protect", shop, "live", "--off", *reason).returncode == 0
    assert run(live, "environments", "protect", "Missing", "live").returncode == 4
    assert "There is no environment x" in run(live, "environments", "protect", shop, "x").stderr


def test_a_product_that_others_have_changed_is_not_overwritten(
    live: LiveServer, shop: str, projects: tuple[str, str]
) -> None:
    path = (
        f"/api/organizations/@current/products/{run_json(live, 'environments', 'list')[0]['id']}/"
    )
    seen = [{"name": "dev", "project_id": int(projects[0])}]
    with live.client() as client:
        body = {"environments": [], "expected_environments": seen}
        assert client.patch(path, json=body).status_code == 409
        assert len(client.get(path).json()["environments"]) == 2


def test_flags_are_promoted_and_compared_over_http(
    live: LiveServer, shop: str, projects: tuple[str, str]
) -> None:
    run(live, "flags", "create", "cart", "--rollout", "100", "--project", projects[0])
    promote = ("environments", "promote", shop, "dev", "live", "--flag", "cart")
    assert "  + cart, new" in run_both(live, *promote, "--dry-run")
    run_both(live, *promote, "--dry-run", "--json")
    assert "cart" in run_both(live, "environments", "matrix", shop, "--drifting")
    asked = run(live, *promote)
    assert (asked.returncode, "Confirm with --yes" in asked.stderr) == (1, True)
    assert run_json(live, *promote, "--yes")["created"] == ["cart"]
    assert run(live, *promote, "--yes").stdout == "Nothing to change.\n"
    run(live, "flags", "rollout", "cart", "10", "--project", projects[0])
    assert "rollout_percentage: 100 -> 10" in run_both(live, *promote, "--dry-run")
    run_both(live, "environments", "matrix", shop, "--json", "--search", "cart")
    wrong = run(live, "environments", "promote", shop, "dev", "prod", "--all", "--yes")
    assert "There is no environment" in wrong.stderr


def test_a_variable_chooses_the_project(
    live: LiveServer, shop: str, projects: tuple[str, str]
) -> None:
    dev, other = projects
    run(live, "flags", "create", "chosen", project=dev)
    assert "chosen" in run(live, "flags", "export", project=dev).stdout
    assert "chosen" in run_in_process("flags", "export", data=live.data, project=dev).stdout
    assert run(live, "flags", "show", "chosen", "--project", other, project=dev).returncode == 4
    exported = run(live, "flags", "export", "--product", shop, project=dev)
    assert (exported.returncode, "chosen" in exported.stdout) == (0, True), exported.stderr
    unchosen = run(live, "flags", "list")
    assert f"--project or HEDGEROW_PROJECT: 1 (Default project), {dev} (Dev)" in unchosen.stderr


def test_flags_of_a_product_are_applied_and_exported_over_http(
    live: LiveServer, shop: str, projects: tuple[str, str], tmp_path: Path
) -> None:
    file, product = tmp_path / "product.yaml", ("--product", shop)
    file.write_text(PRODUCT_FILE)
    planned = run(live, "flags", "apply", str(file), *product, "--check")
    assert (planned.returncode, planned.stdout.count("  + whole, new")) == (1, 2), planned.stderr
    applied = run_json(live, "flags", "apply", str(file), *product, "--yes")
    assert applied["created"] == ["dev: whole", "live: whole"]
    shown = [run_json(live, "flags", "show", "whole", "--project", each) for each in projects]
    assert [each["active"] for each in shown] == [True, False]
    assert "whole" in run_both(live, "flags", "export", *product)
    file.write_text(run_both(live, "flags", "export", *product, "--json"))
    assert run(live, "flags", "apply", str(file), *product, "--check").returncode == 0
    assert "not both" in run(live, "flags", "export", *product, "--project", "1").stderr
    assert run(live, "flags", "export", "--product", "Missing").returncode == 4


def test_a_key_of_one_environment_does_not_apply_to_all(
    live: LiveServer, shop: str, projects: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "product.yaml"
    file.write_text(PRODUCT_FILE.replace("Everywhere", "Nowhere"))
    scopes = ("--scope", "feature_flag:write", "--scope", "project:read")
    made = run_json(live, "keys", "create", "--label", "dev", *scopes, "--project", projects[0])[
        "value"
    ]
    refused = run(live, "flags", "apply", str(file), "--product", shop, "--yes", key=made)
    assert refused.returncode == 3, refused.stderr
    assert "Nowhere" not in run(live, "flags", "export", "--product", shop).stdout


def test_components_are_listed_over_http(live: LiveServer) -> None:
    assert "Webhook" in run_both(live, "components")
    run_both(live, "components", "--json")


def capture(live: LiveServer, event: str, *amounts: Any) -> None:
    with live.client(key=None) as client:
        for amount in amounts:
            properties = {"amount": amount}
            body = {"event": event, "distinct_id": "ann", "properties": properties}
            assert client.post("/capture/", json={"api_key": PROJECT_KEY, **body}).is_success


def test_dead_letters_are_handled_over_http(live: LiveServer) -> None:
    only = ("--project", "1")
    with live.client() as client:
        body = {"name": "billed", "schema": SCHEMA, "schema_mode": "reject"}
        made = client.post("/api/projects/1/event_definitions/", json=body)
        assert made.status_code == 201, made.text

    def list_letters() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = run_json(live, "events", "dead-letters", "list", *only)
        return listed

    capture(live, "billed", "a", "b", "c", "d")
    wait_for(lambda: len(list_letters()) == 4, at_most_s=120)
    first, second, *_ = listed = list_letters()
    here = run_in_process("events", "dead-letters", "list", "--json", data=live.data)
    assert listed == json.loads(here.stdout)
    id = str(first["id"])
    shown = json.loads(run(live, "events", "dead-letters", "show", id, *only).stdout)
    here = run_in_process("events", "dead-letters", "show", id, data=live.data)
    assert shown == json.loads(here.stdout)
    gone = run_json(live, "events", "dead-letters", "discard", id, "999999", "--yes", *only)
    assert gone == {"events": 1}
    assert run(live, "events", "dead-letters", "show", id, *only).returncode == 4
    # Its schema still refuses the event.
    retried = run(live, "events", "dead-letters", "retry", str(second["id"]), *only)
    assert retried.stdout == "Queued 1 event(s) for another attempt.\n", retried.stderr
    wait_for(lambda: max([0, *(each["id"] for each in list_letters())]) > listed[-1]["id"], 120)
    asked = run(live, "events", "dead-letters", "discard", "--all", *only)
    assert (asked.returncode, "Confirm with --yes" in asked.stderr) == (1, True)
    with live.client() as client:
        path = f"/api/projects/1/event_definitions/{made.json()['id']}/"
        assert client.patch(path, json={"schema_mode": "off"}).is_success
    assert run_json(live, "events", "dead-letters", "retry", "--all", *only) == {"events": 3}
    run_json(live, "events", "dead-letters", "discard", "--all", "--yes", *only)
    assert list_letters() == []
    refused = run_in_process("events", "dead-letters", "list", *only, data=live.data)
    assert (refused.returncode, "is for a service" in refused.stderr) == (1, True)


def test_events_are_deleted_over_http(live: LiveServer) -> None:
    capture(live, "unwanted", 1, 2)
    delete = ("events", "delete", "--event", "unwanted", "--project", "1")
    query = ("query", "select count() from events where event = 'unwanted'", "--project", "1")
    wait_for(lambda: run_json(live, *query)["results"] == [[2]], at_most_s=120)
    asked = run(live, *delete)
    assert (asked.returncode, "Confirm with --yes" in asked.stderr) == (1, True)
    assert asked.stdout.startswith("2 event(s) of project 1, ")
    assert run_json(live, *delete, "--yes") == {"project": 1, "deleted": 2}
    assert "0 event(s)" in run(live, *delete).stdout
    assert "Specify which events" in run(live, "events", "delete", "--project", "1").stderr
