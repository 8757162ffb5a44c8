"""A small world of events, whose insights can be worked out by hand.

| person | distinct ids | plan | events in March 2026 |
|---|---|---|---|
| Ada | ada, ada-phone | paid | view 2, 2, 3, 9; buy 2 (price 10), 9 (price 30) |
| Bob | bob | free | view 2, 4, 5; buy 5 (price 20) |
| Cleo | cleo | free | view 3, 3, 10 |
| Dan | dan | none | buy 10 (price "x") |

Views carry a browser: Ada's are Firefox, on the phone Safari; Bob's Chrome; Cleo's have none.
"""

from datetime import UTC, datetime
from typing import Any

import httpx

from tests.support.live import PROJECT_KEY

QUERY = "/api/projects/1/query/"
RANGE = {"date_from": "2026-03-02", "date_to": "2026-03-05"}
VIEW = {"kind": "EventsNode", "event": "view"}
BUY = {"kind": "EventsNode", "event": "buy"}


def event(who: str, name: str, day: int, hour: int = 12, **properties: Any) -> dict[str, Any]:
    at = datetime(2026, 3, day, hour, tzinfo=UTC)
    return {
        "event": name,
        "distinct_id": who,
        "timestamp": at.isoformat(),
        "properties": properties,
    }


EVENTS = [
    event("ada", "view", 2, 9, **{"$browser": "Firefox", "$set": {"plan": "paid"}}),
    event("ada-phone", "view", 2, 10, **{"$browser": "Safari"}),
    event("ada", "$identify", 2, 11, **{"$anon_distinct_id": "ada-phone"}),
    event("ada", "buy", 2, 12, price=10),
    event("ada-phone", "view", 3, 8, **{"$browser": "Safari"}),
    event("ada", "view", 9, 8, **{"$browser": "Firefox"}),
    event("ada", "buy", 9, 9, price=30),
    event("bob", "view", 2, 23, **{"$browser": "Chrome", "$set": {"plan": "free"}}),
    event("bob", "view", 4, 1, **{"$browser": "Chrome"}),
    event("bob", "view", 5, 1, **{"$browser": "Chrome"}),
    event("bob", "buy", 5, 2, price=20),
    event("cleo", "view", 3, 12, **{"$set": {"plan": "free"}}),
    event("cleo", "view", 3, 13),
    event("cleo", "view", 10, 12),
    event("dan", "buy", 10, 12, price="x"),
]


def send(client: httpx.Client, *events: dict[str, Any], key: str = PROJECT_KEY) -> None:
    response = client.post("/batch", json={"api_key": key, "batch": list(events)})
    assert response.status_code == 200


def _post(client: httpx.Client, kind: str, fields: dict[str, Any]) -> httpx.Response:
    dates = {} if kind == "ActorsQuery" else {"dateRange": RANGE}
    return client.post(QUERY, json={"query": {"kind": kind, **dates, **fields}})


def ask(client: httpx.Client, kind: str, **fields: Any) -> dict[str, Any]:
    response = _post(client, kind, fields)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def refuse(client: httpx.Client, kind: str, **fields: Any) -> dict[str, Any]:
    response = _post(client, kind, fields)
    assert response.status_code == 400, response.text
    found: dict[str, Any] = response.json()
    return found


def create_cohort(client: httpx.Client, key: str, value: str) -> int:
    """Create a cohort of the persons with a property, and return its id."""
    filters = {"type": "AND", "values": [{"key": key, "value": value, "type": "person"}]}
    body = {"name": value.title(), "filters": {"properties": filters}}
    created = client.post("/api/projects/1/cohorts/", json=body)
    assert created.status_code == 201, created.text
    id: int = created.json()["id"]
    return id


def name_actors(client: httpx.Client, source: dict[str, Any]) -> list[str]:
    """Return one distinct id of each actor behind a number, sorted."""
    found = ask(client, "ActorsQuery", select=["actor"], source=source)["results"]
    return sorted(min(actor["distinct_ids"]) for (actor,) in found)
