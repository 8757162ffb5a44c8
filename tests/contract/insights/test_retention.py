"""RetentionQuery: the world of `world.py`, worked out by hand."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.world import ask, refuse

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


def test_breakdown(client: httpx.Client) -> None:
    by_plan = {"breakdown": "plan", "breakdown_type": "person"}
    rows = retention(client, breakdownFilter=by_plan)
    found: dict[str, list[list[int]]] = {row["breakdown_value"]: [] for row in rows}
    for row in rows:
        found[row["breakdown_value"]].append([each["count"] for each in row["values"]])
    found = {value: [row[: 4 - n] for n, row in enumerate(rows)] for value, rows in found.items()}
    assert found == {
        "free": [[1, 0, 1, 1], [1, 0, 0], [1, 1], [1]],
        "paid": [[1, 1, 0, 0], [1, 0, 0], [0, 0], [0]],
    }


@pytest.mark.parametrize(
    ("options", "attr"),
    [
        ({"period": "Year"}, "query__retentionFilter__period"),
        ({"totalIntervals": 0}, "query__retentionFilter__totalIntervals"),
        ({"target": {}}, "query__retentionFilter.target"),
        (
            {"targetEntity": {"type": "data_warehouse", "id": 1}},
            "query__retentionFilter__targetEntity__type",
        ),
    ],
)
def test_what_is_not_understood_is_refused(client: httpx.Client, options: Any, attr: str) -> None:
    assert refuse(client, "RetentionQuery", retentionFilter=options)["attr"] == attr
