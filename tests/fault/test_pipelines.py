"""What pipelines survive: a server that dies, a sealing key that is gone, a package that fails."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from hedgerow.lib.sealing import new_sealing_key
from tests.acceptance.test_components_verb import BROKEN, EXITS, GOOD, install
from tests.fault.stored import rows
from tests.live import Installation, LiveServer, seconds_until

BASE = "/api/environments/1/pipeline_destination_configs/"
SECRET = "hunter2-never-shown"
WRONG_KEY = "the sealing key is not the one that sealed the stored secrets"
RECORD_WITH_SECRET = """\
destinations:
  - name: Orders
    component: hedgerow/webhook
    settings: {url: https://example.com/, secret: !env ORDERS_SECRET}
"""
ROUNDS = 3
RECORDS = 8


def made(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post(BASE, json={"plugin": 1, **fields})
    assert answer.status_code == 201, answer.text
    record: dict[str, Any] = answer.json()
    return record


def places(client: httpx.Client) -> dict[int, int]:
    return {record["id"]: record["order"] for record in client.get(BASE).json()["results"]}


class Turning:
    """Somebody who turns the sequence of records by one, again and again, until the server is
    gone. `sent` holds every sequence asked for, `answered` how many of them were.
    """

    def __init__(self, client: httpx.Client, ids: list[int]) -> None:
        self._client = client
        self.sent = [ids]
        self.answered = 1

    def run(self) -> None:
        while True:
            last = self.sent[-1]
            self.sent.append([*last[1:], last[0]])
            orders = {str(id): place for place, id in enumerate(self.sent[-1], 1)}
            try:
                answer = self._client.patch(f"{BASE}rearrange/", json={"orders": orders})
            except httpx.TransportError:
                return
            assert answer.status_code == 200, answer.text
            self.answered += 1

    def wait_for_answers(self, count: int) -> None:
        seconds_until(lambda: self.answered > count, at_most_s=30)


def test_a_rearrange_survives_a_kill_whole_or_not_at_all(installation: Installation) -> None:
    server = installation.server().wait_ready()
    with server.client() as client:
        ids = [made(client)["id"] for _ in range(RECORDS)]
    for round_number in range(ROUNDS):
        with server.client() as client, ThreadPoolExecutor(1) as thread:
            turning = Turning(client, ids)
            ended = thread.submit(turning.run)
            try:
                turning.wait_for_answers(5)
                time.sleep(0.003 * round_number)
            finally:
                server.kill()
            ended.result(30)
        server = installation.server().wait_ready()
        with server.client() as client:
            now = places(client)
        ids = sorted(now, key=now.__getitem__)
        assert sorted(now.values()) == list(range(1, RECORDS + 1))
        # The last that was answered, or the one that was under way.
        assert ids in turning.sent[turning.answered - 1 :]
    server.stop()


@pytest.fixture
def sealed(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Installation:
    """An installation with one record that holds a secret."""
    file = tmp_path / "records.yaml"
    file.write_text(RECORD_WITH_SECRET)
    assert installation.here("init").returncode == 0
    with monkeypatch.context() as patched:
        patched.setenv("ORDERS_SECRET", SECRET)
        applied = installation.here("pipelines", "apply", str(file), "--yes")
    assert applied.returncode == 0, applied.stderr
    assert SECRET not in applied.stdout + applied.stderr
    return installation


def stored_config(installation: Installation) -> str:
    """As the text that stands in the database."""
    [(config,)] = rows(installation, "SELECT CAST(config AS TEXT) FROM pipeline_records")
    return str(config)


def log(server: LiveServer) -> Iterator[dict[str, Any]]:
    for line in server.errors.splitlines():
        yield json.loads(line)


def test_the_secret_is_nowhere_in_the_clear(sealed: Installation) -> None:
    assert "$sealed" in stored_config(sealed)
    assert SECRET not in stored_config(sealed)
    for path in sealed.data.rglob("*"):
        assert SECRET.encode() not in path.read_bytes()
    assert (sealed.data / "sealing.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("lost", ["missing", "replaced"])
def test_without_its_sealing_key_the_service_runs_says_so_and_destroys_nothing(
    sealed: Installation, tmp_path: Path, lost: str
) -> None:
    before = stored_config(sealed)
    key, aside = sealed.data / "sealing.key", tmp_path / "aside.key"
    key.rename(aside)
    if lost == "replaced":
        key.write_text(new_sealing_key() + "\n")

    with sealed.server(log_format="json") as server, server.client() as client:
        [record] = client.get(BASE).json()["results"]
        assert client.get(f"{BASE}{record['id']}/config/").status_code == 200
        renamed = client.patch(f"{BASE}{record['id']}/", json={"name": "Renamed"})
        assert renamed.status_code == 200, renamed.text
    told = [line for line in log(server) if WRONG_KEY in line["event"]]
    assert [line["level"] for line in told] == ["error"]
    assert stored_config(sealed) == before

    looked = sealed.here("doctor")
    assert looked.returncode == 1
    assert WRONG_KEY in looked.stdout
    assert stored_config(sealed) == before

    aside.replace(key)
    with sealed.server(log_format="json") as server:
        pass
    assert [line for line in log(server) if WRONG_KEY in line.get("event", "")] == []
    healed = sealed.here("doctor")
    assert healed.returncode == 0, healed.stdout
    assert "opens the stored secrets" in healed.stdout


def test_looking_at_an_installation_makes_no_sealing_key(sealed: Installation) -> None:
    """A new file in the place of a lost one would hide that it was lost."""
    (sealed.data / "sealing.key").unlink()
    assert sealed.here("doctor").returncode == 1
    assert not (sealed.data / "sealing.key").exists()


def test_a_rotated_key_opens_what_the_old_one_sealed(sealed: Installation) -> None:
    key = sealed.data / "sealing.key"
    key.write_text(new_sealing_key() + "\n" + key.read_text())
    assert sealed.here("doctor").returncode == 0
    with sealed.server(log_format="json") as server:
        pass
    assert [line for line in log(server) if WRONG_KEY in line.get("event", "")] == []


@pytest.mark.parametrize("text", ["", "not a key\n"])
def test_a_sealing_key_that_is_none_is_one_clear_line(sealed: Installation, text: str) -> None:
    (sealed.data / "sealing.key").write_text(text)
    before = stored_config(sealed)
    for done in (sealed.here("doctor"), sealed.run("serve")):
        assert done.returncode == 1
        assert "does not hold sealing keys" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert (sealed.data / "sealing.key").read_text() == text
    assert stored_config(sealed) == before


@pytest.mark.parametrize("source", [BROKEN, EXITS], ids=["raises", "exits"])
def test_a_package_that_fails_on_import_is_shown_and_the_service_runs(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    install(tmp_path / "packages", "acme_broken", source)
    install(tmp_path / "packages", "acme_pigeon", GOOD)
    with installation.server(log_format="json") as server, server.client() as client:
        catalogue = client.get("/api/organizations/@current/plugins/").json()
        listed = {item["name"]: item for item in catalogue["results"]}
        pigeon = made(client, plugin=listed["Pigeon"]["id"])
        assert client.get(f"{BASE}{pigeon['id']}/").status_code == 200
    broken = listed["acme_broken"]
    assert broken["id"] is None
    assert broken["error"].startswith(("RuntimeError: ", "SystemExit: 3"))
    told = [line for line in log(server) if line.get("name") == "acme_broken"]
    assert [line["level"] for line in told] == ["warning"]


def test_records_of_a_package_that_is_gone_stay(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    install(tmp_path / "packages", "acme_pigeon", GOOD)
    with installation.server() as server, server.client() as client:
        catalogue = client.get("/api/organizations/@current/plugins/").json()["results"]
        [id] = [item["id"] for item in catalogue if item["name"] == "Pigeon"]
        before = made(client, plugin=id, name="Mine")
    monkeypatch.delenv("PYTHONPATH")
    with installation.server() as server, server.client() as client:
        [now] = client.get(BASE).json()["results"]
        assert (now["id"], now["plugin"], now["name"]) == (before["id"], id, "Mine")
        assert client.patch(f"{BASE}{now['id']}/", json={"name": "Still"}).status_code == 200
        assert client.get(f"{BASE}{now['id']}/config/").status_code < 500
        assert client.delete(f"{BASE}{now['id']}/").status_code == 204
