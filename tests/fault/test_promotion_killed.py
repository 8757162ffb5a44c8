"""A process is killed between the approval of a promotion and its write: all flags are promoted, or
none, and none twice."""

import contextlib
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.support.live import LiveServer, wait_for

FLAGS = 30
PRODUCTS = "/api/organizations/@current/products/"


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "sqlite":
        return {}
    return {
        "database_url": request.getfixturevalue("postgres").create_migrated_database(),
        "clickhouse_url": request.getfixturevalue("clickhouse").create_database(),
        "encryption_keys": generate_encryption_key(),
    }


def prepare(client: httpx.Client) -> tuple[int, str]:
    """Create flags and a protected environment without them. Return it, and the path of a product
    of both."""
    made = client.post("/api/projects/", json={"name": "Production"})
    assert made.status_code == 201, made.text
    target: int = made.json()["id"]
    for number in range(FLAGS):
        body = {"key": f"flag-{number}", "filters": {"groups": [{"rollout_percentage": number}]}}
        assert client.post("/api/projects/1/feature_flags/", json=body).status_code == 201
    environments = [
        {"name": "dev", "project_id": 1},
        {"name": "live", "project_id": target, "is_protected": True},
    ]
    product = client.post(PRODUCTS, json={"name": "Shop", "environments": environments})
    assert product.status_code == 201, product.text
    return target, f"{PRODUCTS}{product.json()['id']}/promote/"


def test_approved_promotion_is_made_once(tmp_path: Path, settings: dict[str, Any]) -> None:
    promotion = {"from": "dev", "to": "live", "all": True}
    with LiveServer(tmp_path, **settings) as first, first.client() as client:
        target, path = prepare(client)
        refused = client.post(path, json=promotion)
        assert refused.status_code == 409, refused.text
        request = f"/api/projects/{target}/change_requests/{refused.json()['change_request_id']}/"

        def apply() -> None:
            with contextlib.suppress(httpx.HTTPError), first.client() as other:
                other.post(f"{request}break_glass/", json={"reason": "No one else is here"})

        thread = threading.Thread(target=apply)
        thread.start()
        # In the middle, if possible.
        wait_for(lambda: client.get(request).json()["state"] != "pending", at_most_s=60)
        first.kill()
        thread.join()
    with LiveServer(tmp_path, **settings) as last, last.client() as client:
        flags = f"/api/projects/{target}/feature_flags/"
        state = client.get(request).json()["state"]
        count = client.get(flags).json()["count"]
        assert (state, count) in (("approved", 0), ("applied", FLAGS))
        again = client.post(path, json=promotion)
        assert again.status_code == 200, again.text
        assert client.get(request).json()["state"] == "applied"
        found = client.get(flags, params={"limit": 100}).json()["results"]
        assert sorted(each["key"] for each in found) == sorted(f"flag-{n}" for n in range(FLAGS))
        assert {each["version"] for each in found} == {1}
        entries = client.get(f"{flags}{found[0]['id']}/activity/").json()["results"]
        kinds = sorted(each["activity"] for each in entries)
        assert kinds.count("created") == 1
        applied = client.get(f"{request}activity/").json()["results"]
        assert [each["activity"] for each in applied].count("applied") == 1
