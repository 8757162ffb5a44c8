"""Hostile requests to every endpoint on PostgreSQL, from several connections: no 5xx, no damage."""

import copy
import http.client
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer
from tests.support.postgres import PostgresTestServer

REQUESTS = 800
CONNECTIONS = 16
TEXTS = [
    *(
        "",
        "\0",
        "\ud800",
        "a" * 500,
        "%",
        "'",
        "\\",
        "{{ 1 }}",
        "(a+)+$",
        "(?=",
        "NaN",
        "-1",
        "1e400",
    ),
    *(
        "9" * 30,
        "2024-13-45",
        "0000-00-00",
        "10000-01-01",
        "-99999999999d",
        "ffffffff-ffff-ffff-ffff",
    ),
    *(
        "1970-01-01T00:00:00+99:99",
        "-99999999999999999_0189-x",
        "٣",
        "\u202e",
        "__proto__",
        "*",
        "[[",
    ),
]
NUMBERS = [0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 1.5, 1e308, 5e-324]
VALUES: list[Any] = [*TEXTS, *NUMBERS, None, True, [], {}, [[]], {"": ""}, [1, "a", None]]
FILTER = {"key": "plan", "type": "person", "value": ["a"], "operator": "exact"}
CONDITIONS = {"groups": [{"properties": [FILTER], "rollout_percentage": 50, "variant": None}]}
EVENT = {
    "event": "$identify",
    "distinct_id": "d",
    "timestamp": "2026-01-01T00:00:00Z",
    "properties": {"$anon_distinct_id": "a", "$set": {"x": 1}, "$groups": {"org": "g"}},
}
HOGQL = {"kind": "HogQLQuery", "query": "select {v}", "values": {"v": 1}, "filters": {}}
# A valid body for each path that ends so.
BODIES: dict[str, Any] = {
    "feature_flags/": {"key": "f", "name": "n", "filters": CONDITIONS, "tags": ["t"]},
    "cohorts/": {"name": "c", "filters": {"properties": {"type": "OR", "values": [FILTER]}}},
    "persons/": {"distinct_ids": ["p", "q"], "properties": {"email": "a@b.c"}},
    "groups/": {"group_type_index": 0, "group_key": "g", "group_properties": {"a": 1}},
    "groups_types/": {"group_type": "org"},
    "surveys/": {
        "name": "s",
        "type": "popover",
        "questions": [{"type": "open", "question": "q"}],
        "targeting_flag_filters": CONDITIONS,
    },
    "actions/": {
        "name": "a",
        "tags": ["t"],
        "steps": [{"event": "e", "url": "/", "selector": "a > b", "properties": [FILTER]}],
    },
    "experiments/": {"name": "e", "feature_flag_key": "x", "parameters": {}},
    "early_access_feature/": {"name": "e", "stage": "beta"},
    "pipeline_destination_configs/": {"plugin": 1, "enabled": True, "order": 1},
    "pipeline_transformation_configs/": {"plugin": 61, "enabled": True, "order": 1},
    "config/": {"url": "https://192.0.2.1/", "headers": {"x": "y"}, "body": {"a": "{{ event }}"}},
    "rearrange/": {"orders": {"1": 1, "2": 0}},
    "job/": {"type": "replay", "payload": {"dateFrom": "2026-01-01"}},
    "query/": {"query": HOGQL, "refresh": "force_blocking"},
    "personal_api_keys/": {"label": "l", "scopes": ["feature_flag:read"]},
    "decide": {"api_key": PROJECT_KEY, "distinct_id": "d", "person_properties": {"plan": "a"}},
    "batch": {"api_key": PROJECT_KEY, "batch": [EVENT, EVENT]},
}
IDS = ["1", "2", "0", "-1", "9" * 30, str(2**63), "abc", "%00", "%ff", "1.5", "a" * 500]
# Would end the keys of the test.
EXCLUDED = ("_token", "/stream/", "@me", "/roll/")


def _iter_places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in list(keys):
        yield value, key
        yield from _iter_places(value[key])


def _mutate(body: Any, rng: random.Random) -> Any:
    body = copy.deepcopy(body)
    for name in ("key", "name", "feature_flag_key"):
        if name in body:
            # Few names, so that requests conflict.
            body[name] = f"{body[name]}{rng.randrange(9)}"
    if rng.random() < 0.3:
        return body
    holder, key = rng.choice(list(_iter_places(body)))
    holder[key] = rng.choice(VALUES)
    return body


def _find_body(path: str) -> Any:
    endings = [each for each in BODIES if path.rstrip("/").endswith(each.rstrip("/"))]
    owners = [each for each in BODIES if f"/{each}" in path]
    return BODIES[max(endings or owners, key=len)] if endings or owners else {"name": "n"}


def _build_request(operations: list[tuple[str, str, list[str]]], rng: random.Random) -> Any:
    method, template, parameters = rng.choice(operations)
    path = template.replace("{project_id}", "1" if rng.random() < 0.9 else rng.choice(IDS))
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + (str(rng.randrange(1, 20)) if rng.random() < 0.5 else rng.choice(IDS))
        path += rest.partition("}")[2]
    chosen = rng.sample(parameters, min(len(parameters), rng.randrange(3)))
    texts = [(name, str(rng.choice(VALUES)).encode(errors="surrogatepass")) for name in chosen]
    query = "&".join(f"{name}={quote(text)}" for name, text in texts)
    has_body = method in ("POST", "PUT", "PATCH")
    body = json.dumps(_mutate(_find_body(template), rng)).encode() if has_body else None
    if body and rng.random() < 0.05:
        body = body[: rng.randrange(len(body))]
    return method, f"{path}?{query}", body


def _send_all(server: LiveServer, requests: list[Any]) -> list[tuple[int, Any, bytes]]:
    headers = {"authorization": f"Bearer {PERSONAL_KEY}", "content-type": "application/json"}
    host, port = server.address.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    results = []
    for method, path, body in requests:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        results.append((response.status, (method, path, body), response.read()))
    connection.close()
    return results


def test_hostile_requests_to_every_endpoint_get_no_5xx(
    tmp_path: Path, postgres: PostgresTestServer, tell: Callable[[str], None]
) -> None:
    rng = random.Random("hostile")
    with LiveServer(tmp_path, database_url=postgres.create_migrated_database()) as server:
        with server.client() as client:
            document = client.get("/api/schema/").json()
        operations = [
            (
                method.upper(),
                path,
                [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"],
            )
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if not path.startswith("/api/environments") and not any(e in path for e in EXCLUDED)
            # Without the project, all others would be 404.
            if (method, path) != ("delete", "/api/projects/{project_id}/")
        ]
        parts = [
            [_build_request(operations, rng) for _ in range(REQUESTS // CONNECTIONS)]
            for _ in range(CONNECTIONS)
        ]
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            results = [
                each for part in threads.map(lambda p: _send_all(server, p), parts) for each in part
            ]
        with server.client() as client:
            assert client.post("/decide/", json=BODIES["decide"]).status_code == 200
    wrong = [each for each in results if each[0] >= 500 and b"service_unavailable" not in each[2]]
    assert wrong == []
    counts = Counter(status for status, _, _ in results)
    tell(f"{len(results)} hostile requests, responses {dict(sorted(counts.items()))}")
    assert counts[200] + counts[201] > REQUESTS / 10
    assert counts[503] < REQUESTS / 10
    assert "Traceback" not in server.errors
