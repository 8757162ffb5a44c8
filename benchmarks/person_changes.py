"""What persons cost per event: deciding, for known persons without and with a change and for new
ones; and reading and storing on SQLite, in batches as they are processed. Time of the processor, so
that others on the machine do not count.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection

from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.loaded_state import LoadedState, StoredPerson, collect_references
from hedgerow.ingestion.persons.process import process_batch
from hedgerow.lib import jsonio
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.persons.changes import load_state, save_changes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROJECT = ProjectId(1)
PAGE: dict[str, Any] = {
    "$browser": "Firefox",
    "$browser_version": 140,
    "$os": "Linux",
    "$device_type": "Desktop",
    "$current_url": "https://example.com/pricing",
    "$pathname": "/pricing",
    "$referrer": "$direct",
    "$screen_height": 1080,
    "$screen_width": 1920,
    "$session_id": "0199",
    "$lib": "web",
    "$groups": {"company": "acme"},
}
EVENTS = 20_000


def nowhere(_: str) -> Mapping[str, Any]:
    return {}


def somewhere(_: str) -> Mapping[str, Any]:
    return {"$geoip_country_code": "DE", "$geoip_country_name": "Germany"}


def event(number: int, properties: dict[str, Any]) -> CapturedEvent:
    return CapturedEvent(
        uuid=f"0199-{number}",
        event="$pageview",
        distinct_id=f"id-{number}",
        properties=properties,
        timestamp=NOW,
        accepted_at=NOW,
        ip="192.0.2.1",
    )


def known_after(properties: dict[str, Any], place: Any) -> LoadedState:
    """Everybody, after an event with these properties, as if read from the store."""
    after = process_batch(PROJECT, LoadedState(), [event(0, properties)], place).events[0]
    assert after is not None
    sent = jsonio.decode(after.properties)
    stored = {**sent["$set_once"], **sent["$set"]} if "$set" in sent else {}
    persons = {
        f"id-{number}": StoredPerson(
            id=number,
            uuid=str(number),
            properties=dict(stored),
            is_identified=False,
            created_at=NOW,
        )
        for number in range(EVENTS)
    }
    return LoadedState(persons=persons, group_types={"company": 0})


def measure(
    name: str, known: LoadedState, events: list[CapturedEvent], place: Any = nowhere
) -> None:
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        for first in range(0, EVENTS, 500):
            batch = events[first : first + 500]
            collect_references(batch)
            process_batch(PROJECT, known, batch, place)
        best = min(best, time.process_time() - begun)
    print(f"{name:<44} {best / EVENTS * 1e6:6.1f} us an event")


def measure_store(folder: Path) -> None:
    place = DatabaseLocation(url="", path=folder / "hedgerow.db", timeout_s=5)
    keys = InitialKeys(project_key="phc_a-project-key-for-this", personal_key="phx_a-personal-key")
    prepare_database(place, keys, lambda: NOW)
    events = [event(number, dict(PAGE)) for number in range(EVENTS)]
    changing = [event(number, {**PAGE, "$set": {"visits": 1}}) for number in range(EVENTS)]
    with create_sync_engine(place).connect() as connection:
        for name, these in (("new", events), ("known", events), ("changed", changing)):
            spent = dict.fromkeys(("load", "process", "save", "commit"), 0.0)
            for first in range(0, EVENTS, 500):
                _step(connection, these[first : first + 500], spent)
            times = ", ".join(f"{step} {time / EVENTS * 1e6:.1f}" for step, time in spent.items())
            print(f"SQLite, {name:<8} persons, us an event: {times}")


def _step(connection: Connection, batch: list[CapturedEvent], spent: dict[str, float]) -> None:
    marks = [time.process_time()]
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    known = load_state(connection, PROJECT, collect_references(batch))
    marks.append(time.process_time())
    changes = process_batch(PROJECT, known, batch, nowhere).changes
    marks.append(time.process_time())
    save_changes(connection, PROJECT, changes, NOW)
    marks.append(time.process_time())
    connection.exec_driver_sql("COMMIT")
    marks.append(time.process_time())
    for step, begun, ended in zip(spent, marks, marks[1:], strict=False):
        spent[step] += ended - begun


def main() -> None:
    few = {"plan": "free", "$lib": "python"}
    measure(
        "few properties, nothing changes",
        known_after(few, nowhere),
        [event(number, dict(few)) for number in range(EVENTS)],
    )
    same = [event(number, dict(PAGE)) for number in range(EVENTS)]
    measure("page view, nothing changes", known_after(PAGE, nowhere), same)
    moved = [
        event(number, {**PAGE, "$current_url": f"https://x/{number}"}) for number in range(EVENTS)
    ]
    measure("page view, another page", known_after(PAGE, nowhere), moved)
    measure("page view, another page, with a place", known_after(PAGE, somewhere), moved, somewhere)
    changing = [event(number, {**PAGE, "$set": {"visits": number}}) for number in range(EVENTS)]
    measure("page view with a change", known_after(PAGE, nowhere), changing)
    measure("page view of a new person", LoadedState(), same)
    with TemporaryDirectory() as folder:
        measure_store(Path(folder))


if __name__ == "__main__":
    main()
