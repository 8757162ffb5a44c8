"""`hedgerow flags scan` and `flags test`, as a person runs them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import LiveServer, run_in_process

SOURCE = {
    "web/checkout.ts": "if (posthog.isFeatureEnabled('checkout')) {\n}\n",
    "api/app.py": 'posthog.feature_enabled("missing", "ann")\n',
    "dist/built.js": 'posthog.getFeatureFlag("built")',
    "node_modules/x/y.js": 'posthog.getFeatureFlag("packaged")',
    ".gitignore": "dist/\n",
    "web/big.js": 'posthog.getFeatureFlag("big");' + " " * 1024 * 1024,
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in SOURCE.items():
        file = tmp_path / "shop" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "shop"


def test_references_are_uploaded_and_compared_with_the_flags(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    dry = run_in_process("flags", "scan", str(source), "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.splitlines() == [
        "api/app.py:1: missing",
        "web/checkout.ts:1: checkout",
        "2 reference(s) to 2 flag(s) in 2 file(s).",
    ]
    assert "left out, because it is large: web/big.js" in dry.stderr
    with LiveServer(data) as server, server.client() as client:
        for key in ("checkout", "unused"):
            body: dict[str, Any] = {"key": key, "filters": {"groups": [{}]}}
            assert client.post("/api/projects/1/feature_flags/", json=body).status_code == 201
        key = client.headers["authorization"].removeprefix("Bearer ")
        options = ("--server", str(client.base_url), "--key", key, "--commit", "abc", "--json")
        done = run_in_process("flags", "scan", str(source), *options)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["uploaded"] is True
        assert report["unused_flags"] == ["unused"]
        assert [each["key"] for each in report["unknown_keys"]] == ["missing"]
        listed = client.get("/api/projects/1/code_references/?key=checkout").json()["results"]
        assert [(each["repository"], each["file"], each["line"]) for each in listed] == [
            ("shop", "web/checkout.ts", 1)
        ]
        assert listed[0]["commit"] == "abc"


def test_failed_test_of_a_flag_is_shown_and_ends_with_status_1(tmp_path: Path) -> None:
    file = tmp_path / "flags.yaml"
    file.write_text(
        "version: 1\n"
        "flags:\n"
        "  - key: beta\n"
        "    filters: {groups: [{}]}\n"
        "    tests: [{name: visitors, subject: {distinct_id: eve}, expected: false}]\n"
    )
    done = run_in_process("flags", "test", str(file))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "beta",
        "  FAIL  visitors",
        "          expected: false",
        "          got:      true (Matched condition set 1)",
        "1 test(s): 0 passed, 1 failed.",
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["flags.yaml"]
