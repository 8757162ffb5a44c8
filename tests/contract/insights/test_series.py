"""Series that combine events, and steps that count the first event of a person, worked out by
hand."""

from typing import Any

import httpx
import pytest

from tests.contract.insights.world import (
    BUY,
    QUERY,
    RANGE,
    VIEW,
    ask,
    event,
    name_actors,
    refuse,
    send,
)


def group(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"kind": "GroupNode", "operator": "OR", "nodes": list(nodes), **fields}


def counts(client: httpx.Client, *steps: dict[str, Any], **fields: Any) -> list[int]:
    found = ask(client, "FunnelsQuery", series=list(steps), **fields)["results"]
    return [step["count"] for step in found]


def test_a_group_has_the_events_of_one_of_its_nodes(either: httpx.Client) -> None:
    def ask_trend(**fields: Any) -> dict[str, Any]:
        (found,) = ask(either, "TrendsQuery", series=[group(VIEW, BUY, **fields)])["results"]
        assert isinstance(found, dict)
        return found

    total = ask_trend()
    # Views 3, 3, 1, 1; purchases 1, 0, 0, 1.
    assert total["data"] == [4, 3, 1, 2]
    assert total["label"] == "view, buy"
    assert total["action"]["type"] == "groups"
    assert ask_trend(math="dau")["data"] == [2, 2, 1, 1]
    assert ask_trend(name="Activity")["label"] == "Activity"
    safari = {"properties": [{"key": "$browser", "value": "Safari"}]}
    assert ask_trend(**safari)["data"] == [1, 1, 0, 0]
    (mixed,) = ask(either, "TrendsQuery", series=[group({**VIEW, **safari}, BUY)])["results"]
    assert mixed["data"] == [2, 1, 0, 1]
    both = group({"kind": "EventsNode", **safari}, VIEW, operator="AND")
    (narrow,) = ask(either, "TrendsQuery", series=[both])["results"]
    assert narrow["data"] == [1, 1, 0, 0]


def test_a_group_may_be_a_step_of_a_funnel(client: httpx.Client) -> None:
    assert counts(client, VIEW, group(BUY, {"kind": "EventsNode", "event": "none"})) == [3, 2]
    action = {"name": "Bought as a step", "steps": [{"event": "buy"}]}
    id = client.post("/api/projects/1/actions/", json=action).json()["id"]
    assert counts(client, VIEW, group({"kind": "ActionsNode", "id": id})) == [3, 2]
    query = {"kind": "FunnelsQuery", "dateRange": RANGE, "series": [VIEW, group(BUY)]}
    source = {"kind": "FunnelsActorsQuery", "source": query, "funnelStep": 2}
    assert name_actors(client, source) == ["ada", "bob"]


def test_bad_groups(client: httpx.Client) -> None:
    for series, attr in [
        (group(), "query__series__0__nodes"),
        (group(*[VIEW] * 21), "query__series__0__nodes"),
        (group(VIEW, operator="XOR"), "query__series__0__operator"),
        (group({"kind": "GroupNode"}), "query__series__0__nodes__0__nodes"),
        (group(VIEW | {"mth": "dau"}), "query__series__0__nodes__0__mth"),
        (group(VIEW, event="view"), "query__series__0__event"),
        (VIEW | {"nodes": [BUY]}, "query__series__0__nodes"),
    ]:
        assert refuse(client, "TrendsQuery", series=[series])["attr"] == attr


def test_unsupported_fields_may_be_empty(client: httpx.Client) -> None:
    """PostHog's clients also send fields that they do not use."""

    def build(value: Any) -> dict[str, Any]:
        series = VIEW | {"math_property_revenue_currency": value}
        return {"series": [series], "breakdownFilter": {"breakdown": "$browser"}}

    assert ask(client, "TrendsQuery", **build(None))["results"]
    currency = refuse(client, "TrendsQuery", **build({"static": "EUR"}))
    assert currency["attr"] == "query__series__0__math_property_revenue_currency"
    cleaning: dict[str, Any] = {"breakdown": "$browser", "breakdown_path_cleaning": False}
    assert ask(client, "TrendsQuery", series=[VIEW], breakdownFilter=cleaning)["results"]
    cleaning["breakdown_path_cleaning"] = True
    refused = refuse(client, "TrendsQuery", series=[VIEW], breakdownFilter=cleaning)
    assert refused["attr"] == "query__breakdownFilter__breakdown_path_cleaning"


def test_a_step_may_be_the_first_event_of_a_person(either: httpx.Client) -> None:
    send(
        either,
        # The first is before the range.
        *[event("ft-1", "ft", 1), event("ft-1", "ft", 3, size="large"), event("ft-1", "fb", 4)],
        # The first is within, and the filters match the second only.
        *[event("ft-2", "ft", 2), event("ft-2", "ft", 3, size="large"), event("ft-2", "fb", 4)],
        *[event("ft-3", "ft", 3, size="large"), event("ft-3", "ft", 4), event("ft-3", "fb", 4)],
        # The second step comes before the first one is repeated.
        *[event("ft-4", "fb", 2), event("ft-4", "ft", 3, size="large")],
    )
    start, end = ({"kind": "EventsNode", "event": each} for each in ("ft", "fb"))
    large = start | {"properties": [{"key": "size", "value": "large"}]}
    assert counts(either, start, end) == [4, 3]
    first = {"math": "first_time_for_user"}
    assert counts(either, start | first, end) == [3, 2]
    assert counts(either, large | first, end) == [2, 1]
    matching = {"math": "first_time_for_user_with_filters"}
    assert counts(either, large | matching, end) == [4, 3]
    assert counts(either, start, end | first) == [4, 3]
    strict = {"funnelsFilter": {"funnelOrderType": "unordered"}}
    assert counts(either, start | first, end, **strict) == [4, 3]
    (trend,) = ask(either, "TrendsQuery", series=[large | matching])["results"]
    assert trend["data"] == [0, 4, 0, 0]


def test_intervals_of_seconds(client: httpx.Client) -> None:
    times = ("10:00:01", "10:00:01.5", "10:00:03")
    send(client, *[{**event("se-1", "se", 2), "timestamp": f"2026-03-02T{at}Z"} for at in times])
    dates = {"date_from": "2026-03-02T10:00:00Z", "date_to": "2026-03-02T10:00:03Z"}
    series = [{"kind": "EventsNode", "event": "se"}]
    query = {"series": series, "interval": "second", "dateRange": dates}
    (found,) = ask(client, "TrendsQuery", **query)["results"]
    assert found["data"] == [0, 2, 0, 1]
    assert found["days"][1] == "2026-03-02 10:00:01"
    assert found["labels"][1] == "2-Mar 10:00:01"


def test_a_flow_has_the_numbers_of_the_steps(client: httpx.Client) -> None:
    assert counts(client, VIEW, BUY, funnelsFilter={"funnelVizType": "flow"}) == [3, 2]


def test_a_new_project_may_begin_its_weeks_on_monday(client: httpx.Client) -> None:
    created = client.post("/api/projects/", json={"name": "Mondays", "week_start_day": 1})
    assert created.status_code == 201, created.text
    project = created.json()
    assert project["week_start_day"] == 1
    send(client, event("mo", "mo", 1), event("mo", "mo", 2), key=project["api_token"])
    query = {
        "kind": "TrendsQuery",
        "interval": "week",
        "dateRange": {"date_from": "2026-03-01", "date_to": "2026-03-03"},
        "series": [{"kind": "EventsNode", "event": "mo"}],
    }
    path = f"/api/projects/{project['id']}/query/"
    (found,) = client.post(path, json={"query": query}).json()["results"]
    assert (found["days"], found["data"]) == (["2026-02-23", "2026-03-02"], [1, 1])
    refused = client.post("/api/projects/", json={"name": "Bad", "week_start_day": 2})
    assert (refused.status_code, refused.json()["attr"]) == (400, "week_start_day")


@pytest.mark.parametrize("kind", ["InsightVizNode", "DataTableNode", "DataVisualizationNode"])
def test_a_node_stands_for_its_source(client: httpx.Client, kind: str) -> None:
    source = {"kind": "TrendsQuery", "dateRange": RANGE, "series": [VIEW]}
    node = {"kind": kind, "source": source}
    found = [client.post(QUERY, json={"query": each}).json() for each in (node, source)]
    assert found[0]["results"] == found[1]["results"]
    wrong = {"kind": kind, "source": source | {"interval": "year"}}
    refused = client.post(QUERY, json={"query": wrong})
    assert (refused.status_code, refused.json()["attr"]) == (400, "query__source__interval")
    for bad in ({"kind": kind}, {"kind": kind, "source": {"kind": kind}}, {"kind": [kind]}):
        for path in (QUERY, "/api/projects/1/insights/"):
            assert client.post(path, json={"query": bad}).status_code == 400
