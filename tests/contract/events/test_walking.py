"""Following `next` gives every event once: many of one moment, both ways, and while more arrive."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.live import LiveServer

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
MANY = 10_000
ORDERS = ('["-timestamp"]', '["timestamp"]')


def engine_order(uuid: str) -> tuple[int, int]:
    """The engine compares the second half of a uuid first."""
    return UUID(uuid).int & (1 << 64) - 1, UUID(uuid).int >> 64


class Project:
    """One with events of its own."""

    def __init__(self, client: httpx.Client) -> None:
        made = client.post("/api/projects/", json={"name": "Walked"}).json()
        self._client = client
        self.token = made["api_token"]
        self.path = f"/api/projects/{made['id']}/events/"

    def add(self, *moments: datetime) -> list[str]:
        """The uuids of new events of these moments."""
        batch = [
            {
                "event": "e",
                "distinct_id": "ann",
                "uuid": str(uuid4()),
                "timestamp": each.isoformat(),
            }
            for each in moments
        ]
        answer = self._client.post("/batch/", json={"api_key": self.token, "batch": batch})
        assert answer.json() == {"status": 1}
        return [each["uuid"] for each in batch]

    def pages(self, **parameters: Any) -> Iterator[list[dict[str, Any]]]:
        answer = self._client.get(self.path, params=parameters)
        while True:
            assert answer.status_code == 200, answer.text
            page = answer.json()
            yield page["results"]
            if page["next"] is None:
                return
            answer = self._client.get(page["next"])

    def walked(self, **parameters: Any) -> list[str]:
        return [each["id"] for page in self.pages(**parameters) for each in page]


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[httpx.Client]:
    with live.client() as client:
        yield client


def test_ten_thousand_of_one_moment_come_once_each(client: httpx.Client) -> None:
    project = Project(client)
    uuids = project.add(*[MOMENT] * MANY)
    project.add(MOMENT - timedelta(microseconds=1), MOMENT + timedelta(microseconds=1))
    within = {"after": "2026-01-02T03:04:05.678900Z", "before": "2026-01-02T03:04:05.678902Z"}
    down = project.walked(limit=999, orderBy=ORDERS[0], include_person="false", **within)
    assert down == sorted(uuids, key=engine_order, reverse=True)
    up = project.walked(limit=2500, orderBy=ORDERS[1], include_person="false", **within)
    assert up == sorted(uuids, key=engine_order)
    assert len(project.walked(limit=MANY)) == MANY + 2


@given(
    moments=st.lists(st.integers(-2, 2), max_size=12),
    limit=st.integers(1, 5),
    order=st.sampled_from(ORDERS),
    offset=st.integers(0, 3),
)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_events_come_once_each_in_order(
    client: httpx.Client, moments: list[int], limit: int, order: str, offset: int
) -> None:
    project = Project(client)
    times = [MOMENT + timedelta(microseconds=each) for each in moments]
    events = list(zip(times, project.add(*times), strict=True)) if times else []
    expected = sorted(
        events, key=lambda each: (each[0], engine_order(each[1])), reverse=order == ORDERS[0]
    )
    walked = project.walked(limit=limit, orderBy=order, offset=offset)
    assert walked == [uuid for _, uuid in expected][offset:]


@pytest.mark.parametrize("order", ORDERS)
def test_who_walks_while_events_arrive_sees_those_that_were_there(
    client: httpx.Client, order: str
) -> None:
    project = Project(client)
    now = datetime.now(UTC)
    uuids = project.add(*(now - timedelta(minutes=n % 4) for n in range(20)))
    seen: list[str] = []
    for page in project.pages(limit=3, orderBy=order):
        seen += [each["id"] for each in page]
        # Some of the moment where the page ended, some of now, some of long ago.
        ended = datetime.fromisoformat(page[-1]["timestamp"])
        project.add(ended, datetime.now(UTC), now - timedelta(days=1))
    assert len(seen) == len(set(seen))
    assert set(uuids) <= set(seen)


def test_large_events_make_smaller_pages(client: httpx.Client) -> None:
    project = Project(client)
    token, text = project.token, "x" * 900_000
    for _ in range(5):
        batch = [{"event": "e", "distinct_id": "ann", "properties": {"t": text}} for _ in range(10)]
        answer = client.post("/batch/", json={"api_key": token, "batch": batch})
        assert answer.json() == {"status": 1}
    sizes = [len(page) for page in project.pages(limit=60)]
    assert sum(sizes) == 50
    assert len(sizes) > 1
