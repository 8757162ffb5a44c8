"""Replicas match the state after repeated kills during person changes."""

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.stored_events import count_waiting_persons, read_stored_events, wait_until_stored

ROUNDS = 3
PEOPLE = 40
SELECT_REPLICAS = """
    SELECT 'persons' AS what, toString(id) AS name, properties AS value FROM persons FINAL
    UNION ALL
    SELECT 'owners', distinct_id, toString(person_id) FROM person_distinct_ids FINAL
    UNION ALL
    SELECT 'groups', group_key, properties FROM groups FINAL
"""


def _batch(random: Random) -> list[dict[str, Any]]:
    events = []
    for _ in range(30):
        who, other = f"id-{random.randrange(PEOPLE)}", f"id-{random.randrange(PEOPLE)}"
        properties: dict[str, Any] = {"$set": {"n": random.randrange(1000)}}
        name = random.choice(["seen", "seen", "$identify", "$groupidentify"])
        if name == "$identify":
            properties["$anon_distinct_id"] = other
        if name == "$groupidentify":
            properties |= {"$group_type": "company", "$group_key": other}
            properties["$group_set"] = {"n": random.randrange(1000)}
        events.append({"event": name, "distinct_id": who, "properties": properties})
    return events


def _send_until_killed(server: LiveServer, random: Random) -> None:
    with server.client() as client:
        try:
            while True:
                body = {"api_key": PROJECT_KEY, "batch": _batch(random)}
                client.post("/batch", json=body, timeout=10)
        except httpx.TransportError:
            return


def _read_originals(data: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(data / "hedgerow.db")) as connection:
        persons = connection.execute("SELECT uuid, properties FROM persons").fetchall()
        owners = connection.execute(
            "SELECT d.distinct_id, p.uuid FROM person_distinct_ids AS d"
            " JOIN persons AS p ON p.id = d.person_id"
        ).fetchall()
        groups = connection.execute("SELECT key, properties FROM groups").fetchall()
    return {
        "persons": {uuid: json.loads(properties) for uuid, properties in persons},
        "owners": dict(owners),
        "groups": {key: json.loads(properties) for key, properties in groups},
    }


def _read_replicas(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"persons": {}, "owners": {}, "groups": {}}
    for row in read_stored_events(data, SELECT_REPLICAS):
        is_owner = row["what"] == "owners"
        found[row["what"]][row["name"]] = row["value"] if is_owner else json.loads(row["value"])
    return found


def test_replicas_match_after_kills(tmp_path: Path) -> None:
    random = Random(11)
    for _ in range(ROUNDS):
        server = LiveServer(tmp_path).wait_ready()
        sender = threading.Thread(target=_send_until_killed, args=(server, random))
        sender.start()
        time.sleep(1.5 + random.random() * 1.5)  # replication runs once a second
        server.kill()
        sender.join(30)
    with LiveServer(tmp_path) as server, server.client() as client:
        body = {"api_key": PROJECT_KEY, "batch": _batch(random)}
        assert client.post("/batch", json=body).status_code == 200
        wait_until_stored(tmp_path)
        wait_for(lambda: not count_waiting_persons(tmp_path), at_most_s=120)
    originals = _read_originals(tmp_path)
    assert len(originals["owners"]) > PEOPLE / 2
    assert len(originals["persons"]) < len(originals["owners"]), "some were merged"
    assert _read_replicas(tmp_path) == originals
