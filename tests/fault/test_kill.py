"""kill -9 during concurrent writes loses no acknowledged change."""

import random
import threading
from dataclasses import dataclass, field
from functools import partial

import httpx

from tests.fault.stored_state import fetch_rows
from tests.support.live import Installation, LiveServer, run_concurrently

SQLITE_ROUNDS = 3
# Only Hedgerow is killed here; the database server keeps what was committed.
POSTGRES_ROUNDS = 2
WRITERS = 6


@dataclass(slots=True)
class Acknowledged:
    """Names of projects whose creation was answered with 201."""

    projects: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)


def test_nothing_acknowledged_is_lost(installation: Installation) -> None:
    moments = random.Random()
    acknowledged = Acknowledged()
    rounds = POSTGRES_ROUNDS if installation.settings else SQLITE_ROUNDS
    for round in range(rounds + 1):
        server = installation.server().wait_ready()
        try:
            _assert_all_there(installation, server, acknowledged)
            if round < rounds:
                before = len(acknowledged.projects | acknowledged.keys)
                _storm(server, round, acknowledged, kill_after_s=moments.uniform(0.1, 0.5))
                assert len(acknowledged.projects | acknowledged.keys) > before
        finally:
            server.kill()


def _storm(
    server: LiveServer, round: int, acknowledged: Acknowledged, *, kill_after_s: float
) -> None:
    killer = threading.Timer(kill_after_s, server.process.kill)
    # The time counts from the first response, so that writes are in progress at the kill.
    started = threading.Event()

    def write(writer: int) -> None:
        with server.client() as client:
            for number in range(5000):
                name = f"{round}-{writer}-{number}"
                try:
                    if writer % 2:
                        answer = client.post("/api/projects/", json={"name": name})
                    else:
                        body = {"label": name, "scopes": ["project:read"]}
                        answer = client.post("/api/personal_api_keys/", json=body)
                except httpx.TransportError:
                    return
                assert answer.status_code == 201, answer.text
                (acknowledged.projects if writer % 2 else acknowledged.keys).add(name)
                if not started.is_set():
                    started.set()
                    killer.start()

    try:
        run_concurrently([partial(write, writer) for writer in range(WRITERS)])
    finally:
        killer.cancel()
    server.process.wait()


def _assert_all_there(
    installation: Installation, server: LiveServer, acknowledged: Acknowledged
) -> None:
    names = {name for (name,) in fetch_rows(installation, "SELECT name FROM projects")}
    labels = {label for (label,) in fetch_rows(installation, "SELECT label FROM personal_keys")}
    assert acknowledged.projects - names == set()
    assert acknowledged.keys - labels == set()
    # Every change was audited in the same transaction.
    (entries,) = fetch_rows(installation, "SELECT count(*) FROM activity")
    assert entries == (len(fetch_rows(installation, "SELECT id FROM projects")) + len(labels),)
    if not installation.settings:
        assert fetch_rows(installation, "PRAGMA quick_check") == [("ok",)]
        assert fetch_rows(installation, "PRAGMA foreign_key_check") == []
    with server.client() as client:
        page = client.get("/api/projects/", params={"limit": 1000}).json()
        assert page["count"] == len(fetch_rows(installation, "SELECT id FROM projects"))
        assert len(client.get("/api/personal_api_keys/").json()) == len(labels)
