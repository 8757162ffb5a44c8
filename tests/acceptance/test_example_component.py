"""The example package: it is installed, its tests pass, and it delivers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import PROJECT_KEY, LiveServer, build_environment
from tests.support.packages import install_packages
from tests.support.receiver import Receiver

EXAMPLE = Path(__file__).parents[2] / "examples" / "hedgerow-ntfy"
RECORDS = "/api/environments/1/pipeline_destination_configs/"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder where the example is installed."""
    folder = tmp_path_factory.mktemp("packages")
    with install_packages(folder, EXAMPLE):
        yield folder


def test_the_tests_of_the_example_pass(packages: Path, tmp_path: Path) -> None:
    test = tmp_path / "test_ntfy.py"
    test.write_text((EXAMPLE / "test_ntfy.py").read_text())
    done = subprocess.run(
        # Without pytest plugins, which take longer to load than these tests to run.
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        cwd=tmp_path,
        env=build_environment() | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_the_example_delivers_an_event(packages: Path, tmp_path: Path) -> None:
    with (
        Receiver() as receiver,
        LiveServer(tmp_path, allow_private_destinations="true") as server,
        server.client() as client,
    ):
        listed = client.get("/api/organizations/@current/pipeline_destinations/").json()["results"]
        (ntfy,) = [each for each in listed if each["name"] == "Push notification"]
        assert ntfy["id"] >= 1000
        path = f"{RECORDS}{client.post(RECORDS, json={'plugin': ntfy['id']}).json()['id']}/"
        bad = client.put(f"{path}config/", json={"topic": "a/b"})
        assert (bad.status_code, bad.json()["attr"]) == (400, "config__topic")
        given = {"server": receiver.url, "topic": "orders", "token": "tk_hidden"}
        assert client.put(f"{path}config/", json=given).json()["token"].startswith("****")
        client.patch(path, json={"enabled": True})
        event = {"api_key": PROJECT_KEY, "event": "bought", "distinct_id": "ann"}
        assert client.post("/capture/", json=event).status_code == 200
        receiver.wait_for(1)
        (received,) = receiver.received
    assert (received.path, received.body) == ("/hook/orders", b"bought by ann")
    assert received.headers["authorization"] == "Bearer tk_hidden"
