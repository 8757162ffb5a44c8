"""TrendsQuery: the world of `world.py`, worked out by hand."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.world import BUY, RANGE, VIEW, ask, create_cohort, event, refuse, send

NULL = "$$_posthog_breakdown_null_$$"
OTHER = "$$_posthog_breakdown_other_$$"
TOTAL = {"display": "BoldNumber"}
B = {"kind": "EventsNode", "event": "b"}


def trend(client: httpx.Client, **fields: Any) -> list[Any]:
    found: list[Any] = ask(client, "TrendsQuery", **{"series": [VIEW], **fields})["results"]
    return found


def data(client: httpx.Client, **fields: Any) -> Any:
    (result,) = trend(client, **fields)
    return result["data"]


def total(client: httpx.Client, **fields: Any) -> Any:
    (result,) = trend(client, trendsFilter=TOTAL, **fields)
    return result["aggregated_value"]


def test_a_result_has_posthogs_fields(client: httpx.Client) -> None:
    answer = ask(client, "TrendsQuery", series=[VIEW | {"custom_name": "Views"}])
    (result,) = answer["results"]
    assert result["data"] == [3, 3, 1, 1]
    assert result["days"] == ["2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05"]
    assert result["labels"] == ["2-Mar-2026", "3-Mar-2026", "4-Mar-2026", "5-Mar-2026"]
    assert (result["count"], result["label"]) == (8.0, "view")
    assert result["action"]["custom_name"] == "Views"
    assert answer["resolved_date_range"]["date_from"].startswith("2026-03-02T00:00:00")
    assert answer["resolved_date_range"]["date_to"].startswith("2026-03-05T23:59:59.999999")
    assert answer["hogql"].startswith("SELECT")
    assert answer["hasMore"] is False


@pytest.mark.parametrize(
    ("math", "expected"),
    [
        ({"math": "total"}, [1, 0, 0, 1]),
        ({"math": "sum", "math_property": "price"}, [10, 0, 0, 20]),
        ({"math": "avg", "math_property": "price"}, [10, 0, 0, 20]),
        ({"math": "hogql", "math_hogql": "count() * 2"}, [2, 0, 0, 2]),
    ],
)
def test_math_of_purchases(client: httpx.Client, math: Any, expected: Any) -> None:
    assert data(client, series=[BUY | math]) == expected


@pytest.mark.parametrize(
    ("math", "expected"),
    [
        ("dau", [2, 2, 1, 1]),
        ("avg_count_per_actor", [1.5, 1.5, 1, 1]),
        ("max_count_per_actor", [2, 2, 1, 1]),
        ("first_time_for_user", [2, 1, 0, 0]),
        ("weekly_active", [2, 3, 3, 3]),
        ("monthly_active", [2, 3, 3, 3]),
    ],
)
def test_math_of_persons_counts_merged_ones_once(
    client: httpx.Client, math: str, expected: Any
) -> None:
    assert data(client, series=[VIEW | {"math": math}]) == expected


def test_weekly_active_users_leave_after_seven_days(client: httpx.Client) -> None:
    series = [VIEW | {"math": "weekly_active"}]
    later = {"date_from": "2026-03-08", "date_to": "2026-03-12"}
    # Ada 3 and 9, Bob 5, Cleo 3 and 10.
    assert data(client, series=series, dateRange=later) == [3, 3, 3, 3, 2]
    assert total(client, series=series, dateRange=later) == 2


def test_monthly_active_users_by_week_include_the_whole_week(client: httpx.Client) -> None:
    weeks = {"date_from": "2026-03-01", "date_to": "2026-03-10"}
    series = [VIEW | {"math": "monthly_active"}]
    assert data(client, series=series, interval="week", dateRange=weeks) == [3, 3]


@pytest.mark.parametrize(
    ("math", "expected"),
    [("median", 20), ("p75", 25), ("min", 10), ("max", 30), ("sum", 60), ("avg", 20)],
)
def test_numbers_of_a_whole_period(client: httpx.Client, math: str, expected: float) -> None:
    series = [BUY | {"math": math, "math_property": "price"}]
    assert (
        total(client, series=series, dateRange={"date_from": "2026-03-01", "date_to": "2026-03-31"})
        == expected
    )


def test_intervals(client: httpx.Client) -> None:
    month = {"date_from": "2026-03-02", "date_to": "2026-03-10"}
    assert data(client, interval="week", dateRange=month) == [8, 2]
    assert data(client, interval="month", dateRange=month) == [10]
    hours = {"date_from": "2026-03-02T09:00:00", "date_to": "2026-03-02T12:00:00"}
    (result,) = trend(client, interval="hour", dateRange=hours)
    assert result["data"] == [1, 1, 0, 0]
    assert result["days"][0] == "2026-03-02 09:00:00"


def test_breakdown_by_event_property(client: httpx.Client) -> None:
    results = trend(client, breakdownFilter={"breakdown": "$browser", "breakdown_type": "event"})
    assert [(each["breakdown_value"], each["data"]) for each in results] == [
        ("Chrome", [1, 0, 1, 1]),
        ("Safari", [1, 1, 0, 0]),
        ("Firefox", [1, 0, 0, 0]),
        (NULL, [0, 2, 0, 0]),
    ]
    assert [each["label"] for each in results][:2] == ["Chrome", "Safari"]


def test_values_beyond_the_limit_are_other(client: httpx.Client) -> None:
    breakdown = {"breakdown": "$browser", "breakdown_limit": 1}
    answer = ask(client, "TrendsQuery", series=[VIEW], breakdownFilter=breakdown)
    assert answer["hasMore"] is True
    assert [(each["breakdown_value"], each["data"]) for each in answer["results"]] == [
        ("Chrome", [1, 0, 1, 1]),
        (OTHER, [2, 3, 0, 0]),
    ]
    hidden = breakdown | {"breakdown_hide_other_aggregation": True}
    assert len(trend(client, breakdownFilter=hidden)) == 1


def test_breakdown_by_person_and_by_two_properties(client: httpx.Client) -> None:
    by_plan = trend(client, breakdownFilter={"breakdown": "plan", "breakdown_type": "person"})
    assert [(each["breakdown_value"], each["count"]) for each in by_plan] == [
        ("free", 5),
        ("paid", 3),
    ]
    both = {"breakdowns": [{"property": "plan", "type": "person"}, {"property": "$browser"}]}
    found = {
        tuple(each["breakdown_value"]): each["count"]
        for each in trend(client, breakdownFilter=both)
    }
    assert found == {
        ("free", "Chrome"): 3,
        ("paid", "Safari"): 2,
        ("free", NULL): 2,
        ("paid", "Firefox"): 1,
    }


def test_breakdown_by_bins_of_numbers(either: httpx.Client) -> None:
    """Prices are 10, 20, 30 and a text."""
    march = {"date_from": "2026-03-01", "date_to": "2026-03-31"}

    def count(breakdown: dict[str, Any]) -> dict[Any, float]:
        results = trend(either, series=[BUY], dateRange=march, breakdownFilter=breakdown)
        return {str(each["breakdown_value"]): each["count"] for each in results}

    price = {"breakdown": "price", "breakdown_histogram_bin_count": 2}
    assert count(price) == {"[20,30.01]": 2, "[10,20]": 1, NULL: 1}
    assert list(count(price)) == ["[20,30.01]", "[10,20]", NULL]
    assert count(price | {"breakdown_histogram_bin_count": 1}) == {"[10,30.01]": 3, NULL: 1}
    listed = {"breakdowns": [{"property": "price", "histogram_bin_count": 2}]}
    assert count(listed) == {"['[20,30.01]']": 2, "['[10,20]']": 1, f"['{NULL}']": 1}
    with_plan = {"breakdowns": [{"property": "plan", "type": "person"}, *listed["breakdowns"]]}
    assert count(with_plan)["['paid', '[20,30.01]']"] == 1
    limited = price | {"breakdown_limit": 1}
    assert count(limited) == {"[20,30.01]": 2, OTHER: 2}
    for bins in (0, 101, 1.5, "2"):
        refused = refuse(
            either,
            "TrendsQuery",
            series=[BUY],
            breakdownFilter=price | {"breakdown_histogram_bin_count": bins},
        )
        assert refused["attr"] == "query__breakdownFilter__breakdown_histogram_bin_count"
    refused = refuse(either, "FunnelsQuery", series=[VIEW, BUY], breakdownFilter=price)
    assert refused["code"] == "unknown_field"


def test_bins_of_equal_and_of_extreme_numbers(either: httpx.Client) -> None:
    numbers = [7, 7, "inf", "nan", 7.0, "7", None]
    send(either, *(event("bins", "same", 4, n, x=x) for n, x in enumerate(numbers)))
    send(either, *(event("bins", "wide", 4, n, x=x) for n, x in enumerate((-1e18, 0, 1e18))))

    def count(name: str, bins: int, **breakdown: Any) -> list[float]:
        found = trend(
            either,
            series=[{"kind": "EventsNode", "event": name}],
            breakdownFilter={"breakdown": "x", "breakdown_histogram_bin_count": bins, **breakdown},
        )
        return [each["count"] for each in found]

    assert count("same", 5) == [4, 3]
    assert count("wide", 2) == [2, 1]
    assert count("nothing", 2) == []


def test_breakdowns_by_group_address_expression_and_column(client: httpx.Client) -> None:
    identified: dict[str, Any] = {
        "$group_type": "company",
        "$group_key": "acme",
        "$group_set": {"size": "big"},
    }
    member: dict[str, Any] = {"$groups": {"company": "acme"}}
    send(
        client,
        event("ada", "$groupidentify", 2, **identified),
        event("ada", "b", 2, **member | {"$current_url": "https://b.test/x/?"}),
        event("bob", "b", 2, **member | {"$current_url": "https://b.test/x"}),
        event("cleo", "b", 3),
    )
    kinds = (
        (
            {"breakdown": "size", "breakdown_type": "group", "breakdown_group_type_index": 0},
            "big",
            NULL,
        ),
        ({"breakdown": "$current_url", "breakdown_normalize_url": True}, "https://b.test/x", NULL),
        (
            {"breakdown": "if(toDayOfMonth(timestamp) = 2, 'a', 'b')", "breakdown_type": "hogql"},
            "a",
            "b",
        ),
    )
    for breakdown, first, second in kinds:
        results = trend(client, series=[B], breakdownFilter=breakdown)
        found = {each["breakdown_value"]: each["data"] for each in results}
        assert found == {first: [2, 0, 0, 0], second: [0, 1, 0, 0]}
    by_id = trend(
        client,
        series=[B],
        breakdownFilter={"breakdown": "distinct_id", "breakdown_type": "event_metadata"},
    )
    assert {each["breakdown_value"] for each in by_id} == {"ada", "bob", "cleo"}
    groups = B | {"math": "unique_group", "math_group_type_index": 0}
    assert data(client, series=[groups]) == [1, 0, 0, 0]


def test_smoothing_averages_with_the_intervals_before(client: httpx.Client) -> None:
    assert data(client, trendsFilter={"smoothingIntervals": 2}) == [3, 3, 2, 1]


def test_intervals_follow_the_time_zone_of_the_project(client: httpx.Client) -> None:
    project = client.post("/api/projects/", json={"timezone": "America/New_York"}).json()
    # The clocks of New York go forward on the 8th, at 7:00 in UTC.
    moments = [event("tz", "tz", day, hour) for day, hour in ((8, 6), (8, 7), (9, 3), (9, 5))]
    send(client, *moments, key=project["api_token"])

    def ask_there(first: int, last: int, interval: str) -> list[int]:
        dates = {"date_from": f"2026-03-0{first}", "date_to": f"2026-03-0{last}"}
        query = {"kind": "TrendsQuery", "series": [{"event": "tz"}], "dateRange": dates}
        body = {"query": query | {"interval": interval}}
        answer = client.post(f"/api/projects/{project['id']}/query/", json=body)
        found: list[int] = answer.json()["results"][0]["data"]
        return found

    assert ask_there(7, 9, "day") == [0, 3, 1]
    hours = ask_there(8, 8, "hour")
    assert (len(hours), [number for number, count in enumerate(hours) if count]) == (23, [1, 2, 22])


def test_breakdown_by_cohort(client: httpx.Client) -> None:
    id = create_cohort(client, "plan", "free")
    results = trend(client, breakdownFilter={"breakdown": [id, "all"], "breakdown_type": "cohort"})
    assert [(each["breakdown_value"], each["label"], each["data"]) for each in results] == [
        (id, "Free", [1, 2, 1, 1]),
        ("all", "all users", [3, 3, 1, 1]),
    ]


def test_comparison_equals_the_query_of_the_period_before(client: httpx.Client) -> None:
    later = {"date_from": "2026-03-06", "date_to": "2026-03-09"}
    current, previous = trend(client, dateRange=later, compareFilter={"compare": True})
    assert (current["compare_label"], previous["compare_label"]) == ("current", "previous")
    assert previous["data"] == data(client, dateRange=RANGE)
    assert previous["days"] == ["2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05"]
    shifted = trend(
        client,
        dateRange={"date_from": "2026-03-09", "date_to": "2026-03-12"},
        compareFilter={"compare": True, "compare_to": "-1w"},
    )
    assert shifted[1]["data"] == data(client, dateRange=RANGE)


def test_formulas(client: httpx.Client) -> None:
    (result,) = trend(client, series=[BUY, VIEW], trendsFilter={"formula": "A / B * 100"})
    assert [round(each, 2) for each in result["data"]] == [33.33, 0, 0, 100]
    assert result["label"] == "Formula (A / B * 100)"
    nodes = [{"formula": "(A + B) * -1", "custom_name": "Both"}, {"formula": "B - A"}]
    both = trend(client, series=[BUY, VIEW], trendsFilter={"formulaNodes": nodes})
    assert [each["data"] for each in both] == [[-4, -3, -1, -2], [2, 3, 1, 0]]
    assert both[0]["label"] == "Both"


def test_cumulative_display_counts_a_person_once(client: httpx.Client) -> None:
    display = {"display": "ActionsLineGraphCumulative"}
    assert data(client, trendsFilter=display) == [3, 6, 7, 8]
    assert data(client, series=[VIEW | {"math": "dau"}], trendsFilter=display) == [2, 3, 3, 3]


def test_filters_of_a_series_and_of_the_query(client: httpx.Client) -> None:
    chrome = {"key": "$browser", "value": "Chrome", "type": "event"}
    paid = {"key": "plan", "value": "paid", "type": "person"}
    assert data(client, series=[VIEW | {"properties": [chrome]}]) == [1, 0, 1, 1]
    assert data(client, properties=[paid]) == [2, 1, 0, 0]
    group = {
        "type": "OR",
        "values": [{"type": "AND", "values": [chrome]}, {"type": "AND", "values": [paid]}],
    }
    assert data(client, properties=group) == [3, 1, 1, 1]


def test_breakdowns_sum_to_the_total(client: httpx.Client) -> None:
    for math in ({}, {"math": "hogql", "math_hogql": "count()"}):
        results = trend(client, series=[VIEW | math], breakdownFilter={"breakdown": "$browser"})
        assert [sum(each) for each in zip(*(each["data"] for each in results), strict=True)] == [
            3,
            3,
            1,
            1,
        ]


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"series": []}, "query__series"),
        ({"series": [VIEW | {"mth": "dau"}]}, "query__series__0__mth"),
        ({"series": [VIEW | {"math": "mean"}]}, "query__series__0__math"),
        ({"series": [VIEW | {"math": "sum"}]}, "query__series__0__math_property"),
        ({"interval": "fortnight"}, "query__interval"),
        ({"trendsFilter": {"formula": "A +"}}, "query__trendsFilter__formula"),
        ({"trendsFilter": {"formula": "A + B"}}, "query__trendsFilter__formula"),
        ({"trendsFilter": {"display": "Globe"}}, "query__trendsFilter__display"),
        (
            {"breakdownFilter": {"breakdown": "x", "breakdown_limit": 0}},
            "query__breakdownFilter__breakdown_limit",
        ),
        ({"dateRange": {"date_from": "yesterday"}}, "query__dateRange__date_from"),
        (
            {"dateRange": {"date_from": "2020-01-01"}, "interval": "minute"},
            "query__dateRange__date_from",
        ),
        ({"serie": [VIEW]}, "query__serie"),
    ],
)
def test_what_is_not_understood_is_refused(client: httpx.Client, fields: Any, attr: str) -> None:
    assert refuse(client, "TrendsQuery", **{"series": [VIEW], **fields})["attr"] == attr


def test_a_calendar_heatmap_has_days_of_the_week_and_hours(either: httpx.Client) -> None:
    """Views: Monday at 9 and 10 Ada, at 23 Bob; Tuesday at 8 Ada, at 12 and 13 Cleo; Wednesday and
    Thursday at 1 Bob."""

    def ask_heatmap(math: str) -> Any:
        display = {"display": "CalendarHeatmap"}
        series = [VIEW | {"math": math}]
        (found,) = ask(either, "TrendsQuery", series=series, trendsFilter=display)["results"]
        assert found["aggregated_value"] == found["calendar_heatmap_data"]["allAggregations"]
        return found["calendar_heatmap_data"]

    total = ask_heatmap("total")
    cells = {(each["row"], each["column"]): each["value"] for each in total["data"]}
    assert cells == dict.fromkeys(
        [(1, 9), (1, 10), (1, 23), (2, 8), (2, 12), (2, 13), (3, 1), (4, 1)], 1
    )
    assert [each["value"] for each in total["rowAggregations"]] == [3, 3, 1, 1]
    assert total["columnAggregations"][0] == {"column": 1, "value": 2}
    unique = ask_heatmap("dau")
    assert [each["value"] for each in unique["rowAggregations"]] == [2, 2, 1, 1]
    assert unique["columnAggregations"][0] == {"column": 1, "value": 1}
    assert unique["allAggregations"] == 3
