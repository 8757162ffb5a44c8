"""Pipelines survive a killed server, a lost encryption key and a failing package."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.acceptance.test_components_command import BROKEN, EXITS, GOOD, install
from tests.fault.stored_state import fetch_rows
from tests.support.live import Installation, LiveServer, wait_for

BASE = "/api/environments/1/pipeline_destination_configs/"
SECRET = "hunter2-never-shown"
WRONG_KEY = "the encryption key does not match the stored secrets"
RECORD_WITH_SECRET = """\
destinations:
  - name: Orders
    component: hedgerow/webhook
    settings: {url: https://example.com/, secret: !env ORDERS_SECRET}
"""
ROUNDS = 3
RECORDS = 8

# Where the database makes no difference.
on_sqlite = pytest.mark.parametrize("installation", ["sqlite"], indirect=True)


def create_record(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post(BASE, json={"plugin": 1, **fields})
    assert answer.status_code == 201, answer.text
    record: dict[str, Any] = answer.json()
    return record


def list_orders(client: httpx.Client) -> dict[int, int]:
    return {record["id"]: record["order"] for record in client.get(BASE).json()["results"]}


class RecordRotator:
    """Rotates the order of the records repeatedly until the server is killed."""

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
        wait_for(lambda: self.answered > count, at_most_s=120)


def test_rearrange_is_atomic_under_kill(installation: Installation) -> None:
    server = installation.server().wait_ready()
    with server.client() as client:
        ids = [create_record(client)["id"] for _ in range(RECORDS)]
    for round_number in range(ROUNDS):
        with server.client() as client, ThreadPoolExecutor(1) as thread:
            turning = RecordRotator(client, ids)
            ended = thread.submit(turning.run)
            try:
                turning.wait_for_answers(5)
                time.sleep(0.003 * round_number)
            finally:
                server.kill()
            ended.result(120)
        server = installation.server().wait_ready()
        with server.client() as client:
            now = list_orders(client)
        ids = sorted(now, key=now.__getitem__)
        assert sorted(now.values()) == list(range(1, RECORDS + 1))
        # The last acknowledged order, or the one in progress.
        assert ids in turning.sent[turning.answered - 1 :]
    server.stop()


@pytest.fixture
def encrypted(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Installation:
    """An installation with one record that has a secret."""
    file = tmp_path / "records.yaml"
    file.write_text(RECORD_WITH_SECRET)
    assert installation.run_in_process("init").returncode == 0
    with monkeypatch.context() as patched:
        patched.setenv("ORDERS_SECRET", SECRET)
        applied = installation.run_in_process("pipelines", "apply", str(file), "--yes")
    assert applied.returncode == 0, applied.stderr
    assert SECRET not in applied.stdout + applied.stderr
    return installation


def stored_config(installation: Installation) -> str:
    """Return the stored config as text."""
    [(config,)] = fetch_rows(installation, "SELECT CAST(config AS TEXT) FROM pipeline_records")
    return str(config)


def log(server: LiveServer) -> Iterator[dict[str, Any]]:
    for line in server.errors.splitlines():
        yield json.loads(line)


def test_secret_is_never_stored_or_shown_in_plain_text(encrypted: Installation) -> None:
    assert "$sealed" in stored_config(encrypted)
    assert SECRET not in stored_config(encrypted)
    for path in encrypted.data.rglob("*"):
        assert SECRET.encode() not in path.read_bytes()
    assert (encrypted.data / "encryption.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("installation", "lost"),
    [("sqlite", "missing"), ("postgresql", "replaced")],
    indirect=["installation"],
)
def test_service_runs_without_its_encryption_key_and_destroys_nothing(
    encrypted: Installation, tmp_path: Path, lost: str
) -> None:
    before = stored_config(encrypted)
    key, moved = encrypted.data / "encryption.key", tmp_path / "moved.key"
    key.rename(moved)
    if lost == "replaced":
        key.write_text(generate_encryption_key() + "\n")

    with encrypted.server(log_format="json") as server, server.client() as client:
        [record] = client.get(BASE).json()["results"]
        assert client.get(f"{BASE}{record['id']}/config/").status_code == 200
        renamed = client.patch(f"{BASE}{record['id']}/", json={"name": "Renamed"})
        assert renamed.status_code == 200, renamed.text
    logged = [line for line in log(server) if WRONG_KEY in line["event"]]
    assert [line["level"] for line in logged] == ["error"]
    assert stored_config(encrypted) == before

    looked = encrypted.run_in_process("doctor")
    assert looked.returncode == 1
    assert WRONG_KEY in looked.stdout
    assert stored_config(encrypted) == before

    moved.replace(key)
    with encrypted.server(log_format="json") as server:
        pass
    assert [line for line in log(server) if WRONG_KEY in line.get("event", "")] == []
    healed = encrypted.run_in_process("doctor")
    assert healed.returncode == 0, healed.stdout
    assert "decrypts the stored secrets" in healed.stdout


def test_inspecting_an_installation_creates_no_encryption_key(encrypted: Installation) -> None:
    """A new key file would hide that the old one was lost."""
    (encrypted.data / "encryption.key").unlink()
    assert encrypted.run_in_process("doctor").returncode == 1
    assert not (encrypted.data / "encryption.key").exists()


@on_sqlite
def test_rotated_keys_decrypt_old_secrets(encrypted: Installation) -> None:
    key = encrypted.data / "encryption.key"
    key.write_text(generate_encryption_key() + "\n" + key.read_text())
    assert encrypted.run_in_process("doctor").returncode == 0
    with encrypted.server(log_format="json") as server:
        pass
    assert [line for line in log(server) if WRONG_KEY in line.get("event", "")] == []


@on_sqlite
@pytest.mark.parametrize("text", ["", "not a key\n"])
def test_invalid_encryption_key_is_one_error_line(encrypted: Installation, text: str) -> None:
    (encrypted.data / "encryption.key").write_text(text)
    before = stored_config(encrypted)
    for done in (encrypted.run_in_process("doctor"), encrypted.run("serve")):
        assert done.returncode == 1
        assert "does not contain valid encryption keys" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert (encrypted.data / "encryption.key").read_text() == text
    assert stored_config(encrypted) == before


@on_sqlite
def test_package_that_fails_on_import_is_reported(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    install(tmp_path / "packages", "acme_broken", BROKEN)
    install(tmp_path / "packages", "acme_exits", EXITS)
    install(tmp_path / "packages", "acme_pigeon", GOOD)
    with installation.server(log_format="json") as server, server.client() as client:
        catalogue = client.get("/api/organizations/@current/plugins/").json()
        listed = {item["name"]: item for item in catalogue["results"]}
        pigeon = create_record(client, plugin=listed["Pigeon"]["id"])
        assert client.get(f"{BASE}{pigeon['id']}/").status_code == 200
    for name, error in (("acme_broken", "RuntimeError: "), ("acme_exits", "SystemExit: 3")):
        assert listed[name]["id"] is None
        assert listed[name]["error"].startswith(error)
        logged = [line for line in log(server) if line.get("name") == name]
        assert [line["level"] for line in logged] == ["warning"]


@on_sqlite
def test_records_of_a_removed_package_are_kept(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    install(tmp_path / "packages", "acme_pigeon", GOOD)
    with installation.server() as server, server.client() as client:
        catalogue = client.get("/api/organizations/@current/plugins/").json()["results"]
        [id] = [item["id"] for item in catalogue if item["name"] == "Pigeon"]
        before = create_record(client, plugin=id, name="Mine")
    monkeypatch.delenv("PYTHONPATH")
    with installation.server() as server, server.client() as client:
        [now] = client.get(BASE).json()["results"]
        assert (now["id"], now["plugin"], now["name"]) == (before["id"], id, "Mine")
        assert client.patch(f"{BASE}{now['id']}/", json={"name": "Still"}).status_code == 200
        assert client.get(f"{BASE}{now['id']}/config/").status_code < 500
        assert client.delete(f"{BASE}{now['id']}/").status_code == 204
