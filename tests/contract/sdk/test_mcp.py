"""Assistants: the official MCP package against a live server, over HTTP and `hedgerow mcp`."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from tests.contract.sdk.sdk_process import FOLDER, VIRTUAL_ENVIRONMENT, find_folder
from tests.support.live import HEDGEROW, PERSONAL_KEY, LiveServer, build_environment

PACKAGES = "HEDGEROW_TEST_MCP", VIRTUAL_ENVIRONMENT / "mcp"
PROJECT = "/api/projects/1"
EVERYONE = {"groups": [{"properties": [], "rollout_percentage": 100}]}
TOOLS = [
    "list_projects",
    "find_flags",
    "get_flag",
    "explain_evaluation",
    "query_events",
    "find_events",
    "draft_change",
    "apply_change",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("mcp")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


def run_assistant(
    task: Mapping[str, Any], *calls: tuple[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Call tools with the official package and return the results."""
    environment = build_environment()
    environment["PYTHONPATH"] = str(find_folder(*PACKAGES, "mcp"))
    done = subprocess.run(
        [sys.executable, str(FOLDER / "mcp_driver.py")],
        input=json.dumps({**task, "calls": calls}),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["tools"] == TOOLS
    is_legacy = task.get("mode") == "legacy"
    assert answer["version"] == ("2025-11-25" if is_legacy else "2026-07-28")
    results: list[dict[str, Any]] = answer["results"]
    return results


def build_task(server: LiveServer, transport: str) -> dict[str, Any]:
    if transport == "http":
        return {"url": f"{server.address}/mcp", "key": PERSONAL_KEY}
    command = [str(HEDGEROW), "mcp", "--server", server.address, "--key", PERSONAL_KEY]
    return {"command": command, "environment": build_environment()}


def create_flag(client: httpx.Client, key: str, **fields: Any) -> dict[str, Any]:
    made = client.post(f"{PROJECT}/feature_flags/", json={"key": key, **fields})
    assert made.status_code == 201, made.text
    flag: dict[str, Any] = made.json()
    return flag


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_assistant_reads_explains_queries_and_changes(
    server: LiveServer, client: httpx.Client, transport: str, mode: str
) -> None:
    """`auto` is the newest revision of the package, `legacy` the newest with a handshake."""
    task = {**build_task(server, transport), "mode": mode}
    transport = f"{transport}-{mode}"
    key = f"cart-{transport}"
    create_flag(client, key, filters={"groups": [{"properties": [], "rollout_percentage": 0}]})
    event = {"api_key": "", "event": f"paid {transport}", "distinct_id": "ann"}
    token = client.get(f"{PROJECT}/").json()["api_token"]
    assert client.post("/capture/", json={**event, "api_key": token}).status_code == 200

    change = {"flag": key, "rollout_percentage": 100}
    projects, found, reasons, rows, events, draft, applied, late = run_assistant(
        task,
        ("list_projects", {}),
        ("find_flags", {"search": key, "state": "enabled"}),
        ("explain_evaluation", {"distinct_id": "ann", "flag": key}),
        ("query_events", {"query": f"select event from events where event = 'paid {transport}'"}),
        ("find_events", {"search": f"paid {transport}"}),
        ("draft_change", change),
        ("apply_change", {**change, "version": 1}),
        ("apply_change", {**change, "rollout_percentage": 50, "version": 1}),
    )
    assert projects["data"]["projects"] == [{"id": 1, "name": "Default project"}]
    assert [each["key"] for each in found["data"]["flags"]] == [key]
    assert reasons["data"]["flags"][key]["evaluation"]["reason"] == "out_of_rollout_bound"
    assert rows["data"] == {"columns": ["event"], "rows": [[event["event"]]], "has_more": False}
    assert [each["name"] for each in events["data"]["events"]] == [event["event"]]
    assert draft["data"]["version"] == 1
    assert draft["data"]["after"] == {"filters": EVERYONE}
    assert draft["data"]["what_if"]["changed_persons"] == draft["data"]["what_if"]["total_persons"]
    assert applied["data"]["is_applied"] is True
    assert applied["data"]["filters"] == EVERYONE
    assert late["is_error"], late
    assert "updated" in late["text"]
    assert client.get(f"{PROJECT}/feature_flags/{key}/").json()["filters"] == EVERYONE


def test_gated_change_becomes_a_change_request(server: LiveServer, client: httpx.Client) -> None:
    create_flag(client, "gated", active=False, tags=["reviewed"], filters=EVERYONE)
    policy = {
        "action_key": "feature_flag.*",
        "conditions": {"tags": ["reviewed"]},
        "approver_config": {"quorum": 1},
    }
    made = client.post(f"{PROJECT}/approval_policies/", json=policy)
    assert made.status_code == 201, made.text
    (result,) = run_assistant(
        build_task(server, "http"),
        ("apply_change", {"flag": "gated", "active": True, "version": 1}),
    )
    assert result["data"]["is_applied"] is False
    assert "requires approval" in result["data"]["detail"]
    assert client.get(f"{PROJECT}/feature_flags/gated/").json()["active"] is False
    request = client.get(f"{PROJECT}/change_requests/{result['data']['change_request_id']}/").json()
    assert request["state"] == "pending"


def test_tools_have_the_scopes_of_the_key(server: LiveServer, client: httpx.Client) -> None:
    create_flag(client, "scoped", filters=EVERYONE)
    body = {"label": "assistant", "scopes": ["feature_flag:read"]}
    key = client.post("/api/personal_api_keys/", json=body).json()["value"]
    task = {"url": f"{server.address}/mcp", "key": key}
    found, refused, unwritten, unknown = run_assistant(
        task,
        ("get_flag", {"flag": "scoped"}),
        ("query_events", {"query": "select 1"}),
        ("apply_change", {"flag": "scoped", "active": False, "version": 1}),
        ("get_flag", {"flag": "scoped", "project": 999_999}),
    )
    assert found["data"]["key"] == "scoped"
    assert refused["is_error"]
    assert "query:read" in refused["text"]
    assert unwritten["is_error"]
    assert "feature_flag:write" in unwritten["text"]
    assert unknown["is_error"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]},
        {"jsonrpc": "2.0", "id": 1, "method": "resources/list"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": ["get_flag"]}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "drop"}},
    ],
)
def test_message_that_is_no_request_is_an_error_of_the_protocol(
    client: httpx.Client, message: Any
) -> None:
    answer = client.post("/mcp", json=message)
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] in (-32600, -32601, -32602)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_flag", {"flag": "../../personal_api_keys"}),
        ("get_flag", {"flag": ""}),
        ("get_flag", {"flag": "activity"}),
        ("get_flag", {"flag": "1/activity"}),
        ("draft_change", {"flag": "activity", "active": False}),
        ("apply_change", {"flag": "activity", "active": False, "version": 1}),
        ("get_flag", {"flag": "x", "project": "1/../2"}),
        ("get_flag", "flag"),
        ("find_flags", {"limit": 10_000_000}),
        ("find_flags", {"serach": "x"}),
        ("query_events", {"query": "drop table events"}),
        ("explain_evaluation", {"distinct_id": "ann", "groups": {"company": 5}}),
        ("apply_change", {"flag": "none-such", "version": 1}),
        ("draft_change", {"flag": "none-such", "active": True}),
    ],
)
def test_wrong_arguments_are_errors_that_an_assistant_reads(
    client: httpx.Client, name: str, arguments: Any
) -> None:
    params = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = client.post("/mcp", json=body)
    assert answer.status_code == 200
    assert answer.json()["result"]["isError"], answer.text
    assert answer.json()["result"]["content"][0]["text"]


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
VERSION = {"MCP-Protocol-Version": "2026-07-28"}


@pytest.mark.parametrize(
    ("method", "meta", "headers", "status", "code"),
    [
        ("server/discover", META, VERSION | {"Mcp-Method": "server/discover"}, 200, None),
        ("server/discover", META, {}, 200, None),
        ("server/discover", META, VERSION | {"Mcp-Method": "tools/list"}, 400, -32020),
        ("server/discover", {}, VERSION | {"Mcp-Method": "server/discover"}, 400, -32602),
        ("ping", META, VERSION | {"Mcp-Method": "ping"}, 404, -32601),
        ("ping", META | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}, {}, 200, -32022),
    ],
)
def test_message_of_the_stateless_revision_agrees_with_its_headers(
    client: httpx.Client, method: str, meta: Any, headers: Any, status: int, code: int | None
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
    answer = client.post("/mcp", json=body, headers=headers)
    assert (answer.status_code, answer.json().get("error", {}).get("code")) == (status, code)
    if code is None:
        result = answer.json()["result"]
        assert (result["resultType"], result["supportedVersions"]) == ("complete", ["2026-07-28"])


def test_key_is_needed_and_streams_are_not_offered(
    server: LiveServer, client: httpx.Client
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert httpx.post(f"{server.address}/mcp", json=message).status_code == 401
    assert client.get("/mcp").status_code == 405
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert client.post("/mcp", json=notification).status_code == 202


def test_command_reports_an_unreachable_service() -> None:
    done = subprocess.run(
        [str(HEDGEROW), "mcp", "--server", "http://127.0.0.1:9", "--key", "phx_0123456789abcdef"],
        input='nonsense\n{"jsonrpc": "2.0", "id": 4, "method": "ping"}\n',
        env=build_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["error"]["code"] == -32700
    assert second["id"] == 4
    assert "does not answer" in second["error"]["message"]
