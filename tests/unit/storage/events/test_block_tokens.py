"""The token by which the event store knows a block that was sent before."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hedgerow.events.model import Event, PersonMode
from hedgerow.projects.model import ProjectId
from hedgerow.storage.events.events import identify_block

MOMENT = datetime(2026, 3, 2, 9, 30, 1, 250, tzinfo=UTC)


def make(uuid: str, created_at: datetime) -> Event:
    return Event(
        project_id=ProjectId(7),
        uuid=uuid,
        event="e",
        distinct_id="d",
        properties="{}",
        elements_chain="",
        timestamp=MOMENT,
        created_at=created_at,
        person_id="p",
        person_created_at=MOMENT,
        person_properties="{}",
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )


@pytest.mark.parametrize(
    "times",
    [
        [MOMENT],
        [MOMENT.replace(microsecond=0), MOMENT],
        [MOMENT.astimezone(timezone(timedelta(hours=2)))] * 3,
    ],
)
def test_the_token_is_that_of_earlier_versions(times: list[datetime]) -> None:
    """A worker of another version may take over a block while its insert is under way."""
    events = [make(f"u-{number}", at) for number, at in enumerate(times)]
    digest = hashlib.blake2b(digest_size=16)
    for event in events:
        digest.update(f"{event.project_id} {event.uuid} {event.created_at}\n".encode())
    assert identify_block(events) == digest.hexdigest()
