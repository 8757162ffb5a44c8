"""Events that nobody can process stop no others: they are set aside, told of, and kept until
somebody decides.
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

from hedgerow.ingestion.model import Arrived
from tests.fault.capturing import event
from tests.live import PROJECT_KEY, Installation
from tests.receiver import wait_until

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
NOISE = b"\xc1\x00 no events at all \xff"


def arrived(uuid: str, name: str = "seen") -> Arrived:
    return Arrived(
        uuid=uuid,
        event=name,
        distinct_id="ann",
        properties={"$set": {"last": name}},
        timestamp=NOW,
        accepted_at=NOW,
    )


def uuid(number: int) -> str:
    return f"0199bbbb-0000-7000-8000-{number:012}"


GOOD = [arrived(uuid(number), f"seen {number}") for number in range(6)]
NO_UUID = arrived("no uuid", "nameless")


@pytest.fixture
def spoilt(tmp_path: Path) -> Installation:
    """What a service finds at its start: events, and among them what it cannot process."""
    installation = Installation(data=tmp_path / "data", settings={"read_wait_s": "30"})
    assert installation.run("init").returncode == 0
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


def asides(installation: Installation) -> list[dict[str, Any]]:
    listed = installation.run("events", "aside", "--json")
    assert listed.returncode == 0, listed.stderr
    found: list[dict[str, Any]] = json.loads(listed.stdout)
    return found


def test_events_that_nobody_can_process_are_set_aside_and_stop_no_others(
    spoilt: Installation,
) -> None:
    with spoilt.server() as server, server.client() as client:
        sent = client.post("/capture/", json={"api_key": PROJECT_KEY, **event("later", "bob")})
        assert sent.status_code == 200
        names = {*(each.event for each in GOOD), "later"}
        wait_until(lambda: set(stored(client)) == names)
        assert len(stored(client)) == len(names)
        (ann,) = client.get("/api/projects/1/persons/?distinct_id=ann").json()["results"]
        assert ann["properties"]["last"] == GOOD[-1].event
        # 3 and 2 that cannot be read, one that waited for the event store, one without a uuid.
        wait_until(lambda: metric(client, "hedgerow_inbox_events_set_aside") == 7)
        assert metric(client, "hedgerow_events_set_aside_total") == 7
        assert metric(client, "hedgerow_inbox_events_waiting") == 0
        found = asides(spoilt)
        assert sorted((each["step"], each["uuid"], each["events"]) for each in found) == [
            ("settle", "", 2),
            ("settle", "", 3),
            ("store", "", 1),
            ("store", "no uuid", 1),
        ]
        assert server.errors.count("event set aside") >= 2
        ill = spoilt.run("doctor")
        assert ill.returncode == 1
        assert "7 set aside" in ill.stdout

        (nameless,) = [each for each in found if each["uuid"]]
        shown = spoilt.run("events", "aside", str(nameless["id"]))
        assert "nameless" in shown.stdout
        # What fails again is set aside again.
        again = spoilt.run("events", "retry", str(nameless["id"]))
        assert again.stdout == "Sent 1 event(s) on their way again.\n"
        wait_until(lambda: metric(client, "hedgerow_events_set_aside_total") == 8)
        wait_until(lambda: len(asides(spoilt)) == len(found))
        gone = spoilt.run("events", "discard", "--all", "--yes")
        assert gone.stdout == "Deleted 7 event(s).\n"
        assert spoilt.run("doctor").returncode == 0
        assert spoilt.run("events", "retry").returncode == 1
        assert len(stored(client)) == len(names)
