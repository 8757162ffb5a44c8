"""The table `sessions` in HogQL, and session math in trends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.contract.insights.world import QUERY, ask, name_actors, refuse, send

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
    # Without a session.
    visit("", 5),
]


@pytest.fixture(scope="module", autouse=True)
def world(client: httpx.Client) -> None:
    send(client, *EVENTS)


def test_sessions(client: httpx.Client) -> None:
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
    assert refused["attr"] == "query__properties__0__key"


def test_session_math(client: httpx.Client) -> None:
    views = {"kind": "EventsNode", "event": "$pageview"}
    for math, expected in (("avg", 80 / 3), ("max", 60), ("median", 20), ("sum", 80)):
        series = views | {"math": math, "math_property": "$session_duration"}
        (result,) = ask(client, "TrendsQuery", series=[series], dateRange=APRIL)["results"]
        assert [round(each, 3) for each in result["data"]] == [round(expected, 3), 0], math
    (count,) = ask(
        client, "TrendsQuery", series=[views | {"math": "unique_session"}], dateRange=APRIL
    )["results"]
    assert count["data"] == [3, 0]


def test_breakdown_by_a_property_of_the_session(client: httpx.Client) -> None:
    views = {"kind": "EventsNode", "event": "$pageview"}

    def count(key: str, **fields: Any) -> dict[Any, Any]:
        by = {"breakdown": key, "breakdown_type": "session"} | fields.pop("by", {})
        query = {"series": [views | fields], "dateRange": APRIL, "breakdownFilter": by}
        results = ask(client, "TrendsQuery", **query)["results"]
        return {each["breakdown_value"]: each["data"] for each in results}

    none = "$$_posthog_breakdown_null_$$"
    assert count("$channel_type") == {
        "Organic Search": [2, 0],
        "Paid Search": [2, 0],
        "Direct": [1, 0],
        none: [1, 0],
    }
    durations = {"60": [2, 0], "20": [2, 0], "0": [1, 0], none: [1, 0]}
    assert count("$session_duration") == durations
    assert count("$entry_pathname") == {"/": [4, 0], "/blog": [1, 0], none: [1, 0]}
    assert count("$end_pathname", math="dau") == {"/prices": [1, 0], "/blog": [2, 0], none: [1, 0]}
    # The sessions of 0 and 20 seconds, and the one of 60.
    assert count("$session_duration", by={"breakdown_histogram_bin_count": 2}) == {
        "[0,30]": [3, 0],
        "[30,60.01]": [2, 0],
        none: [1, 0],
    }
    longest = {"math": "max", "math_property": "$session_duration"}
    assert count("$channel_type", **longest) == {
        "Organic Search": [60, 0],
        "Paid Search": [20, 0],
        "Direct": [0, 0],
    }
    query = {
        "kind": "TrendsQuery",
        "series": [views],
        "dateRange": APRIL,
        "breakdownFilter": {"breakdowns": [{"property": "$is_bounce", "type": "session"}]},
    }
    source = {"kind": "InsightActorsQuery", "source": query, "day": "2026-04-01"}
    assert name_actors(client, source | {"breakdown": ["1"]}) == ["visitor-s-2"]
    assert name_actors(client, source | {"breakdown": ["0"]}) == ["visitor-s-1", "visitor-s-3"]
    steps = [views, {"kind": "EventsNode", "event": "$autocapture"}]
    by_channel = {"breakdown": "$channel_type", "breakdown_type": "session"}
    funnel = {"series": steps, "dateRange": APRIL, "breakdownFilter": by_channel}
    found = ask(client, "FunnelsQuery", **funnel)["results"]
    assert {row[0]["breakdown_value"][0]: [each["count"] for each in row] for row in found} == {
        "Organic Search": [1, 1],
        "Paid Search": [1, 0],
        "Direct": [1, 0],
        "": [1, 0],
    }
    refused = refuse(
        client,
        "TrendsQuery",
        series=[views],
        breakdownFilter={"breakdown": "plan", "breakdown_type": "session"},
    )
    assert refused["attr"] == "query__breakdownFilter__breakdown"


def test_the_session_of_an_event_in_hogql(client: httpx.Client) -> None:
    text = """
        SELECT event, session.`$channel_type`, sum(session.`$session_duration`) FROM events
        WHERE `$session_id` LIKE 's-%' AND session.`$session_duration` > 0
        GROUP BY 1, 2 ORDER BY 1, 2
    """
    response = client.post(QUERY, json={"query": {"kind": "HogQLQuery", "query": text}})
    assert response.status_code == 200, response.text
    assert response.json()["results"] == [
        ["$autocapture", "Organic Search", 60],
        ["$pageview", "Organic Search", 120],
        ["$pageview", "Paid Search", 40],
    ]
    page = "SELECT session.`$entry_pathname` FROM events WHERE `$session_id` = 's-2' LIMIT 1"
    response = client.post(QUERY, json={"query": {"kind": "HogQLQuery", "query": page}})
    assert response.json()["results"] == [["/blog"]]
    wrong = "SELECT session.plan FROM events"
    response = client.post(QUERY, json={"query": {"kind": "HogQLQuery", "query": wrong}})
    assert (response.status_code, "Unknown field" in response.text) == (400, True)
