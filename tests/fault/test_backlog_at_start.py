"""A service that starts with unprocessed events evaluates the flags of other persons at once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

from sqlalchemy import insert

from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.ingestion.inbox_packing import pack_captured
from hedgerow.storage.tables.ingestion import inbox
from tests.fault.decide_requests import (
    build_filters,
    build_person_filter,
    create_flag,
    decide,
)
from tests.support.factories import captured_event
from tests.support.live import Installation
from tests.support.stored_events import wait_until_stored

# Processing them takes seconds, so that the test can stop it.
BACKLOG = 40_000
TIMEOUT = {"read_after_write_timeout_s": "3"}


def test_only_persons_of_the_backlog_wait(tmp_path: Path) -> None:
    installation = Installation(data=tmp_path / "data", settings=TIMEOUT)
    with installation.server() as server, server.client() as client:
        create_flag(client, "for-all", build_filters())
        create_flag(client, "paying", build_filters(build_person_filter("plan", "paid")))
    _write_backlog(installation.data)
    with installation.server() as server, server.client(key=None) as client:
        with _stop_processing(installation.data):
            given = decide(client, "late", person_properties={"plan": "paid"})
            unrelated = decide(client, "unrelated")
            # Each time: stored data that may be stale is never given as certain.
            late = [decide(client, "late") for _ in range(2)]
        assert not given["errorsWhileComputingFlags"]
        assert given["featureFlags"] == {"for-all": True, "paying": True}
        assert not unrelated["errorsWhileComputingFlags"]
        assert unrelated["featureFlags"] == {"for-all": True, "paying": False}
        for each in late:
            assert each["errorsWhileComputingFlags"]
            assert each["featureFlags"]["for-all"]
        wait_until_stored(server.data)
        processed = decide(client, "late")
        assert not processed["errorsWhileComputingFlags"]
        assert processed["featureFlags"] == {"for-all": True, "paying": True}


def _write_backlog(data: Path) -> None:
    """Write the inbox as a killed service leaves it. Its last event is of the person `late`."""
    plans = {**{f"person {number}": "free" for number in range(BACKLOG)}, "late": "paid"}
    events = [
        captured_event("$set", id, {"$set": {"plan": plan}}, uuid=str(UUID(int=number)))
        for number, (id, plan) in enumerate(plans.items(), start=1)
    ]
    rows = pack_captured(events, bucket_count=1)
    values = [
        {"bucket": 0, "project_id": 1, "events": row.events, "number": row.number, "accepted_ms": 0}
        for row in rows
    ]
    location = DatabaseLocation(url="", path=data / "hedgerow.db", timeout_s=60)
    with create_sync_engine(location).begin() as connection:
        connection.execute(insert(inbox), values)


@contextmanager
def _stop_processing(data: Path) -> Iterator[None]:
    with closing(sqlite3.connect(data / "hedgerow.db", isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert other.execute("SELECT count(*) FROM inbox").fetchone()[0]
        yield
        other.execute("ROLLBACK")
