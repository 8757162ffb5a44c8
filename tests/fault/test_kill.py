"""kill -9 in the middle of a storm of writes loses nothing that was acknowledged."""

import random
import threading
from dataclasses import dataclass, field
from functools import partial

import httpx

from tests.fault.stored import rows
from tests.live import Installation, LiveServer, side_by_side

SQLITE_ROUNDS = 3
# Here it is not the database that is killed: a server of its own keeps what was committed.
POSTGRES_ROUNDS = 2
WRITERS = 6


@dataclass(slots=True)
class Acknowledged:
    """Names of what was answered 201, and only of that."""

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
    # The clock starts with the first answer, so that there is a storm to be in the middle of.
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
        side_by_side([partial(write, writer) for writer in range(WRITERS)])
    finally:
        killer.cancel()
    server.process.wait()


def _assert_all_there(
    installation: Installation, server: LiveServer, acknowledged: Acknowledged
) -> None:
    names = {name for (name,) in rows(installation, "SELECT name FROM projects")}
    labels = {label for (label,) in rows(installation, "SELECT label FROM personal_keys")}
    assert acknowledged.projects - names == set()
    assert acknowledged.keys - labels == set()
    # Every change told the audit trail, in the same transaction.
    (entries,) = rows(installation, "SELECT count(*) FROM activity")
    assert entries == (len(rows(installation, "SELECT id FROM projects")) + len(labels),)
    if not installation.settings:
        assert rows(installation, "PRAGMA quick_check") == [("ok",)]
        assert rows(installation, "PRAGMA foreign_key_check") == []
    with server.client() as client:
        page = client.get("/api/projects/", params={"limit": 1000}).json()
        assert page["count"] == len(rows(installation, "SELECT id FROM projects"))
        assert len(client.get("/api/personal_api_keys/").json()) == len(labels)
