"""The query of a check reads one series, over as many intervals as the condition needs."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hedgerow.alerts.check_query import build_check_query, check_insight, parse_insight
from hedgerow.alerts.model import AlertCondition, AlertConfig, ConditionType
from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime

ZONE = ZoneInfo("America/New_York")
# 23:30 on Wednesday in New York.
NOW = datetime(2026, 6, 11, 3, 30, tzinfo=UTC)
A = {"kind": "EventsNode", "event": "a"}
B = {"kind": "EventsNode", "event": "b"}
ABSOLUTE = AlertCondition(type=ConditionType.ABSOLUTE, lower=1)
SECOND = AlertConfig(series_index=1, checks_ongoing=False)


def trends(**fields: Any) -> dict[str, Any]:
    return {"kind": "TrendsQuery", "series": [A, B], **fields}


def build(query: dict[str, Any], condition: AlertCondition = ABSOLUTE) -> dict[str, Any]:
    trend = parse_insight({"kind": "InsightVizNode", "source": query})
    return build_check_query(trend, condition, SECOND, QueryTime(now=NOW, zone=ZONE))


@pytest.mark.parametrize(
    ("interval", "condition", "start"),
    [
        ("day", ABSOLUTE, "2026-06-08"),
        ("hour", ABSOLUTE, "2026-06-10T21:00:00-04:00"),
        ("week", ABSOLUTE, "2026-05-24"),
        ("month", ABSOLUTE, "2026-04-01"),
        ("day", AlertCondition(type=ConditionType.INCREASE, upper=1), "2026-06-07"),
        ("day", AlertCondition(type=ConditionType.ANOMALY, window=7, sensitivity=3), "2026-06-01"),
    ],
)
def test_begins_as_many_local_intervals_ago_as_needed(
    interval: str, condition: AlertCondition, start: str
) -> None:
    query = build(
        trends(interval=interval, dateRange={"date_from": "all"}, compareFilter={"compare": True}),
        condition,
    )
    assert query["dateRange"] == {"date_from": start}
    assert query["series"] == [B]
    assert "compareFilter" not in query


def test_totals_and_cumulative_trends_keep_their_period() -> None:
    for display in ("BoldNumber", "ActionsLineGraphCumulative"):
        query = build(trends(dateRange={"date_from": "-3d"}, trendsFilter={"display": display}))
        assert query["dateRange"] == {"date_from": "-3d"}


def test_the_index_chooses_a_formula_if_there_are_any() -> None:
    query = build(trends(trendsFilter={"formulas": ["A+B", "A/B"]}))
    assert query["series"] == [A, B]
    assert query["trendsFilter"]["formulaNodes"] == [{"formula": "A/B"}]
    assert parse_insight(query).formulas[0].text == "A/B"


@pytest.mark.parametrize(
    ("query", "condition", "attr"),
    [
        ({"kind": "FunnelsQuery"}, ABSOLUTE, "insight"),
        ({}, ABSOLUTE, "insight"),
        ({"kind": "TrendsQuery", "series": [A]}, ABSOLUTE, "config__series_index"),
        (
            trends(trendsFilter={"display": "BoldNumber"}),
            AlertCondition(type=ConditionType.INCREASE, upper=1),
            "condition__type",
        ),
    ],
)
def test_refuses_what_cannot_be_checked(
    query: dict[str, Any], condition: AlertCondition, attr: str
) -> None:
    with pytest.raises(Invalid) as raised:
        check_insight(query, condition, SECOND)
    assert raised.value.attr == attr
