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


def ask(client: httpx.Client, kind: str, **fields: Any) -> dict[str, Any]:
    query = {"kind": kind, "dateRange": RANGE, **fields}
    response = client.post(QUERY, json={"query": query})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def refuse(client: httpx.Client, kind: str, **fields: Any) -> dict[str, Any]:
    query = {"kind": kind, "dateRange": RANGE, **fields}
    response = client.post(QUERY, json={"query": query})
    assert response.status_code == 400, response.text
    found: dict[str, Any] = response.json()
    return found
