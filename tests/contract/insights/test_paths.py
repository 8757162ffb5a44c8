"""PathsQuery, worked out by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.contract.insights.world import ask, name_actors, refuse, send

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
MAY = {"date_from": "2026-05-01", "date_to": "2026-05-02"}
# For paths of one test.
JUNE = {"date_from": "2026-06-01", "date_to": "2026-06-02"}
JUNE_MINUTE = 31 * 24 * 60
HOME, PRICES, BLOG = "https://p.test", "https://p.test/prices", "https://p.test/blog"


def visit(who: str, minute: float, url: str, name: str = "$pageview") -> dict[str, Any]:
    return {
        "event": name,
        "distinct_id": f"path-{who}",
        "timestamp": (START + timedelta(minutes=minute)).isoformat(),
        "properties": {"$current_url": url} if url else {},
    }


EVENTS = [
    # Pia: home, home again, prices, sign up; an hour later the blog.
    visit("pia", 0, f"{HOME}/"),
    visit("pia", 1, HOME),
    visit("pia", 2, PRICES),
    visit("pia", 5, "", "sign up"),
    visit("pia", 65, BLOG),
    # Quin: home, prices, blog.
    visit("quin", 0, HOME),
    visit("quin", 4, PRICES),
    visit("quin", 6, BLOG),
]


@pytest.fixture(scope="module", autouse=True)
def world(client: httpx.Client) -> None:
    send(client, *EVENTS)


def edges(client: httpx.Client, **options: Any) -> dict[tuple[str, str], int]:
    found = ask(client, "PathsQuery", dateRange=MAY, pathsFilter=options)["results"]
    return {(each["source"], each["target"]): each["value"] for each in found}


def test_edges_and_times(client: httpx.Client) -> None:
    found = ask(client, "PathsQuery", dateRange=MAY, pathsFilter={})["results"]
    assert found[0] == {
        "source": f"1_{HOME}",
        "target": f"2_{PRICES}",
        "value": 2,
        # Of the visits of a page one after the other, the last counts.
        "average_conversion_time": (1 + 4) / 2 * 60_000,
    }
    assert edges(client) == {
        (f"1_{HOME}", f"2_{PRICES}"): 2,
        (f"2_{PRICES}", "3_sign up"): 1,
        (f"2_{PRICES}", f"3_{BLOG}"): 1,
    }


def test_event_types_limits_and_exclusions(client: httpx.Client) -> None:
    assert edges(client, includeEventTypes=["$pageview"], edgeLimit=1) == {
        (f"1_{HOME}", f"2_{PRICES}"): 2
    }
    assert edges(client, excludeEvents=[PRICES], includeEventTypes=["$pageview"]) == {
        (f"1_{HOME}", f"2_{BLOG}"): 1
    }
    assert edges(client, stepLimit=2) == {(f"1_{HOME}", f"2_{PRICES}"): 2}
    assert edges(client, minEdgeWeight=2) == {(f"1_{HOME}", f"2_{PRICES}"): 2}


def test_start_and_end_points(client: httpx.Client) -> None:
    assert edges(client, startPoint=f"{PRICES}/") == {
        (f"1_{PRICES}", "2_sign up"): 1,
        (f"1_{PRICES}", f"2_{BLOG}"): 1,
    }
    assert edges(client, endPoint=BLOG, stepLimit=2) == {(f"1_{PRICES}", f"2_{BLOG}"): 1}


def loop(client: httpx.Client, *letters: str, **options: Any) -> dict[str, int]:
    """Return the edges of a person who visits pages with one letter, minute by minute."""
    who = "-".join([*letters, *options])
    send(client, *[visit(who, JUNE_MINUTE + n, each) for n, each in enumerate(letters)])
    filters = [{"type": "hogql", "key": f"distinct_id = 'path-{who}'"}]
    query = {"dateRange": JUNE, "pathsFilter": options, "properties": filters}
    found = ask(client, "PathsQuery", **query)["results"]
    return {f"{each['source']} {each['target']}": each["value"] for each in found}


def test_loops(client: httpx.Client) -> None:
    """A start and an end point are the first visit of a page."""
    assert loop(client, *"abab") == {"1_a 2_b": 1, "2_b 3_a": 1, "3_a 4_b": 1}
    assert loop(client, *"abac", startPoint="a") == {"1_a 2_b": 1, "2_b 3_a": 1, "3_a 4_c": 1}
    assert loop(client, *"abcb", endPoint="b") == {"1_a 2_b": 1}
    assert loop(client, *"cbabd", startPoint="a", endPoint="b") == {"1_a 2_b": 1}
    # More than 5 steps between both.
    assert loop(client, *"xabcdefg", startPoint="a", endPoint="g") == {
        "1_a 2_b": 1,
        "2_b 3_...": 1,
        "3_... 4_f": 1,
        "4_f 5_g": 1,
    }
    assert loop(client, *"abcdef", stepLimit=3) == {"1_a 2_b": 1, "2_b 3_c": 1}


def test_a_break_of_half_an_hour_ends_a_path(client: httpx.Client) -> None:
    times = {"short": 29.99, "long": 30}
    for who, minutes in times.items():
        later = JUNE_MINUTE + minutes
        send(client, visit(who, JUNE_MINUTE, f"{who}-1"), visit(who, later, f"{who}-2"))
    rows = ask(client, "PathsQuery", dateRange=JUNE, pathsFilter={"edgeLimit": 1000})["results"]
    found = {(each["source"], each["target"]) for each in rows}
    assert ("1_short-1", "2_short-2") in found
    assert ("1_long-1", "2_long-2") not in found


def test_edges_that_no_shown_path_leads_to_are_left_out(client: httpx.Client) -> None:
    for who, start in (("e1", "left"), ("e2", "right")):
        pages = [start, "middle", "end"]
        send(client, *[visit(who, JUNE_MINUTE + n, each) for n, each in enumerate(pages)])
    names = "distinct_id IN ('path-e1', 'path-e2')"
    query = {"dateRange": JUNE, "properties": [{"type": "hogql", "key": names}]}
    found = ask(client, "PathsQuery", **query, pathsFilter={"minEdgeWeight": 2})["results"]
    assert found == []
    assert len(ask(client, "PathsQuery", **query, pathsFilter={})["results"]) == 3


def test_expressions_groupings_and_cleaning(client: httpx.Client) -> None:
    pages = ["$pageview"]
    grouped = edges(client, includeEventTypes=pages, pathGroupings=["https://p.test/*"])
    assert grouped == {(f"1_{HOME}", "2_https://p.test/*"): 2}
    cleaning = [{"regex": "^https://p.test", "alias": ""}]
    assert edges(client, includeEventTypes=pages, localPathCleaningFilters=cleaning) == {
        ("1_/prices", "2_/blog"): 1
    }
    by_event = edges(client, includeEventTypes=["hogql"], pathsHogQLExpression="event")
    assert by_event == {("1_$pageview", "2_sign up"): 1}


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"pathsFilter": {"stepLimit": 0}}, "query__pathsFilter__stepLimit"),
        (
            {"pathsFilter": {"includeEventTypes": ["pages"]}},
            "query__pathsFilter__includeEventTypes",
        ),
        ({"pathsFilter": {"start": "x"}}, "query__pathsFilter__start"),
        (
            {"pathsFilter": {"localPathCleaningFilters": [{"regex": "("}]}},
            "query__pathsFilter__localPathCleaningFilters__0__regex",
        ),
    ],
)
def test_what_is_not_understood_is_refused(client: httpx.Client, fields: Any, attr: str) -> None:
    assert refuse(client, "PathsQuery", **fields)["attr"] == attr


JULY = {"date_from": "2026-07-01", "date_to": "2026-07-03"}
JULY_MINUTE = 61 * 24 * 60


def test_paths_of_a_funnel(either: httpx.Client) -> None:
    """Of two people, one gets from `enter` to `leave`. Breaks up to the window of the funnel, which
    is a day, do not end a path."""
    one = [(-50, "ad"), (0, "enter"), (2, "look"), (70, "leave"), (75, "rest")]
    other = [(-5, "search"), (0, "enter"), (3, "wait"), (1500, "again"), (1501, "gone")]
    for who, points in (("f1", one), ("f2", other)):
        send(either, *[visit(who, JULY_MINUTE + minute, "", name) for minute, name in points])
    steps = [{"kind": "EventsNode", "event": each} for each in ("enter", "leave")]
    window = {"funnelWindowInterval": 1, "funnelWindowIntervalUnit": "day"}
    source = {"kind": "FunnelsQuery", "dateRange": JULY, "series": steps, "funnelsFilter": window}

    def follow(type: str, step: int) -> set[str]:
        part = {"funnelPathType": f"funnel_path_{type}", "funnelSource": source, "funnelStep": step}
        query = {"dateRange": JULY, "pathsFilter": {}, "funnelPathsFilter": part}
        found = ask(either, "PathsQuery", **query)["results"]
        assert {each["value"] for each in found} <= {1}
        return {f"{each['source']} {each['target']}" for each in found}

    assert follow("between_steps", 2) == {"1_enter 2_look", "2_look 3_leave"}
    assert follow("before_step", 2) == {"1_ad 2_enter", "2_enter 3_look", "3_look 4_leave"}
    assert follow("after_step", 2) == {"1_leave 2_rest"}
    assert follow("before_step", 1) == {"1_ad 2_enter", "1_search 2_enter"}
    # Those who drop off: until the step before, and after the window.
    assert follow("before_step", -2) == {"1_search 2_enter"}
    assert follow("after_step", -2) == {"1_again 2_gone"}
    part = {"funnelPathType": "funnel_path_after_step", "funnelSource": source, "funnelStep": 2}
    query = {"kind": "PathsQuery", "dateRange": JULY, "funnelPathsFilter": part}
    query["pathsFilter"] = {"pathStartKey": "1_leave", "pathEndKey": "2_rest"}
    actors = {"kind": "InsightActorsQuery", "source": query}
    assert name_actors(either, actors) == ["path-f1"]


@pytest.mark.parametrize(
    ("part", "attr"),
    [
        ({"funnelStep": 3}, "query__funnelPathsFilter__funnelStep"),
        ({"funnelStep": -1}, "query__funnelPathsFilter__funnelStep"),
        (
            {"funnelPathType": "funnel_path_between_steps", "funnelStep": 1},
            "query__funnelPathsFilter__funnelStep",
        ),
        ({"funnelPathType": "after"}, "query__funnelPathsFilter__funnelPathType"),
        ({"step": 1}, "query__funnelPathsFilter__step"),
        ({"funnelSource": {"series": []}}, "query__series"),
    ],
)
def test_bad_parts_of_a_funnel(client: httpx.Client, part: Any, attr: str) -> None:
    steps = [{"kind": "EventsNode", "event": each} for each in ("enter", "leave")]
    source = {"kind": "FunnelsQuery", "series": steps}
    query = {"pathsFilter": {}, "funnelPathsFilter": {"funnelSource": source, **part}}
    assert refuse(client, "PathsQuery", **query)["attr"] == attr
