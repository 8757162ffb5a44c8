"""Thousands of requests that are generated from the OpenAPI document get no 5xx."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hedgerow.http.sdk.capture import EVENT_PATHS
from tests.contract.api.fuzz import Fuzz
from tests.contract.api.operations import (
    FIRST_FAMILY,
    ONE_FAMILY_OPERATIONS,
    SDK_OPERATIONS,
    Operation,
    create_objects,
)
from tests.support.live import PROJECT_KEY, LiveServer

HOSTILE_REQUESTS = 10_000


def can_fuzz(operation: Operation) -> bool:
    """Whether to fuzz an SDK operation. One capture path stands for all, streams never end, probes
    take no input, and the error of a missing site app has PostHog's own shape."""
    is_alias = operation.path in (*EVENT_PATHS, "/engage") and operation.path != "/batch"
    is_alias |= operation.path.startswith("/v1/") and operation.path != "/v1/batch"
    is_special = operation.path.startswith(("/_", "/metrics", "/site_app/"))
    return not (operation.is_streaming or is_alias or is_special)


def restrict(document: dict[str, Any], operations: list[Operation]) -> dict[str, Any]:
    """Restrict the document to these operations."""
    paths = {path: document["paths"][path] for path in dict.fromkeys(o.path for o in operations)}
    return {**document, "paths": paths}


def test_ten_thousand_hostile_requests_get_no_5xx_and_one_error_shape(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    with LiveServer(tmp_path) as server, server.client() as admin:

        def new_key(label: str, **more: Any) -> dict[str, Any]:
            body = {"label": label, "scopes": ["*"], **more}
            created: dict[str, Any] = admin.post("/api/personal_api_keys/", json=body).json()
            return created

        project, other = (admin.post("/api/projects/", json={}).json()["id"] for _ in range(2))
        ids = create_objects(admin, project, new_key("Victim")["id"])
        fuzz = Fuzz(
            base_url=server.address,
            known_ids=ids.for_family(FIRST_FAMILY),
            # A separate key: the fuzzer may revoke keys, and the checks afterwards need one.
            key=new_key("Fuzz")["value"],
            limited_key=new_key("Limited", scoped_teams=[other])["value"],
            project_key=PROJECT_KEY,
        )
        document = admin.get("/api/schema/").json()
        operations = [*ONE_FAMILY_OPERATIONS, *(o for o in SDK_OPERATIONS if can_fuzz(o))]
        fuzz.run(restrict(document, operations))
        with server.client(key=fuzz.key) as fuzzer:
            assert fuzzer.get("/api/personal_api_keys/@current/").status_code == 200
        assert admin.get("/_readiness").json() == {"status": "ready", "missing": []}
        assert admin.get(f"/api/projects/{other}/").status_code == 200
    sent = fuzz.status_counts.total()
    counts = ", ".join(f"{status}: {count}" for status, count in sorted(fuzz.status_counts.items()))
    tell(f"{sent} hostile requests, responses {counts}")
    assert not fuzz.errors, fuzz.errors[:10]
    assert sent >= HOSTILE_REQUESTS
    # The fuzzer reaches success, every kind of refusal and unknown paths.
    assert fuzz.status_counts.keys() >= {200, 201, 204, 400, 403, 404, 405}
