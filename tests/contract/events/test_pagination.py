"""Following `next` returns every event exactly once: with equal timestamps, in both directions,
and while new events arrive.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.live import LiveServer

TIMESTAMP = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
MANY = 10_000
ORDERS = ('["-timestamp"]', '["timestamp"]')


def engine_order(uuid: str) -> tuple[int, int]:
    """Sort key of a uuid: the engine compares its second half first."""
    return UUID(uuid).int & (1 << 64) - 1, UUID(uuid).int >> 64


class Project:
    """A new project with its own events."""

    def __init__(self, client: httpx.Client) -> None:
        created = client.post("/api/projects/", json={"name": "Pagination"}).json()
        self._client = client
        self.token = created["api_token"]
        self.path = f"/api/projects/{created['id']}/events/"

    def add(self, *timestamps: datetime) -> list[str]:
        """Capture events with these timestamps and return their uuids."""
        batch = [
            {
                "event": "e",
                "distinct_id": "ann",
                "uuid": str(uuid4()),
                "timestamp": each.isoformat(),
            }
            for each in timestamps
        ]
        response = self._client.post("/batch/", json={"api_key": self.token, "batch": batch})
        assert response.json() == {"status": 1}
        return [each["uuid"] for each in batch]

    def pages(self, **parameters: Any) -> Iterator[list[dict[str, Any]]]:
        response = self._client.get(self.path, params=parameters)
        while True:
            assert response.status_code == 200, response.text
            page = response.json()
            yield page["results"]
            if page["next"] is None:
                return
            response = self._client.get(page["next"])

    def list_ids(self, **parameters: Any) -> list[str]:
        return [each["id"] for page in self.pages(**parameters) for each in page]


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[httpx.Client]:
    with live.client() as client:
        yield client


def test_many_events_with_one_timestamp_are_returned_once_each(client: httpx.Client) -> None:
    project = Project(client)
    uuids = project.add(*[TIMESTAMP] * MANY)
    project.add(TIMESTAMP - timedelta(microseconds=1), TIMESTAMP + timedelta(microseconds=1))
    within = {"after": "2026-01-02T03:04:05.678900Z", "before": "2026-01-02T03:04:05.678902Z"}
    down = project.list_ids(limit=999, orderBy=ORDERS[0], include_person="false", **within)
    assert down == sorted(uuids, key=engine_order, reverse=True)
    up = project.list_ids(limit=2500, orderBy=ORDERS[1], include_person="false", **within)
    assert up == sorted(uuids, key=engine_order)
    assert len(project.list_ids(limit=MANY)) == MANY + 2


@given(
    offsets=st.lists(st.integers(-2, 2), max_size=12),
    limit=st.integers(1, 5),
    order=st.sampled_from(ORDERS),
    offset=st.integers(0, 3),
)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_all_events_are_returned_once_in_order(
    client: httpx.Client, offsets: list[int], limit: int, order: str, offset: int
) -> None:
    project = Project(client)
    times = [TIMESTAMP + timedelta(microseconds=each) for each in offsets]
    events = list(zip(times, project.add(*times), strict=True)) if times else []
    expected = sorted(
        events, key=lambda each: (each[0], engine_order(each[1])), reverse=order == ORDERS[0]
    )
    found = project.list_ids(limit=limit, orderBy=order, offset=offset)
    assert found == [uuid for _, uuid in expected][offset:]


@pytest.mark.parametrize("order", ORDERS)
def test_events_that_arrive_during_pagination_hide_no_others(
    client: httpx.Client, order: str
) -> None:
    project = Project(client)
    now = datetime.now(UTC)
    uuids = project.add(*(now - timedelta(minutes=n % 4) for n in range(20)))
    seen: list[str] = []
    for page in project.pages(limit=3, orderBy=order):
        seen += [each["id"] for each in page]
        # At the end of the page, now, and long ago.
        ended = datetime.fromisoformat(page[-1]["timestamp"])
        project.add(ended, datetime.now(UTC), now - timedelta(days=1))
    assert len(seen) == len(set(seen))
    assert set(uuids) <= set(seen)


def test_large_events_shrink_pages(client: httpx.Client) -> None:
    project = Project(client)
    token, text = project.token, "x" * 900_000
    for _ in range(5):
        batch = [{"event": "e", "distinct_id": "ann", "properties": {"t": text}} for _ in range(10)]
        response = client.post("/batch/", json={"api_key": token, "batch": batch})
        assert response.json() == {"status": 1}
    sizes = [len(page) for page in project.pages(limit=60)]
    assert sum(sizes) == 50
    assert len(sizes) > 1
