"""Actions in insights, with the world of `world.py`."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.world import BUY, QUERY, VIEW, ask, refuse

MARCH = {"date_from": "2026-03-01", "date_to": "2026-03-31"}
ACTIONS = "/api/projects/1/actions/"


def create(client: httpx.Client, name: str, *steps: dict[str, Any]) -> int:
    response = client.post(ACTIONS, json={"name": name, "steps": list(steps)})
    assert response.status_code == 201, response.text
    return int(response.json()["id"])


@pytest.fixture(scope="module")
def viewed(client: httpx.Client) -> int:
    """Views with Firefox or Chrome: Ada 2, 9; Bob 2, 4, 5."""
    return create(
        client,
        "Viewed",
        {"event": "view", "properties": [{"key": "$browser", "value": "Firefox"}]},
        {"event": "view", "properties": [{"key": "$browser", "value": "Chrome"}]},
    )


def node(id: object, **fields: Any) -> dict[str, Any]:
    return {"kind": "ActionsNode", "id": id, **fields}


def total(client: httpx.Client, *series: dict[str, Any], **fields: Any) -> list[Any]:
    shown = {"trendsFilter": {"display": "BoldNumber"}, "dateRange": MARCH, **fields}
    found = ask(client, "TrendsQuery", series=list(series), **shown)["results"]
    return [each["aggregated_value"] for each in found]


def test_trends_of_an_action(client: httpx.Client, viewed: int) -> None:
    (result,) = ask(client, "TrendsQuery", series=[node(viewed)], dateRange=MARCH)["results"]
    assert result["count"] == 5
    assert result["label"] == "Viewed"
    action = result["action"]
    assert (action["id"], action["type"], action["name"]) == (viewed, "actions", "Viewed")
    assert total(client, node(viewed, math="dau")) == [2]
    assert total(client, node(str(viewed))) == [5]
    bobs = [{"key": "$browser", "value": "Chrome"}]
    assert total(client, node(viewed, properties=bobs), VIEW) == [3, 10]
    # Ada's and Bob's first views are the first events of the action.
    assert total(client, node(viewed, math="first_time_for_user")) == [2]


def test_an_action_of_one_event_counts_as_the_event(client: httpx.Client) -> None:
    id = create(client, "Bought", {"event": "buy"})
    for fields in ({}, {"math": "dau"}, {"math": "sum", "math_property": "price"}):
        assert total(client, node(id, **fields)) == total(client, BUY | fields)


def test_funnel_with_actions(client: httpx.Client, viewed: int) -> None:
    fields: dict[str, Any] = {"dateRange": MARCH}
    steps = ask(client, "FunnelsQuery", series=[node(viewed), BUY], **fields)["results"]
    assert [each["count"] for each in steps] == [2, 2]
    assert (steps[0]["action_id"], steps[0]["type"]) == (viewed, "actions")
    assert (steps[0]["name"], steps[1]["name"]) == ("Viewed", "buy")
    excluded = {**node(viewed), "funnelFromStep": 0, "funnelToStep": 1}
    safari = VIEW | {"properties": [{"key": "$browser", "value": "Safari"}]}
    options = {"exclusions": [excluded]}
    steps = ask(client, "FunnelsQuery", series=[safari, BUY], funnelsFilter=options, **fields)[
        "results"
    ]
    # Ada's view with Safari on the 2nd leads to her purchase; a view with Firefox precedes it.
    assert [each["count"] for each in steps] == [1, 1]


def test_retention_of_an_action(client: httpx.Client, viewed: int) -> None:
    entity = {"type": "actions", "id": viewed}
    options = {
        "targetEntity": entity,
        "returningEntity": entity | {"id": str(viewed)},
        "totalIntervals": 4,
    }
    rows = ask(client, "RetentionQuery", retentionFilter=options)["results"]
    # From March 2 to 5: Ada and Bob on the 2nd; Bob again on the 4th and 5th.
    assert [[each["count"] for each in row["values"]] for row in rows] == [
        [2, 0, 1, 1],
        [0, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 0, 0, 0],
    ]


def test_actors_of_an_action(client: httpx.Client, viewed: int) -> None:
    insight = {"kind": "TrendsQuery", "series": [node(viewed)], "dateRange": MARCH}
    source = {"kind": "InsightActorsQuery", "source": insight}
    response = client.post(
        QUERY, json={"query": {"kind": "ActorsQuery", "source": source, "select": ["event_count"]}}
    )
    assert response.status_code == 200, response.text
    assert sorted(response.json()["results"]) == [[2], [3]]


def test_unknown_and_deleted_actions_are_refused(client: httpx.Client) -> None:
    gone = create(client, "Gone", {"event": "view"})
    assert client.delete(f"{ACTIONS}{gone}/").status_code == 204
    for id in (gone, 999_999):
        error = refuse(client, "TrendsQuery", series=[VIEW, node(id)])
        assert (error["code"], error["attr"]) == ("action_does_not_exist", "query__series__1__id")
        error = refuse(client, "FunnelsQuery", series=[VIEW, node(id)])
        assert error["attr"] == "query__series__1__id"
        entity = {"type": "actions", "id": id}
        error = refuse(client, "RetentionQuery", retentionFilter={"targetEntity": entity})
        assert error["attr"] == "query__retentionFilter__targetEntity__id"
    wrong: Any
    for wrong in (None, "x", True, 1.5, []):
        assert refuse(client, "TrendsQuery", series=[node(wrong)])["attr"] == "query__series__0__id"
    error = refuse(client, "TrendsQuery", series=[node(gone, event="view")])
    assert error["attr"] == "query__series__0__event"


def test_a_changed_action_changes_the_result(client: httpx.Client) -> None:
    id = create(client, "Changing", {"event": "view"})
    assert total(client, node(id)) == total(client, VIEW)
    client.patch(f"{ACTIONS}{id}/", json={"steps": [{"event": "buy"}]})
    assert total(client, node(id)) == total(client, BUY)


def test_an_action_with_a_deleted_cohort_names_itself(client: httpx.Client) -> None:
    free = {"type": "AND", "values": [{"key": "plan", "type": "person", "value": "free"}]}
    body = {"name": "temporary", "filters": {"properties": free}}
    cohort = client.post("/api/projects/1/cohorts/", json=body).json()["id"]
    filter = {"type": "cohort", "key": "id", "value": cohort}
    id = create(client, "Of a cohort", {"event": "view", "properties": [filter]})
    assert total(client, node(id)) == [6]
    client.delete(f"/api/projects/1/cohorts/{cohort}/")
    error = refuse(client, "TrendsQuery", series=[node(id)])
    assert error["code"] == "bad_action"
    assert error["detail"].startswith(f"Action {id} cannot be used.")
