"""ActorsQuery: who is behind each number of `world.py`."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.world import BUY, QUERY, RANGE, VIEW, event, send

MARCH = {"date_from": "2026-03-01", "date_to": "2026-03-31"}
TRENDS = {"kind": "TrendsQuery", "series": [VIEW, BUY], "dateRange": RANGE}
OTHER = "$$_posthog_breakdown_other_$$"


def people(client: httpx.Client, source: Any, **fields: Any) -> dict[str, Any]:
    """Return the second column by the first distinct id in alphabetical order."""
    query = {"kind": "ActorsQuery", "source": source, "select": ["actor", "event_count"], **fields}
    response = client.post(QUERY, json={"query": query})
    assert response.status_code == 200, response.text
    return {min(actor["distinct_ids"]): extra for actor, extra in response.json()["results"]}


def of_trend(query: Any, **fields: Any) -> dict[str, Any]:
    return {"kind": "InsightActorsQuery", "source": TRENDS | query, **fields}


def test_the_persons_of_a_day(client: httpx.Client) -> None:
    assert people(client, of_trend({}, day="2026-03-02", series=0)) == {"ada": 2, "bob": 1}
    assert people(client, of_trend({}, day="2026-03-05", series=1)) == {"bob": 1}
    assert people(client, of_trend({})) == {"ada": 3, "bob": 3, "cleo": 2}


def test_an_actor_has_its_properties_and_ids(client: httpx.Client) -> None:
    query = {
        "kind": "ActorsQuery",
        "source": of_trend({}, day="2026-03-03"),
        "select": ["actor", "id", "created_at"],
    }
    found = client.post(QUERY, json={"query": query}).json()
    assert found["columns"] == ["actor", "id", "created_at"]
    actor, id, created_at = next(row for row in found["results"] if "ada" in row[0]["distinct_ids"])
    assert sorted(actor["distinct_ids"]) == ["ada", "ada-phone"]
    assert actor["properties"]["plan"] == "paid"
    assert (actor["id"], actor["type"], bool(created_at)) == (id, "person", True)


def test_pages(client: httpx.Client) -> None:
    query = {"kind": "ActorsQuery", "source": of_trend({}), "select": ["id"], "limit": 2}
    pages = [
        client.post(QUERY, json={"query": query | {"offset": offset}}).json() for offset in (0, 2)
    ]
    assert [page["hasMore"] for page in pages] == [True, False]
    assert len({row[0] for page in pages for row in page["results"]}) == 3


def test_breakdowns_and_math(client: httpx.Client) -> None:
    browsers = {"breakdownFilter": {"breakdown": "$browser"}}
    assert people(client, of_trend(browsers, breakdown="Safari")) == {"ada": 2}
    prices = {
        "dateRange": MARCH,
        "breakdownFilter": {"breakdown": "price", "breakdown_histogram_bin_count": 2},
    }
    assert people(client, of_trend(prices, series=1, breakdown="[20,30.01]")) == {
        "ada": 1,
        "bob": 1,
    }
    day = {"day": "2026-03-05", "series": 1, "breakdown": "[20,30.01]"}
    assert people(client, of_trend(prices, **day)) == {"bob": 1}
    limited = {"breakdownFilter": {"breakdown": "$browser", "breakdown_limit": 1}}
    assert people(client, of_trend(limited, breakdown=OTHER)) == {"ada": 3, "cleo": 2}
    weekly = {"series": [VIEW | {"math": "weekly_active"}], "dateRange": MARCH}
    assert set(people(client, of_trend(weekly, day="2026-03-12"))) == {"ada", "cleo"}
    first = {"series": [VIEW | {"math": "first_time_for_user"}]}
    assert set(people(client, of_trend(first, day="2026-03-03"))) == {"cleo"}
    # Of a line that adds up, all who are counted by then.
    cumulative = {
        "series": [VIEW | {"math": "dau"}],
        "trendsFilter": {"display": "ActionsLineGraphCumulative"},
    }
    by_day = {"2026-03-02": {"ada", "bob"}, "2026-03-03": {"ada", "bob", "cleo"}}
    for until, expected in by_day.items():
        assert set(people(client, of_trend(cumulative, day=until))) == expected
    compared = {"dateRange": {"date_from": "2026-03-06", "date_to": "2026-03-09"}} | {
        "compareFilter": {"compare": True}
    }
    before = of_trend(compared, day="2026-03-04", compare="previous")
    assert people(client, before) == {"bob": 1}


def test_funnels(client: httpx.Client) -> None:
    query = {"kind": "FunnelsQuery", "series": [VIEW, BUY], "dateRange": MARCH}
    source = {"kind": "FunnelsActorsQuery", "source": query}
    assert set(people(client, source | {"funnelStep": 1})) == {"ada", "bob", "cleo"}
    assert set(people(client, source | {"funnelStep": 2})) == {"ada", "bob"}
    assert set(people(client, source | {"funnelStep": -2})) == {"cleo"}


def test_other_values_of_a_breakdown(client: httpx.Client) -> None:
    browsers = {"breakdown": "$browser", "breakdown_limit": 1}
    funnel = {
        "kind": "FunnelsQuery",
        "series": [VIEW, BUY],
        "dateRange": MARCH,
        "breakdownFilter": browsers,
    }
    response = client.post(QUERY, json={"query": funnel}).json()["results"]
    counts = {steps[0]["breakdown_value"][0]: steps[0]["count"] for steps in response}
    source = {"kind": "FunnelsActorsQuery", "source": funnel, "funnelStep": 1}
    others = people(client, source | {"funnelStepBreakdown": ["Other"]})
    shown = people(client, source | {"funnelStepBreakdown": [min(counts, key=len)]})
    assert counts == {"": 1, "Other": 2}
    assert (set(shown), set(others)) == ({"cleo"}, {"ada", "bob"})

    entity = {"id": "view", "type": "events"}
    retention = {
        "kind": "RetentionQuery",
        "retentionFilter": {"totalIntervals": 4, "targetEntity": entity, "returningEntity": entity},
        "dateRange": {"date_from": "2026-03-02", "date_to": "2026-03-05"},
        "breakdownFilter": browsers,
    }
    rows = client.post(QUERY, json={"query": retention}).json()["results"]
    first = {row["breakdown_value"]: row["values"][0]["count"] for row in rows[::4]}
    source = {"kind": "InsightActorsQuery", "source": retention, "interval": 0}
    fields = {"select": ["actor", "appearances"]}
    assert first == {"Chrome": 1, OTHER: 1}
    assert set(people(client, source | {"breakdown": "Chrome"}, **fields)) == {"bob"}
    assert set(people(client, source | {"breakdown": OTHER}, **fields)) == {"ada"}


def test_search_and_order(client: httpx.Client) -> None:
    everyone = of_trend({"dateRange": MARCH})
    assert people(client, everyone, search="ADA-ph") == {"ada": 4}
    assert people(client, everyone, search="no such person") == {}
    ascending = people(client, everyone, orderBy=["event_count ASC", "actor_id DESC"])
    assert list(ascending.values()) == [3, 3, 4]
    refused = {"kind": "ActorsQuery", "source": everyone, "orderBy": ["created_at"]}
    response = client.post(QUERY, json={"query": refused})
    assert (response.status_code, response.json()["attr"]) == (400, "query__orderBy")


def test_rates_over_time(client: httpx.Client) -> None:
    query = {
        "kind": "FunnelsQuery",
        "series": [VIEW, BUY],
        "dateRange": MARCH,
        "funnelsFilter": {"funnelVizType": "trends", "funnelWindowInterval": 1},
    }
    source = {"kind": "FunnelsActorsQuery", "source": query}
    # Bob views on the 2nd and buys on the 5th.
    second = {"funnelTrendsEntrancePeriodStart": "2026-03-02 00:00:00"}
    assert set(people(client, source | second)) == {"ada"}
    assert set(people(client, source | second | {"funnelTrendsDropOff": True})) == {"bob"}
    fifth = {"funnelTrendsEntrancePeriodStart": "2026-03-05"}
    assert set(people(client, source | fifth)) == {"bob"}


def test_paths(client: httpx.Client) -> None:
    def follow(who: str, *names: str) -> list[dict[str, Any]]:
        return [
            event(who, name, 25) | {"timestamp": f"2026-03-25T12:{minute:02}:00Z"}
            for minute, name in enumerate(names)
        ]

    def find(**keys: str) -> set[str]:
        query = {
            "kind": "PathsQuery",
            "dateRange": {"date_from": "2026-03-25", "date_to": "2026-03-25"},
            "pathsFilter": {"includeEventTypes": ["custom_event"], **keys},
        }
        return set(people(client, {"kind": "InsightActorsQuery", "source": query}))

    eve, finn, gus = ("p.a", "p.b", "p.c"), ("p.a", "p.b"), ("p.a", "p.c")
    send(client, *follow("eve", *eve), *follow("finn", *finn), *follow("gus", *gus))
    assert find(pathStartKey="1_p.a", pathEndKey="2_p.b") == {"eve", "finn"}
    assert find(pathStartKey="1_p.a") == {"eve", "finn", "gus"}
    assert find(pathEndKey="2_p.c") == {"gus"}
    assert find(pathStartKey="2_p.b") == {"eve"}
    assert find(pathDropoffKey="2_p.b") == {"finn"}
    assert find() == {"eve", "finn", "gus"}


def test_retention(client: httpx.Client) -> None:
    entity = {"id": "view", "type": "events"}
    options = {"totalIntervals": 4, "targetEntity": entity, "returningEntity": entity}
    query = {
        "kind": "RetentionQuery",
        "retentionFilter": options,
        "dateRange": {"date_to": "2026-03-05"},
    }
    source = {"kind": "InsightActorsQuery", "source": query, "interval": 0}
    found = people(client, source, select=["person", "appearances"])
    assert found == {"ada": [0, 1], "bob": [0, 2, 3]}
    # Or a column for each interval.
    assert people(client, source, select=["person", "day_1"]) == {"ada": 1, "bob": 0}
    assert people(client, source, select=["person", "day_3"]) == {"ada": 0, "bob": 1}
    for unknown in ("day_4", "week_1"):
        query = {"kind": "ActorsQuery", "source": source, "select": ["person", unknown]}
        assert client.post(QUERY, json={"query": query}).json()["attr"] == "query__select"


@pytest.mark.parametrize(
    ("source", "attr"),
    [
        ({"kind": "HogQLQuery"}, "query__source__kind"),
        (of_trend({}, day="2026-04-01"), "query__source__day"),
        (of_trend({}, series=2), "query__source__series"),
        (of_trend({}, compare="previous"), "query__source__compare"),
        (of_trend({}, dy="2026-03-02"), "query__source__dy"),
    ],
)
def test_what_is_not_understood_is_refused(client: httpx.Client, source: Any, attr: str) -> None:
    response = client.post(QUERY, json={"query": {"kind": "ActorsQuery", "source": source}})
    assert (response.status_code, response.json()["attr"]) == (400, attr)
