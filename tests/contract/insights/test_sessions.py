"""The table `sessions` in HogQL, and session math in trends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.contract.insights.world import QUERY, ask, refuse, send

START = datetime(2026, 4, 1, 12, tzinfo=UTC)
APRIL = {"date_from": "2026-04-01", "date_to": "2026-04-02"}


def visit(session: str, seconds: int, name: str = "$pageview", **properties: Any) -> dict[str, Any]:
    return {
        "event": name,
        "distinct_id": f"visitor-{session}",
        "timestamp": (START + timedelta(seconds=seconds)).isoformat(),
        "properties": {"$session_id": session, **properties},
    }


EVENTS = [
    visit("s-1", 0, **{"$current_url": "https://a.test/", "$referring_domain": "www.google.com"}),
    visit("s-1", 30, **{"$current_url": "https://a.test/prices"}),
    visit("s-1", 60, "$autocapture", **{"$current_url": "https://a.test/prices"}),
    visit("s-2", 0, **{"$current_url": "https://a.test/blog", "$referring_domain": "$direct"}),
    visit(
        "s-3", 0, **{"$current_url": "https://a.test/", "utm_medium": "cpc", "utm_source": "bing"}
    ),
    visit("s-3", 20, **{"$current_url": "https://a.test/blog"}),
]


def test_sessions(client: httpx.Client) -> None:
    send(client, *EVENTS)
    text = """
        SELECT session_id, `$session_duration`, `$entry_pathname`, `$end_pathname`,
            `$pageview_count`, `$is_bounce`, `$channel_type`
        FROM sessions WHERE session_id LIKE 's-%' ORDER BY session_id
    """
    response = client.post(QUERY, json={"query": {"kind": "HogQLQuery", "query": text}})
    assert response.status_code == 200, response.text
    assert response.json()["results"] == [
        ["s-1", 60, "/", "/prices", 2, 0, "Organic Search"],
        ["s-2", 0, "/blog", "/blog", 1, 1, "Direct"],
        ["s-3", 20, "/", "/blog", 2, 0, "Paid Search"],
    ]
    joined = """
        SELECT event, sum(sessions.`$session_duration`) FROM events
        JOIN sessions ON sessions.session_id = events.`$session_id`
        WHERE session_id LIKE 's-%' GROUP BY event ORDER BY event
    """
    response = client.post(QUERY, json={"query": {"kind": "HogQLQuery", "query": joined}})
    assert response.json()["results"] == [["$autocapture", 60], ["$pageview", 160]]


def test_filters_on_sessions(client: httpx.Client) -> None:
    send(client, *EVENTS)

    def count(key: str, operator: str, value: Any) -> int:
        filters = [{"type": "session", "key": key, "operator": operator, "value": value}]
        found = ask(
            client,
            "TrendsQuery",
            series=[{"kind": "EventsNode", "event": "$pageview", "math": "unique_session"}],
            properties=filters,
            dateRange=APRIL,
        )
        return int(found["results"][0]["count"])

    assert count("$session_duration", "gt", 20) == 1
    assert count("$session_duration", "lt", "60") == 2
    assert count("$channel_type", "exact", ["Paid Search", "Direct"]) == 2
    assert count("$channel_type", "is_not", "Direct") == 2
    assert count("$entry_pathname", "icontains", "BLOG") == 1
    unknown = [{"type": "session", "key": "plan", "value": 1}]
    refused = refuse(client, "TrendsQuery", series=[{"kind": "EventsNode"}], properties=unknown)
    assert refused["attr"] == "query__properties[0].key"


def test_session_math(client: httpx.Client) -> None:
    send(client, *EVENTS)
    views = {"kind": "EventsNode", "event": "$pageview"}
    for math, expected in (("avg", 80 / 3), ("max", 60), ("median", 20), ("sum", 80)):
        series = views | {"math": math, "math_property": "$session_duration"}
        (result,) = ask(client, "TrendsQuery", series=[series], dateRange=APRIL)["results"]
        assert [round(each, 3) for each in result["data"]] == [round(expected, 3), 0], math
    (count,) = ask(
        client, "TrendsQuery", series=[views | {"math": "unique_session"}], dateRange=APRIL
    )["results"]
    assert count["data"] == [3, 0]
