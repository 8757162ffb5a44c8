"""Queries as PostHog's app, its Terraform provider and its exports send them: with all fields, most
of which change only how a result is drawn."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.world import BUY, RANGE, VIEW, ask, event, name_actors, refuse, send

TRENDS_FILTER: dict[str, Any] = {
    "aggregationAxisFormat": "numeric",
    "display": "ActionsLineGraph",
    "excludeBoxPlotOutliers": True,
    "hideWeekends": False,
    "legendPosition": "bottom",
    "metricColorByDirection": False,
    "metricShowChange": True,
    "metricSummary": "total",
    "resultCustomizationBy": "value",
    "showAlertThresholdLines": False,
    "showAnnotations": True,
    "showLegend": False,
    "showMultipleYAxes": False,
    "showPercentStackView": False,
    "showValuesOnSeries": False,
    "smoothingIntervals": 1,
    "stackBreakdownValues": False,
    "xAxisLabel": "Day",
    "yAxisLabel": "People",
    "yAxisScaleType": "linear",
    "yAxisStartAtZero": True,
}
FUNNELS_FILTER: dict[str, Any] = {
    "breakdownAttributionType": "first_touch",
    "exclusions": [],
    "funnelOrderType": "ordered",
    "funnelStepReference": "total",
    "funnelVizType": "steps",
    "funnelWindowInterval": 14,
    "funnelWindowIntervalUnit": "day",
    "hideIncompleteConversionWindowPeriods": False,
    "customAggregationTarget": None,
    "layout": "horizontal",
    "legendPosition": "top",
    "showAnnotations": True,
    "showLegend": False,
}
ENTITY = {"id": "view", "type": "events", "table_name": None, "timestamp_field": None}
RETENTION_FILTER: dict[str, Any] = {
    "cohortLabelStartIndex": 1,
    "customAggregationTarget": False,
    "period": "Day",
    "totalIntervals": 2,
    "targetEntity": ENTITY,
    "returningEntity": ENTITY,
}


def trend(client: httpx.Client, *series: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(client, "TrendsQuery", series=list(series), **fields)[
        "results"
    ]
    return found


def test_fields_of_drawings_change_nothing(client: httpx.Client) -> None:
    dates = RANGE | {"explicitDate": False, "excludeIncompletePeriods": False, "daysOfWeek": []}
    fields = {"dateRange": dates, "trendsFilter": TRENDS_FILTER}
    heatmap = {"calendarHeatmapFilter": {"bucketBySessionStart": False}}
    assert trend(client, VIEW, **fields, **heatmap)[0]["data"] == [3, 3, 1, 1]
    metric = TRENDS_FILTER | {"display": "Metric"}
    assert trend(client, VIEW, trendsFilter=metric)[0]["data"] == [3, 3, 1, 1]
    steps = ask(
        client,
        "FunnelsQuery",
        series=[VIEW, BUY],
        compareFilter={"compare": False},
        funnelsFilter=FUNNELS_FILTER,
    )["results"]
    assert [each["count"] for each in steps] == [3, 2]
    filters = RETENTION_FILTER | {"totalIntervals": 2.0}
    rows = ask(client, "RetentionQuery", retentionFilter=filters)["results"]
    # Ada and Bob on the second, Ada and Cleo on the third, Bob on the fourth and fifth.
    assert [[each["count"] for each in row["values"]] for row in rows] == [
        [2, 1],
        [2, 0],
        [1, 1],
        [1, 0],
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "attr"),
    [
        (
            "TrendsQuery",
            {"series": [VIEW], "dateRange": RANGE | {"daysOfWeek": [1]}},
            "query__dateRange__daysOfWeek",
        ),
        (
            "TrendsQuery",
            {"series": [VIEW], "calendarHeatmapFilter": {"bucketBySessionStart": True}},
            "query__calendarHeatmapFilter__bucketBySessionStart",
        ),
        (
            "TrendsQuery",
            {"series": [VIEW], "trendsFilter": {"breakdown_histogram_bin_count": 5}},
            "query__trendsFilter__breakdown_histogram_bin_count",
        ),
        (
            "FunnelsQuery",
            {"series": [VIEW, BUY], "compareFilter": {"compare": True}},
            "query__compareFilter__compare",
        ),
        (
            "FunnelsQuery",
            {
                "series": [VIEW, BUY],
                "funnelsFilter": {"hideIncompleteConversionWindowPeriods": True},
            },
            "query__funnelsFilter__hideIncompleteConversionWindowPeriods",
        ),
        (
            "RetentionQuery",
            {"retentionFilter": {"targetEntity": ENTITY | {"table_name": "orders"}}},
            "query__retentionFilter__targetEntity__table_name",
        ),
    ],
)
def test_what_would_change_the_numbers_is_refused(
    client: httpx.Client, kind: str, fields: dict[str, Any], attr: str
) -> None:
    refused = refuse(client, kind, **fields)
    assert (refused["attr"], refused["code"]) == (attr, "not_supported")


def member(company: str) -> dict[str, Any]:
    return {"$groups": {"company": company}}


def test_active_groups(client: httpx.Client) -> None:
    send(
        client,
        event("g-1", "g.use", 2, **member("g-acme")),
        event("g-2", "g.use", 2, **member("g-acme")),
        event("g-3", "g.use", 2, **member("g-best")),
        event("g-4", "g.use", 2),
        event("g-1", "g.use", 5, **member("g-cold")),
    )
    group_type = {"math_group_type_index": 0}
    for math, expected in (
        ("unique_group", [2, 0, 0, 1]),
        ("dau", [2, 0, 0, 1]),
        ("weekly_active", [2, 2, 2, 3]),
        ("monthly_active", [2, 2, 2, 3]),
    ):
        series = {"kind": "EventsNode", "event": "g.use", "math": math}
        assert trend(client, series | group_type)[0]["data"] == expected
    people = {"kind": "EventsNode", "event": "g.use", "math": "dau"}
    assert trend(client, people)[0]["data"] == [4, 0, 0, 1]
    query = {"kind": "TrendsQuery", "dateRange": RANGE, "series": [people | group_type]}
    source = {"kind": "InsightActorsQuery", "source": query, "series": 0, "day": "2026-03-02"}
    found = ask(client, "ActorsQuery", select=["actor"], source=source)["results"]
    assert sorted(actor["id"] for (actor,) in found) == ["g-acme", "g-best"]
    persons = source | {"source": query | {"series": [people]}}
    assert name_actors(client, persons) == ["g-1", "g-2", "g-3", "g-4"]


def test_a_comparison_has_the_length_of_its_period(client: httpx.Client) -> None:
    march = {"date_from": "2026-03-01", "date_to": "2026-03-31"}
    back = {"compare": True, "compare_to": "-1m"}
    current, previous = trend(client, VIEW, dateRange=march, compareFilter=back)
    assert (len(current["data"]), len(previous["data"])) == (31, 31)
    # From the first of February: the last three days are the first of March.
    assert previous["days"][-1] == "2026-03-03"
    assert (current["count"], previous["count"]) == (10.0, 6.0)


def test_results_have_the_order_of_their_series_or_formula(client: httpx.Client) -> None:
    assert [each["order"] for each in trend(client, VIEW, BUY)] == [0, 1]
    formulas = {"formulas": ["A + B", "A - B"]}
    found = trend(client, VIEW, BUY, trendsFilter=formulas, compareFilter={"compare": True})
    assert [(each["order"], each["compare_label"]) for each in found] == [
        (0, "current"),
        (0, "previous"),
        (1, "current"),
        (1, "previous"),
    ]


def test_one_breakdown_of_a_retention_is_text(client: httpx.Client) -> None:
    by_plan = {"breakdowns": [{"property": "plan", "type": "person"}]}
    rows = ask(client, "RetentionQuery", retentionFilter=RETENTION_FILTER, breakdownFilter=by_plan)[
        "results"
    ]
    assert {each["breakdown_value"] for each in rows} == {"free", "paid"}


def test_actors_as_posthogs_app_asks_for_them(client: httpx.Client) -> None:
    query = {"kind": "TrendsQuery", "dateRange": RANGE, "series": [VIEW]}
    point = {"kind": "InsightActorsQuery", "source": query, "series": 0, "day": "2026-03-02"}
    found = ask(
        client,
        "ActorsQuery",
        source=point | {"includeRecordings": True},
        select=["actor", "created_at", "event_count", "matched_recordings"],
        orderBy=["event_count DESC, actor_id DESC"],
    )["results"]
    # Ada views twice, Bob once.
    assert [(len(row[0]["distinct_ids"]), *row[2:]) for row in found] == [(2, 2, []), (1, 1, [])]
    retention = {"kind": "RetentionQuery", "dateRange": RANGE, "retentionFilter": RETENTION_FILTER}
    row = {"kind": "InsightActorsQuery", "source": retention, "interval": 0}
    found = ask(
        client,
        "ActorsQuery",
        source=row,
        select=["person", "day_0", "day_1"],
        orderBy=["length(appearances) DESC", "actor_id"],
    )["results"]
    # Ada is back on the third, Bob is not.
    assert [("ada" in actor["distinct_ids"], *days) for actor, *days in found] == [
        (True, 1, 1),
        (False, 1, 0),
    ]
    groups = row | {"source": retention | {"aggregation_group_type_index": 0}}
    assert ask(client, "ActorsQuery", source=groups, select=["group", "day_0"])["results"] == []
