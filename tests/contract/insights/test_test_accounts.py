"""`filterTestAccounts`: the filters of the project that leave out test accounts."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.insights.world import BUY, QUERY, RANGE, VIEW, ask

PROJECT = "/api/projects/1/"
NOT_FREE = {"key": "plan", "type": "person", "operator": "is_not", "value": "free"}


@pytest.fixture
def filters(client: httpx.Client) -> Iterator[None]:
    changed = client.patch(PROJECT, json={"test_account_filters": [NOT_FREE]})
    assert changed.json()["test_account_filters"] == [NOT_FREE]
    yield
    client.patch(PROJECT, json={"test_account_filters": []})


@pytest.mark.usefixtures("filters")
def test_every_kind_can_leave_out_test_accounts(client: httpx.Client) -> None:
    for is_filtered, views, people in ((False, 8, [3, 2]), (True, 3, [1, 1])):
        given: dict[str, Any] = {"filterTestAccounts": is_filtered}
        (trend,) = ask(client, "TrendsQuery", series=[VIEW], **given)["results"]
        assert trend["count"] == views
        steps = ask(client, "FunnelsQuery", series=[VIEW, BUY], **given)["results"]
        assert [each["count"] for each in steps] == people
        events = {"kind": "EventsQuery", "event": "view", "after": "2026-03-01", **given}
        events |= {"select": ["count()"], "before": "2026-03-06"}
        text = "select count() from events where event = 'view' and {filters}"
        dates = {"date_from": RANGE["date_from"], "date_to": "2026-03-06"}
        hogql = {"kind": "HogQLQuery", "query": text, "filters": {"dateRange": dates, **given}}
        for query in (events, hogql):
            response = client.post(QUERY, json={"query": query})
            assert response.json()["results"] == [[views]], response.text


@pytest.mark.parametrize(
    ("sent", "attr"),
    [
        ([{"key": "plan", "oprator": "exact"}], "test_account_filters__0__oprator"),
        ([{"key": "plan", "operator": "resembles"}], "test_account_filters__0__operator"),
        ({}, "test_account_filters"),
        ([{"key": "x"}] * 51, "test_account_filters"),
    ],
)
def test_other_filters_are_refused(client: httpx.Client, sent: Any, attr: str) -> None:
    response = client.patch(PROJECT, json={"test_account_filters": sent})
    assert (response.status_code, response.json()["attr"]) == (400, attr)
