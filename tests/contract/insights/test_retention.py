"""RetentionQuery: the world of `world.py`, worked out by hand."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.world import ask, create_cohort, event, name_actors, refuse, send

UNTIL = {"date_to": "2026-03-05"}


def retention(client: httpx.Client, dates: Any = UNTIL, **options: Any) -> list[Any]:
    entity = {"id": "view", "type": "events"}
    given = {"totalIntervals": 4, "targetEntity": entity, "returningEntity": entity, **options}
    fields = {"breakdownFilter": given.pop("breakdownFilter", None)}
    query = {"dateRange": dates, "retentionFilter": given, **fields}
    found: list[Any] = ask(client, "RetentionQuery", **query)["results"]
    return found


def grid(rows: list[Any]) -> list[list[int]]:
    """Return the counts without those of intervals after the range, which are 0."""
    counts = [[each["count"] for each in row["values"]] for row in rows]
    past = [row[: len(rows) - base] for base, row in enumerate(counts)]
    assert all(
        len(row) == len(counts[0]) and sum(row) == sum(left)
        for row, left in zip(counts, past, strict=True)
    )
    return past


def test_the_rows_begin_with_date_from(client: httpx.Client) -> None:
    """Each row has as many intervals as `totalIntervals` says, as in PostHog since 2025."""
    rows = retention(client, {"date_from": "2026-03-02", **UNTIL}, totalIntervals=2)
    assert [[each["count"] for each in row["values"]] for row in rows] == [
        [2, 1],
        [2, 0],
        [1, 1],
        [1, 0],
    ]
    assert {row["breakdown_value"] for row in rows} == {None}
    weeks = retention(client, {"date_from": "2026-03-05", "date_to": "2026-03-12"}, period="Week")
    assert [row["date"][:10] for row in weeks] == ["2026-03-01", "2026-03-08"]
    assert [[each["count"] for each in row["values"]] for row in weeks] == [
        [3, 2, 0, 0],
        [2, 0, 0, 0],
    ]
    client.patch("/api/projects/1/", json={"timezone": "Europe/Berlin"})
    try:
        berlin = retention(client, {"date_from": "2026-03-28", "date_to": "2026-03-30"})
        assert [row["date"] for row in berlin] == [
            "2026-03-28T00:00:00+01:00",
            "2026-03-29T00:00:00+01:00",
            "2026-03-30T00:00:00+02:00",
        ]
    finally:
        client.patch("/api/projects/1/", json={"timezone": "UTC"})
    everything = retention(client, {"date_from": "all", **UNTIL}, period="Month")
    assert everything[-1]["date"].startswith("2026-03-01")


def test_recurring_retention(client: httpx.Client) -> None:
    rows = retention(client)
    # 2: Ada and Bob; 3: Ada and Cleo; 4: Bob; 5: Bob.
    assert grid(rows) == [[2, 1, 1, 1], [2, 0, 0], [1, 1], [1]]
    assert [row["label"] for row in rows] == ["Day 0", "Day 1", "Day 2", "Day 3"]
    assert rows[0]["date"].startswith("2026-03-02T00:00:00")
    assert rows[0]["values"][3]["label"] == "Day 3"


def test_first_time_retention(client: httpx.Client) -> None:
    assert grid(retention(client, retentionType="retention_first_time")) == [
        [2, 1, 1, 1],
        [1, 0, 0],
        [0, 0],
        [0],
    ]
    # Nobody of the world is new after the third of March.
    later = retention(client, {"date_to": "2026-03-11"}, retentionType="retention_first_time")
    assert grid(later) == [[0, 0, 0, 0], [0, 0, 0], [0, 0], [0]]


def test_first_time_retention_leaves_out_those_who_never_started(client: httpx.Client) -> None:
    buy = {"id": "buy", "type": "events"}
    rows = retention(client, targetEntity=buy, retentionType="retention_first_time")
    assert grid(rows)[0] == [1, 1, 0, 0]
    assert [row["label"] for row in rows] == ["Day 0", "Day 1", "Day 2", "Day 3"]


def test_another_event_may_be_the_return(client: httpx.Client) -> None:
    rows = retention(client, returningEntity={"id": "buy", "type": "events"})
    assert grid(rows) == [[2, 0, 0, 1], [2, 0, 0], [1, 1], [1]]


def test_weeks_months_and_cumulative_retention(client: httpx.Client) -> None:
    weeks = retention(client, {"date_to": "2026-03-12"}, period="Week", totalIntervals=2)
    assert grid(weeks) == [[3, 2], [2]]
    assert [row["date"][:10] for row in weeks] == ["2026-03-01", "2026-03-08"]
    months = retention(client, {"date_to": "2026-03-12"}, period="Month", totalIntervals=2)
    assert grid(months) == [[0, 0], [3]]
    # Bob came back on day 3 and so counts for days 1 to 3, Ada on day 1.
    assert grid(retention(client, cumulative=True))[0] == [2, 2, 1, 1]


def test_minimum_occurrences(client: httpx.Client) -> None:
    assert grid(retention(client, minimumOccurrences=2)) == [[2, 0, 0, 0], [2, 0, 0], [1, 0], [1]]


def by_value(rows: list[Any]) -> dict[str, list[list[int]]]:
    values = dict.fromkeys(row["breakdown_value"] for row in rows)
    return {
        value: grid([row for row in rows if row["breakdown_value"] == value]) for value in values
    }


def test_breakdown(client: httpx.Client) -> None:
    by_plan = {"breakdown": "plan", "breakdown_type": "person"}
    assert by_value(retention(client, breakdownFilter=by_plan)) == {
        "free": [[1, 0, 1, 1], [1, 0, 0], [1, 1], [1]],
        "paid": [[1, 1, 0, 0], [1, 0, 0], [0, 0], [0]],
    }


def test_breakdowns_by_a_property_of_a_person_sum_to_the_total(client: httpx.Client) -> None:
    for options in ({}, {"retentionType": "retention_first_time"}, {"cumulative": True}):
        by_plan = {"breakdown": "plan", "breakdown_type": "person"}
        parts = by_value(retention(client, breakdownFilter=by_plan, **options)).values()
        total = grid(retention(client, **options))
        assert [
            [sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*parts, strict=True)
        ] == total


def test_an_event_counts_for_its_own_value(client: httpx.Client) -> None:
    """Who starts with one value is retained for it by events that have it too."""
    send(
        client,
        *[event("rv-1", "rv", 2, color="red"), event("rv-1", "rv", 3, color="blue")],
        *[event("rv-1", "rv", 4, color="red"), event("rv-2", "rv", 3, color="blue")],
        *[event("rv-2", "rv", 4, color="blue"), event("rv-3", "rv", 2)],
    )
    rv = {"id": "rv", "type": "events"}
    options = {"targetEntity": rv, "returningEntity": rv, "breakdownFilter": {"breakdown": "color"}}
    rows = retention(client, **options)
    assert by_value(rows) == {
        "blue": [[0, 0, 0, 0], [2, 1, 0], [1, 0], [0]],
        "red": [[1, 0, 1, 0], [0, 0, 0], [1, 0], [0]],
        "": [[1, 0, 0, 0], [0, 0, 0], [0, 0], [0]],
    }
    first = retention(client, retentionType="retention_first_time", **options)
    assert by_value(first)["blue"] == [[0, 0, 0, 0], [2, 1, 0], [0, 0], [0]]
    # The first of all has one value, which all later events count for.
    ever = retention(client, retentionType="retention_first_ever_occurrence", **options)
    assert by_value(ever) == {
        "": [[1, 0, 0, 0], [0, 0, 0], [0, 0], [0]],
        "blue": [[0, 0, 0, 0], [1, 1, 0], [0, 0], [0]],
        "red": [[1, 1, 1, 0], [0, 0, 0], [0, 0], [0]],
    }


def test_the_first_event_of_all_must_match_the_filters_of_the_target(client: httpx.Client) -> None:
    send(
        client,
        *[event("fe-1", "fe", 2, size="small"), event("fe-1", "fe", 3, size="large")],
        *[event("fe-2", "fe", 3, size="large"), event("fe-2", "fe", 5, size="small")],
        *[event("fe-3", "fe", 1, size="large"), event("fe-3", "fe", 3, size="large")],
    )
    large = {"id": "fe", "type": "events", "properties": [{"key": "size", "value": "large"}]}
    options = {"targetEntity": large, "returningEntity": {"id": "fe", "type": "events"}}
    first = retention(client, retentionType="retention_first_time", **options)
    assert grid(first) == [[0, 0, 0, 0], [2, 0, 1], [0, 0], [0]]
    ever = retention(client, retentionType="retention_first_ever_occurrence", **options)
    assert grid(ever) == [[0, 0, 0, 0], [1, 0, 1], [0, 0], [0]]


def test_breakdown_by_cohort(either: httpx.Client) -> None:
    free, paid = (create_cohort(either, "plan", each) for each in ("free", "paid"))
    cohorts = {"breakdown": [free, paid, "all"], "breakdown_type": "cohort"}
    expected = {
        "0": [[2, 1, 1, 1], [2, 0, 0], [1, 1], [1]],
        str(free): [[1, 0, 1, 1], [1, 0, 0], [1, 1], [1]],
        str(paid): [[1, 1, 0, 0], [1, 0, 0], [0, 0], [0]],
    }
    rows = retention(either, breakdownFilter=cohorts)
    assert by_value(rows) == expected
    # The largest comes first.
    assert list(by_value(rows)) == list(expected)
    listed = {"breakdowns": [{"type": "cohort", "property": each} for each in (free, paid, 0)]}
    assert retention(either, breakdownFilter=listed) == rows
    query = {
        "kind": "RetentionQuery",
        "dateRange": UNTIL,
        "breakdownFilter": cohorts,
        "retentionFilter": {
            "totalIntervals": 4,
            "targetEntity": {"id": "view", "type": "events"},
            "returningEntity": {"id": "view", "type": "events"},
        },
    }

    def who(breakdown: Any, interval: int) -> list[str]:
        source = {"kind": "InsightActorsQuery", "source": query, "interval": interval}
        return name_actors(either, source | {"breakdown": breakdown})

    assert who([str(free)], 1) == ["cleo"]
    assert who([paid], 0) == ["ada"]
    assert who(["0"], 0) == ["ada", "bob"]
    missing = {"kind": "InsightActorsQuery", "source": query, "breakdown": [10**6]}
    refused = refuse(either, "ActorsQuery", source=missing)
    assert refused["attr"] == "query__source__breakdown"
    unknown = {"breakdown": [10**6], "breakdown_type": "cohort"}
    assert refuse(either, "RetentionQuery", breakdownFilter=unknown)["attr"] == (
        "query__breakdownFilter__breakdown"
    )


@pytest.mark.parametrize(
    ("options", "attr"),
    [
        ({"period": "Year"}, "query__retentionFilter__period"),
        ({"totalIntervals": 0}, "query__retentionFilter__totalIntervals"),
        ({"target": {}}, "query__retentionFilter__target"),
        (
            {"targetEntity": {"type": "data_warehouse", "id": 1}},
            "query__retentionFilter__targetEntity__type",
        ),
    ],
)
def test_what_is_not_understood_is_refused(client: httpx.Client, options: Any, attr: str) -> None:
    assert refuse(client, "RetentionQuery", retentionFilter=options)["attr"] == attr
