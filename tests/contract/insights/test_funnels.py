"""FunnelsQuery: the world of `world.py` and small ones of its own, worked out by hand."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.world import (
    BUY,
    VIEW,
    ask,
    create_cohort,
    event,
    name_actors,
    refuse,
    send,
)

MARCH = {"date_from": "2026-03-01", "date_to": "2026-03-31"}
NULL = ""
OTHER = "Other"


def funnel(client: httpx.Client, *steps: Any, **fields: Any) -> Any:
    options = {
        "funnelsFilter": {
            name: fields.pop(name)
            for name in list(fields)
            if name not in ("breakdownFilter", "dateRange", "properties", "interval")
        }
    }
    query = {"series": list(steps), "dateRange": MARCH, **options, **fields}
    return ask(client, "FunnelsQuery", **query)["results"]


def counts(steps: Any) -> list[int]:
    return [each["count"] for each in steps]


def step(name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "EventsNode", "event": name, **fields}


def test_steps_have_posthogs_fields(client: httpx.Client) -> None:
    first, second = funnel(client, VIEW, BUY)
    # Ada 2 hours after her last view of the day, and again; Bob an hour after; Cleo never buys.
    assert (first["count"], second["count"]) == (3, 2)
    assert (first["order"], first["action_id"], first["name"], first["type"]) == (
        0,
        "view",
        "view",
        "events",
    )
    assert first["average_conversion_time"] is None
    assert second["average_conversion_time"] == (2 + 1) / 2 * 3600
    assert second["median_conversion_time"] == (2 + 1) / 2 * 3600


def test_a_funnel_of_one_step_equals_unique_users(client: httpx.Client) -> None:
    (only,) = funnel(client, VIEW)
    (users,) = ask(
        client,
        "TrendsQuery",
        series=[VIEW | {"math": "dau"}],
        dateRange=MARCH,
        trendsFilter={"display": "BoldNumber"},
    )["results"]
    assert only["count"] == users["aggregated_value"] == 3


def test_order_and_window(client: httpx.Client) -> None:
    send(
        client,
        event("f-1", "f.a", 2, 1),
        event("f-1", "f.b", 2, 2),
        event("f-1", "f.c", 2, 3),
        event("f-2", "f.b", 2, 1),
        event("f-2", "f.a", 2, 2),
        event("f-2", "f.c", 2, 3),
        event("f-3", "f.a", 2, 1),
        event("f-3", "f.other", 2, 2),
        event("f-3", "f.b", 2, 3),
        event("f-3", "f.c", 9, 3),
        event("f-4", "f.a", 2, 1),
        event("f-4", "f.a", 9, 1),
        event("f-4", "f.b", 9, 2),
        event("f-4", "f.c", 9, 3),
    )
    steps = [step("f.a"), step("f.b"), step("f.c")]
    assert counts(funnel(client, *steps)) == [4, 3, 3]
    one_day = {"funnelWindowInterval": 1, "funnelWindowIntervalUnit": "day"}
    assert counts(funnel(client, *steps, **one_day)) == [4, 3, 2]
    assert counts(funnel(client, *steps, funnelOrderType="strict")) == [4, 2, 2]
    assert counts(funnel(client, *steps, funnelOrderType="unordered")) == [4, 4, 4]
    assert counts(funnel(client, *steps, funnelOrderType="unordered", **one_day)) == [4, 4, 3]


@pytest.mark.parametrize(("order", "count"), [("ordered", 14), ("strict", 20), ("unordered", 20)])
def test_a_funnel_may_have_many_steps(client: httpx.Client, order: str, count: int) -> None:
    names = [f"long.{order}.{number}" for number in range(count)]
    send(
        client,
        *(
            event(f"{who}-{order}", name, 2, hour)
            for who, done in (("all", count), ("most", count - 1), ("few", 3))
            for hour, name in enumerate(names[:done])
        ),
    )
    found = funnel(client, *(step(name) for name in names), funnelOrderType=order)
    assert counts(found) == [3] * 3 + [2] * (count - 4) + [1]


def test_one_event_is_one_step(client: httpx.Client) -> None:
    send(client, event("g-1", "g.a", 2, 1), event("g-2", "g.a", 2, 1), event("g-2", "g.a", 2, 2))
    assert counts(funnel(client, step("g.a"), step("g.a"))) == [2, 1]
    assert counts(funnel(client, step("g.a"), step("g.a"), funnelOrderType="strict")) == [2, 1]


OPTIONAL = {"optionalInFunnel": True}


def test_optional_steps(either: httpx.Client) -> None:
    """Steps a, b (optional), c, d (optional), e, in the order of the letters of each person."""
    for letters in ("a", "abc", "ac", "abcde", "abce", "acd", "acde", "ace", "bc"):
        days = enumerate(letters, start=1)
        send(either, *(event(f"o-{letters}", f"o.{name}", 2, hour) for hour, name in days))
    steps = [step("o.a"), step("o.b", **OPTIONAL), step("o.c")]
    steps += [step("o.d", **OPTIONAL), step("o.e")]
    found = funnel(either, *steps)
    assert counts(found) == [8, 3, 7, 3, 4]
    # abcde 2 hours from a to c, abce 2, acde 1, ace 1, abc 2, ac 1, acd 1; then 2, 1, 2, 1.
    assert [each["average_conversion_time"] for each in found] == [
        None,
        None,
        10 / 7 * 3600,
        None,
        1.5 * 3600,
    ]
    assert counts(funnel(either, *steps, funnelOrderType="strict")) == [8, 3, 7, 3, 4]

    def who(number: int) -> list[str]:
        query = {"kind": "FunnelsQuery", "series": steps, "dateRange": MARCH}
        source = {"kind": "FunnelsActorsQuery", "source": query, "funnelStep": number}
        return name_actors(either, source)

    assert who(2) == ["o-abc", "o-abcde", "o-abce"]
    assert who(-2) == ["o-a", "o-ac", "o-acd", "o-acde", "o-ace"]
    assert who(-3) == ["o-a"]
    assert who(-5) == ["o-abc", "o-ac", "o-acd"]
    assert who(5) == ["o-abcde", "o-abce", "o-acde", "o-ace"]


def test_an_optional_step_comes_before_the_next_one(client: httpx.Client) -> None:
    send(
        client,
        # The optional step comes too late, and that alone is no conversion.
        *[event("q-1", "q.a", 2, 1), event("q-1", "q.c", 2, 2), event("q-1", "q.b", 2, 3)],
        # The attempt with the optional step is the better one, and within its window only.
        *[event("q-2", "q.a", 2, 1), event("q-2", "q.b", 2, 2), event("q-2", "q.a", 2, 3)],
        event("q-2", "q.c", 2, 4),
        *[event("q-3", "q.a", 2, 1), event("q-3", "q.b", 2, 2), event("q-3", "q.x", 2, 3)],
    )
    steps = [step("q.a"), step("q.b", **OPTIONAL), step("q.c")]
    assert counts(funnel(client, *steps)) == [3, 2, 2]
    hours = {"funnelWindowIntervalUnit": "hour", "funnelWindowInterval": 2}
    assert counts(funnel(client, *steps, **hours)) == [3, 1, 2]
    late = [step("q.a"), step("q.c"), step("q.b", **OPTIONAL)]
    assert counts(funnel(client, *late)) == [3, 2, 1]
    bad = step("q.x") | {"funnelFromStep": 0, "funnelToStep": 2}
    assert counts(funnel(client, *steps, exclusions=[bad])) == [2, 1, 2]


def test_exclusions_without_order(client: httpx.Client) -> None:
    send(
        client,
        *[event("xu-1", "xu.a", 2, 1), event("xu-1", "xu.bad", 2, 2), event("xu-1", "xu.b", 2, 3)],
        *[event("xu-2", "xu.b", 2, 1), event("xu-2", "xu.a", 2, 2), event("xu-2", "xu.bad", 2, 3)],
        *[event("xu-3", "xu.bad", 2, 1), event("xu-3", "xu.a", 2, 2)],
        *[event("xu-4", "xu.a", 2, 1), event("xu-4", "xu.a", 2, 5), event("xu-4", "xu.b", 2, 6)],
    )
    steps = [step("xu.a"), step("xu.b")]
    bad = step("xu.bad") | {"funnelFromStep": 0, "funnelToStep": 1}
    found = funnel(client, *steps, funnelOrderType="unordered", exclusions=[bad])
    # The first gets to its second step after the excluded event, and that alone is one step.
    assert counts(found) == [4, 2]
    assert [each["name"] for each in found] == ["Completed 1 step", "Completed 2 steps"]
    # The earliest events count: one hour for the second, five for the fourth.
    assert found[1]["average_conversion_time"] == 3 * 3600
    strict = funnel(client, *steps, funnelOrderType="strict", exclusions=[bad])
    assert counts(strict) == [2, 1]


def test_an_excluded_event_ends_the_attempt(client: httpx.Client) -> None:
    send(
        client,
        event("x-1", "x.a", 2, 1),
        event("x-1", "x.bad", 2, 2),
        event("x-1", "x.b", 2, 3),
        event("x-2", "x.a", 2, 1),
        event("x-2", "x.b", 2, 3),
        event("x-2", "x.bad", 2, 4),
        event("x-3", "x.a", 2, 1),
        event("x-3", "x.bad", 2, 2),
        event("x-3", "x.a", 2, 3),
        event("x-3", "x.b", 2, 4),
        event("x-4", "x.a", 2, 1),
    )
    steps = [step("x.a"), step("x.b"), step("x.c")]
    assert counts(funnel(client, *steps)) == [4, 3, 0]
    bad = step("x.bad", funnelFromStep=0, funnelToStep=1)
    # Person 1 leaves the funnel; person 3 converts in the second attempt.
    assert counts(funnel(client, *steps, exclusions=[bad])) == [3, 2, 0]
    later = bad | {"funnelFromStep": 1, "funnelToStep": 2}
    assert counts(funnel(client, *steps, exclusions=[later])) == [3, 2, 0]


def test_who_gets_furthest_with_an_excluded_event_does_not_count(either: httpx.Client) -> None:
    for letters in ("axb", "axba", "axbab", "abxa", "axa", "acx", "abc"):
        hours = enumerate(letters, start=1)
        send(either, *(event(f"y-{letters}", f"y.{name}", 2, hour) for hour, name in hours))
    steps = [step("y.a"), step("y.b")]
    bad = step("y.x", funnelFromStep=0, funnelToStep=1)
    # axb and axba would reach b only with the excluded event, and acx ends with it. axbab reaches
    # b once more, axa begins again, and in abxa it comes too late.
    assert counts(funnel(either, *steps, exclusions=[bad])) == [4, 3]
    query = {"kind": "FunnelsQuery", "series": steps, "dateRange": MARCH}
    options = {"exclusions": [bad], "funnelVizType": "trends"}
    source: dict[str, Any] = {"kind": "FunnelsActorsQuery"}
    source |= {
        "source": query | {"funnelsFilter": options},
        "funnelTrendsEntrancePeriodStart": "2026-03-02",
        "funnelTrendsDropOff": True,
    }
    assert name_actors(either, source) == ["y-axa"]
    (rates,) = funnel(either, *steps, **options)
    assert rates["data"][rates["days"].index("2026-03-02")] == 75.0
    # In a strict funnel, c ends the attempt of acx before the excluded event, and no b would follow
    # the a of axba: only axb never begins again.
    strict = funnel(either, *steps, exclusions=[bad], funnelOrderType="strict")
    assert counts(strict) == [6, 3]


def test_an_event_is_one_step_without_order(either: httpx.Client) -> None:
    for letters in ("a", "ab", "ba", "aa", "aab", "aba", "baa"):
        hours = enumerate(letters, start=1)
        send(either, *(event(f"z-{letters}", f"z.{name}", 2, hour, n=hour) for hour, name in hours))
    first, other = step("z.a"), step("z.b")
    unordered = {"funnelOrderType": "unordered"}
    found = funnel(either, first, other, first, **unordered)
    assert counts(found) == [7, 6, 3]
    # One hour from event to event.
    assert [each["average_conversion_time"] for each in found] == [None, 3600, 3600]
    assert counts(funnel(either, first, first, **unordered)) == [7, 4]
    assert counts(funnel(either, other, first, first, first, **unordered)) == [7, 6, 3, 0]
    # An event of the narrow step is one of the wide one as well, and becomes the first of them.
    wide = step("z.a", properties=[{"key": "n", "value": 1, "operator": "gt"}])
    assert counts(funnel(either, other, wide, first, **unordered)) == [7, 6, 3]


def test_rates_by_cohort(client: httpx.Client) -> None:
    cohort = create_cohort(client, "plan", "paid")
    by_cohort = {"breakdown": [cohort, "all"], "breakdown_type": "cohort"}
    rates = funnel(
        client,
        VIEW,
        BUY,
        funnelVizType="trends",
        dateRange={"date_from": "2026-03-02", "date_to": "2026-03-03"},
        breakdownFilter=by_cohort,
    )
    # Ada pays: she buys after her views of the second, and on the ninth. So does Bob, later, and
    # Cleo, who comes on the third, never does.
    assert {each["breakdown_value"]: each["data"] for each in rates} == {
        "Paid": [100.0, 0.0],
        "all users": [50.0, 0.0],
    }


def test_breakdown_and_attribution(client: httpx.Client) -> None:
    by_browser = {"breakdown": "$browser", "breakdown_type": "event"}
    found = {
        row[0]["breakdown_value"][0]: counts(row)
        for row in funnel(client, VIEW, BUY, breakdownFilter=by_browser)
    }
    assert found == {"Firefox": [1, 1], "Chrome": [1, 1], NULL: [1, 0]}
    last = {
        row[0]["breakdown_value"][0]: counts(row)
        for row in funnel(
            client, VIEW, BUY, breakdownFilter=by_browser, breakdownAttributionType="last_touch"
        )
    }
    assert last == {"Firefox": [1, 1], "Chrome": [1, 1], NULL: [1, 0]}
    everywhere = {
        row[0]["breakdown_value"][0]: counts(row)
        for row in funnel(
            client, VIEW, BUY, breakdownFilter=by_browser, breakdownAttributionType="all_events"
        )
    }
    assert everywhere == {"Firefox": [1, 0], "Safari": [1, 0], "Chrome": [1, 0], NULL: [1, 0]}
    plans = funnel(
        client, VIEW, BUY, breakdownFilter={"breakdown": "plan", "breakdown_type": "person"}
    )
    assert [(row[0]["breakdown_value"], counts(row)) for row in plans] == [
        (["free"], [2, 1]),
        (["paid"], [1, 1]),
    ]
    limited = funnel(client, VIEW, BUY, breakdownFilter=by_browser | {"breakdown_limit": 1})
    assert [row[0]["breakdown_value"] for row in limited] == [[NULL], [OTHER]]
    assert counts(limited[1]) == [2, 2]


def by_value(rows: Any) -> dict[str, list[int]]:
    return {row[0]["breakdown_value"][0]: counts(row) for row in rows}


def test_attribution_to_a_step(client: httpx.Client) -> None:
    """Each value that the step has for a person is a funnel of its own."""
    send(
        client,
        *[event("at-1", "at.a", 2, 1, c="red"), event("at-1", "at.a", 2, 2, c="blue")],
        *[event("at-1", "at.b", 2, 3, c="green"), event("at-1", "at.b", 2, 4, c="red")],
        *[event("at-2", "at.a", 2, 1), event("at-2", "at.b", 2, 2, c="red")],
        *[event("at-3", "at.a", 2, 1, c="red")],
    )
    steps = [step("at.a"), step("at.b")]

    def ask_for(number: int, **options: Any) -> Any:
        attribution = {"breakdownAttributionType": "step", "breakdownAttributionValue": number}
        return funnel(client, *steps, breakdownFilter={"breakdown": "c"}, **attribution, **options)

    assert by_value(ask_for(0)) == {"red": [2, 1], "blue": [1, 1], NULL: [1, 1]}
    # The third never gets to the second step, and so has no value there.
    assert by_value(ask_for(1)) == {"red": [2, 2], "green": [1, 1]}
    unordered = by_value(ask_for(0, funnelOrderType="unordered"))
    assert unordered == {"red": [3, 1], "blue": [1, 1], "green": [1, 0], NULL: [1, 1]}
    rates = ask_for(
        1, funnelVizType="trends", dateRange={"date_from": "2026-03-02", "date_to": "2026-03-02"}
    )
    assert {row["breakdown_value"][0]: row["data"] for row in rates} == {
        "red": [100.0],
        "green": [100.0],
    }


def test_a_rate_over_time_has_the_value_of_the_person(client: httpx.Client) -> None:
    send(
        client,
        *[event("rt-1", "rt.a", 2, 1, c="red"), event("rt-1", "rt.a", 3, 1, c="blue")],
        *[event("rt-1", "rt.b", 3, 2), event("rt-2", "rt.a", 3, 1, c="blue")],
    )

    def rate(attribution: str) -> dict[str, list[float]]:
        rows = funnel(
            client,
            step("rt.a"),
            step("rt.b"),
            breakdownFilter={"breakdown": "c"},
            breakdownAttributionType=attribution,
            funnelVizType="trends",
            funnelWindowInterval=2,
            funnelWindowIntervalUnit="hour",
            dateRange={"date_from": "2026-03-02", "date_to": "2026-03-03"},
        )
        return {row["breakdown_value"][0]: row["data"] for row in rows}

    assert rate("first_touch") == {"red": [0, 100.0], "blue": [0, 0]}
    assert rate("last_touch") == {"blue": [0, 50.0]}
    assert rate("step") == {"red": [0, 0], "blue": [0, 50.0]}


def test_time_to_convert(client: httpx.Client) -> None:
    found = funnel(client, VIEW, BUY, funnelVizType="time_to_convert", binCount=1)
    assert found == {"bins": [[3600, 1], [7200, 1]], "average_conversion_time": 5400.0}
    assert funnel(client, VIEW, step("never"), funnelVizType="time_to_convert") == {
        "bins": [],
        "average_conversion_time": None,
    }


def test_conversion_over_time(client: httpx.Client) -> None:
    (found,) = funnel(
        client,
        VIEW,
        BUY,
        funnelVizType="trends",
        funnelWindowInterval=1,
        dateRange={"date_from": "2026-03-02", "date_to": "2026-03-05"},
    )
    # Ada on the 2nd converts, Bob does not; nobody of the 3rd; Bob of the 4th and 5th.
    assert found["data"] == [50.0, 0, 0, 100.0]
    assert found["days"][0] == "2026-03-02"


def test_groups_and_expressions_as_actors(client: httpx.Client) -> None:
    send(
        client,
        event("h-1", "h.a", 2, 1, **{"$session_id": "s1"}),
        event("h-1", "h.b", 2, 2, **{"$session_id": "s2"}),
        event("h-2", "h.a", 2, 1, **{"$session_id": "s3"}),
        event("h-2", "h.b", 2, 2, **{"$session_id": "s3"}),
    )
    steps = [step("h.a"), step("h.b")]
    assert counts(funnel(client, *steps)) == [2, 2]
    by_session = {"funnelAggregateByHogQL": "properties.$session_id"}
    assert counts(funnel(client, *steps, **by_session)) == [2, 1]


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"series": []}, "query__series"),
        ({"funnelsFilter": {"funnelOrder": "strict"}}, "query__funnelsFilter__funnelOrder"),
        ({"funnelsFilter": {"funnelOrderType": "random"}}, "query__funnelsFilter__funnelOrderType"),
        (
            {"funnelsFilter": {"funnelWindowInterval": 0}},
            "query__funnelsFilter__funnelWindowInterval",
        ),
        ({"funnelsFilter": {"funnelToStep": 2}}, "query__funnelsFilter__funnelToStep"),
        (
            {"funnelsFilter": {"exclusions": [VIEW | {"funnelFromStep": 1, "funnelToStep": 1}]}},
            "query__funnelsFilter__exclusions__0__funnelToStep",
        ),
        (
            {
                "funnelsFilter": {
                    "funnelOrderType": "unordered",
                    "breakdownAttributionType": "step",
                    "breakdownAttributionValue": 1,
                }
            },
            "query__funnelsFilter__breakdownAttributionValue",
        ),
        ({"series": [VIEW | OPTIONAL, BUY]}, "query__series__0__optionalInFunnel"),
        ({"series": [VIEW, BUY | OPTIONAL, BUY]}, "query__series__1__optionalInFunnel"),
        (
            {"series": [VIEW, BUY | OPTIONAL], "funnelsFilter": {"funnelOrderType": "unordered"}},
            "query__series__1__optionalInFunnel",
        ),
        (
            {"series": [VIEW, BUY | OPTIONAL], "funnelsFilter": {"funnelVizType": "trends"}},
            "query__series__1__optionalInFunnel",
        ),
        (
            {"series": [VIEW, BUY | {"optionalInFunnel": "yes"}]},
            "query__series__1__optionalInFunnel",
        ),
    ],
)
def test_what_is_not_understood_is_refused(client: httpx.Client, fields: Any, attr: str) -> None:
    assert refuse(client, "FunnelsQuery", **{"series": [VIEW, BUY], **fields})["attr"] == attr
