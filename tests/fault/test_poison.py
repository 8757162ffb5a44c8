"""Poison events block no others: they become dead letters until an operator retries or discards
them.
"""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hedgerow.ingestion.model import CapturedEvent
from tests.fault.capture_batches import build_event
from tests.support.live import PROJECT_KEY, Installation
from tests.support.receiver import wait_until

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
NOISE = b"\xc1\x00 no events at all \xff"


def build_captured(uuid: str, name: str = "seen") -> CapturedEvent:
    return CapturedEvent(
        uuid=uuid,
        event=name,
        distinct_id="ann",
        properties={"$set": {"last": name}},
        timestamp=NOW,
        accepted_at=NOW,
    )


def uuid(number: int) -> str:
    return f"0199bbbb-0000-7000-8000-{number:012}"


GOOD = [build_captured(uuid(number), f"seen {number}") for number in range(6)]
NO_UUID = build_captured("no uuid", "nameless")


@pytest.fixture
def damaged(tmp_path: Path) -> Installation:
    """An installation whose inbox contains valid and poison events."""
    installation = Installation(
        data=tmp_path / "data", settings={"read_after_write_timeout_s": "30"}
    )
    assert installation.run_in_process("init").returncode == 0
    pack = msgspec.msgpack.encode
    rows = [
        (pack(GOOD[:2]), 2),
        (NOISE, 3),
        (pack([GOOD[2], NO_UUID, GOOD[3]]), 3),
        (pack(GOOD[4:])[:-3], 2),
        (pack(GOOD[4:]), 2),
    ]
    with closing(sqlite3.connect(installation.data / "hedgerow.db")) as connection:
        connection.executemany(
            "INSERT INTO inbox (bucket, project_id, events, number, accepted_ms)"
            " VALUES (0, 1, ?, ?, 0)",
            rows,
        )
        connection.execute(
            "INSERT INTO ready_events (bucket, events, number, accepted_ms) VALUES (0, ?, 1, 0)",
            (NOISE,),
        )
        connection.commit()
    return installation


def stored(client: httpx.Client) -> list[str]:
    page = client.get("/api/projects/1/events/?limit=100&after=2000-01-01").json()
    return [each["event"] for each in page["results"]]


def metric(client: httpx.Client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def list_dead_letters(installation: Installation) -> list[dict[str, Any]]:
    listed = installation.run_in_process("events", "dead-letters", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    found: list[dict[str, Any]] = json.loads(listed.stdout)
    return found


def test_poison_events_become_dead_letters_and_block_no_others(
    damaged: Installation,
) -> None:
    with damaged.server() as server, server.client() as client:
        sent = client.post(
            "/capture/", json={"api_key": PROJECT_KEY, **build_event("later", "bob")}
        )
        assert sent.status_code == 200
        names = {*(each.event for each in GOOD), "later"}
        wait_until(lambda: set(stored(client)) == names)
        assert len(stored(client)) == len(names)
        (ann,) = client.get("/api/projects/1/persons/?distinct_id=ann").json()["results"]
        assert ann["properties"]["last"] == GOOD[-1].event
        # 3 and 2 that cannot be decoded, one that waited for the event store, one without a UUID.
        wait_until(lambda: metric(client, "hedgerow_inbox_events_dead_lettered") == 7)
        assert metric(client, "hedgerow_events_dead_lettered_total") == 7
        assert metric(client, "hedgerow_inbox_events_waiting") == 0
        found = list_dead_letters(damaged)
        assert sorted((each["step"], each["uuid"], each["events"]) for each in found) == [
            ("process", "", 2),
            ("process", "", 3),
            ("store", "", 1),
            ("store", "no uuid", 1),
        ]
        assert server.errors.count("event dead-lettered") >= 2
        ill = damaged.run_in_process("doctor")
        assert ill.returncode == 1
        assert "7 event(s) could not be processed" in ill.stdout

        (nameless,) = [each for each in found if each["uuid"]]
        shown = damaged.run_in_process("events", "dead-letters", "show", str(nameless["id"]))
        assert "nameless" in shown.stdout
        # An event that fails again becomes a dead letter again.
        again = damaged.run_in_process("events", "dead-letters", "retry", str(nameless["id"]))
        assert again.stdout == "Queued 1 event(s) for another attempt.\n"
        wait_until(lambda: metric(client, "hedgerow_events_dead_lettered_total") == 8)
        wait_until(lambda: len(list_dead_letters(damaged)) == len(found))
        gone = damaged.run_in_process("events", "dead-letters", "discard", "--all", "--yes")
        assert gone.stdout == "Deleted 7 event(s).\n"
        assert damaged.run_in_process("doctor").returncode == 0
        assert damaged.run_in_process("events", "dead-letters", "retry").returncode == 1
        assert len(stored(client)) == len(names)
