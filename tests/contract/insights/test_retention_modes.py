"""RetentionQuery: windows, brackets, properties that are added up, and intervals at the edge of the
range, worked out by hand."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.test_retention import by_value, retention
from tests.contract.insights.world import QUERY, event, name_actors, refuse, send

WINDOWS = {"timeWindowMode": "24_hour_windows"}


def entity(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "type": "events", **fields}


def both(name: str) -> dict[str, Any]:
    return {"targetEntity": entity(name), "returningEntity": entity(name)}


def counts(rows: list[Any]) -> list[list[int]]:
    return [[each["count"] for each in row["values"]] for row in rows]


def amounts(rows: list[Any]) -> list[list[float]]:
    return [[each["aggregation_value"] for each in row["values"]] for row in rows]


DAYS = {"date_from": "2026-03-02", "date_to": "2026-03-05"}


def test_windows_begin_with_the_first_event(either: httpx.Client) -> None:
    send(
        either,
        # 2 hours, 27 hours and 50 hours after the first.
        *[event("rw-1", "rw", 2, 20), event("rw-1", "rw", 2, 22)],
        *[event("rw-1", "rw", 3, 23), event("rw-1", "rw", 4, 22)],
        # 23 hours later is still the first day, and 24 hours later the next.
        *[event("rw-2", "rw", 2, 20), event("rw-2", "rw", 3, 19)],
        *[event("rw-3", "rw", 3, 8), event("rw-3", "rw", 4, 8)],
    )
    options = {"totalIntervals": 3, **both("rw")}
    # A person starts once.
    assert counts(retention(either, DAYS, **options, **WINDOWS)) == [
        [2, 1, 1],
        [1, 1, 0],
        [0, 0, 0],
        [0, 0, 0],
    ]
    assert counts(retention(either, DAYS, **options)) == [
        [2, 2, 1],
        [3, 2, 0],
        [2, 0, 0],
        [0, 0, 0],
    ]
    # Two events in one window.
    assert counts(retention(either, DAYS, **options, **WINDOWS, minimumOccurrences=2))[0] == [
        2,
        0,
        0,
    ]
    query = {
        "kind": "RetentionQuery",
        "dateRange": DAYS,
        "retentionFilter": {"period": "Day", **options, **WINDOWS},
    }
    source = {"kind": "InsightActorsQuery", "source": query, "interval": 0}
    assert name_actors(either, source) == ["rw-1", "rw-2"]


def test_windows_of_weeks_are_seven_days(client: httpx.Client) -> None:
    send(
        client,
        # The sixth and the seventh day after it, whatever day of the week it is.
        *[event("rx-1", "rx", 4, 12), event("rx-1", "rx", 10, 12)],
        *[event("rx-2", "rx", 4, 12), event("rx-2", "rx", 11, 1)],
    )
    dates = {"date_from": "2026-03-04", "date_to": "2026-03-12"}
    weeks = retention(client, dates, period="Week", totalIntervals=2, **both("rx"), **WINDOWS)
    assert counts(weeks) == [[2, 1], [0, 0]]
    calendar = retention(client, dates, period="Week", totalIntervals=2, **both("rx"))
    assert counts(calendar) == [[2, 2], [2, 0]]


def test_windows_of_first_events(client: httpx.Client) -> None:
    send(
        client,
        *[event("ry-1", "ry", 1, 12), event("ry-1", "ry", 3, 12), event("ry-1", "ry", 4, 13)],
        *[event("ry-2", "ry", 3, 12, kind="a"), event("ry-2", "ry", 4, 13, kind="b")],
        *[event("ry-3", "ry", 3, 12, kind="b"), event("ry-3", "ry", 3, 14, kind="a")],
    )
    first = {"retentionType": "retention_first_time", "totalIntervals": 2, **WINDOWS}
    # The first event of the first person is before the range.
    assert counts(retention(client, DAYS, **first, **both("ry")))[1] == [2, 1]
    with_kind = {
        "targetEntity": entity("ry", properties=[{"key": "kind", "value": "a"}]),
        "returningEntity": entity("ry"),
    }
    assert counts(retention(client, DAYS, **first, **with_kind))[1] == [2, 1]
    ever = first | {"retentionType": "retention_first_ever_occurrence"}
    assert counts(retention(client, DAYS, **ever, **with_kind))[1] == [1, 1]


def test_brackets(either: httpx.Client) -> None:
    send(
        either,
        *[event("rb-1", "rb", 2), event("rb-1", "rb", 3), event("rb-1", "rb", 5)],
        *[event("rb-2", "rb", 2), event("rb-2", "rb", 4)],
        *[event("rb-3", "rb", 3), event("rb-3", "rb", 8)],
    )
    dates = {"date_from": "2026-03-02", "date_to": "2026-03-08"}
    options = {"retentionCustomBrackets": [1, 2, 3], "totalIntervals": 7, **both("rb")}
    rows = retention(either, dates, **options)
    assert [each["label"] for each in rows[0]["values"]] == ["Day 0", "Day 1", "Day 2-3", "Day 4-6"]
    assert [row["label"] for row in rows] == [f"Day {number}" for number in range(7)]
    assert counts(rows) == [
        # 1 comes back after 1 day and after 3; 2 after 2 days.
        [2, 1, 2, 0],
        # 1 after 2 days, 3 after 5 days.
        [2, 0, 1, 1],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [1, 0, 0, 0],
    ]
    assert counts(retention(either, dates, **options, cumulative=True))[1] == [2, 2, 2, 1]
    windows = retention(either, dates, **options, **WINDOWS)
    assert counts(windows)[:3] == [[2, 1, 2, 0], [1, 0, 0, 1], [0, 0, 0, 0]]
    refused = refuse(either, "RetentionQuery", retentionFilter={"retentionCustomBrackets": [1, 0]})
    assert refused["attr"] == "query__retentionFilter__retentionCustomBrackets"


def test_properties_are_added_up(either: httpx.Client) -> None:
    send(
        either,
        *[event("ra-1", "ra", 2, 9, price=1, **{"$set": {"size": 5}})],
        *[event("ra-1", "ra", 2, 10, price=2), event("ra-1", "ra", 3, price=4)],
        *[event("ra-2", "ra", 2, price="8"), event("ra-2", "ra", 3)],
        event("ra-2", "ra", 4, price=16),
        *[event("ra-1", "rpay", 2, 8, price=100), event("ra-1", "rpay", 2, 11, price=200)],
        *[event("ra-1", "rpay", 4, price=400)],
    )
    options = {"totalIntervals": 3, "aggregationProperty": "price"}
    rows = retention(either, DAYS, aggregationType="sum", **options, **both("ra"))
    assert counts(rows)[:3] == [[2, 2, 1], [2, 1, 0], [1, 0, 0]]
    assert amounts(rows)[:3] == [[11, 4, 16], [4, 16, 0], [16, 0, 0]]
    means = retention(either, DAYS, aggregationType="avg", **options, **both("ra"))
    assert amounts(means)[:3] == [[5.5, 2, 16], [2, 16, 0], [16, 0, 0]]
    # What is paid before the start of the first day does not count.
    other = {"targetEntity": entity("ra"), "returningEntity": entity("rpay")}
    paid = retention(either, DAYS, aggregationType="sum", **options, **other)
    assert counts(paid)[:2] == [[2, 0, 1], [2, 1, 0]]
    assert amounts(paid)[:2] == [[200, 0, 400], [0, 400, 0]]
    of_person = options | {"aggregationProperty": "size", "aggregationPropertyType": "person"}
    sizes = retention(either, DAYS, aggregationType="sum", **of_person, **both("ra"))
    assert amounts(sizes)[0] == [10, 5, 0]
    windows = retention(either, DAYS, aggregationType="sum", **options, **both("ra"), **WINDOWS)
    assert amounts(windows)[0] == [11, 4, 16]
    plain = retention(either, DAYS, aggregationType="count", **options, **both("ra"))
    assert "aggregation_value" not in plain[0]["values"][0]


def test_amounts_of_a_breakdown_sum_to_the_total(client: httpx.Client) -> None:
    send(
        client,
        event("rs-1", "rs", 2, 12, price=1, **{"$set": {"team": "a"}}),
        event("rs-1", "rs", 3, price=2),
        event("rs-2", "rs", 2, 12, price=4, **{"$set": {"team": "b"}}),
        event("rs-2", "rs", 3, price=8),
    )
    options = {"totalIntervals": 2, "aggregationType": "sum", "aggregationProperty": "price"}
    breakdown = {"breakdownFilter": {"breakdown": "team", "breakdown_type": "person"}}
    rows = retention(client, {"date_to": "2026-03-03"}, **options, **both("rs"), **breakdown)
    assert by_value(rows) == {"a": [[1, 1], [1]], "b": [[1, 1], [1]]}
    assert amounts(rows) == [[1, 2], [2, 0], [4, 8], [8, 0]]
    total = retention(client, {"date_to": "2026-03-03"}, **options, **both("rs"))
    assert amounts(total) == [[5, 10], [10, 0]]


@pytest.mark.parametrize("period", ["Hour", "Day", "Week", "Month"])
def test_a_first_time_just_before_the_range_is_not_within(
    client: httpx.Client, period: str
) -> None:
    """The first range begins on the first of March, a Sunday, at midnight."""
    name = f"rf-{period}"
    before = {**event(name, name, 1), "timestamp": "2026-02-28T23:50:00Z"}
    send(client, before, event(name, name, 1, 0))
    first = {"retentionType": "retention_first_time", "period": period, "totalIntervals": 1}
    dates = {"date_from": "2026-03-01T00:00:00", "date_to": "2026-03-01T00:30:00"}
    assert counts(retention(client, dates, **first, **both(name)))[0] == [0]
    recurring = first | {"retentionType": "retention_recurring"}
    assert counts(retention(client, dates, **recurring, **both(name)))[0] == [1]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"timeWindowMode": "days"}, "timeWindowMode"),
        ({"cumulative": True, **WINDOWS}, "cumulative"),
        ({"cumulative": True, "aggregationType": "sum", "aggregationProperty": "a"}, "cumulative"),
        ({"aggregationType": "sum"}, "aggregationProperty"),
        ({"aggregationType": "max", "aggregationProperty": "a"}, "aggregationType"),
        ({"aggregationPropertyType": "group"}, "aggregationPropertyType"),
        ({"retentionCustomBrackets": [1.5]}, "retentionCustomBrackets"),
        ({"retentionCustomBrackets": [1e300]}, "retentionCustomBrackets"),
        ({"retentionCustomBrackets": [True]}, "retentionCustomBrackets"),
        ({"retentionCustomBrackets": [1] * 31}, "retentionCustomBrackets"),
        ({"retentionCustomBrackets": 7}, "retentionCustomBrackets"),
    ],
)
def test_bad_modes(client: httpx.Client, options: dict[str, Any], name: str) -> None:
    refused = refuse(client, "RetentionQuery", retentionFilter=options)
    assert refused["attr"] == f"query__retentionFilter__{name}"


@pytest.mark.parametrize(
    "mode",
    [{}, WINDOWS, {"retentionCustomBrackets": [1, 2]}, {"cumulative": True}],
    ids=["calendar", "windows", "brackets", "cumulative"],
)
@pytest.mark.parametrize("breakdown", [None, "$browser"])
def test_the_persons_are_as_many_as_the_count(
    client: httpx.Client, mode: dict[str, Any], breakdown: str | None
) -> None:
    query: dict[str, Any] = {
        "kind": "RetentionQuery",
        "dateRange": DAYS,
        "retentionFilter": {"totalIntervals": 3, **both("view"), **mode},
    }
    if breakdown:
        query["breakdownFilter"] = {"breakdown": breakdown}
    rows = client.post(QUERY, json={"query": query}).json()["results"]
    for number, row in enumerate(rows):
        source = {"kind": "InsightActorsQuery", "source": query, "interval": number % 4}
        if breakdown:
            source["breakdown"] = [row["breakdown_value"]]
        actors = {"kind": "ActorsQuery", "source": source, "select": ["appearances"]}
        found = client.post(QUERY, json={"query": actors}).json()["results"]
        appearances = [each for (intervals,) in found for each in intervals]
        shown = [each["count"] for each in row["values"]]
        assert shown == [appearances.count(gap) for gap in range(len(shown))]
