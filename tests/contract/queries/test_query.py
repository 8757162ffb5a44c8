"""The query endpoint of a live service: queries, results, caching and cancellation."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.live import PROJECT_KEY, LiveServer, read_error, wait_for

PATH = "/api/projects/1/query/"
# Runs for minutes: the number of rows is the tenth power of the number of events.
ENDLESS = "select count() from events as a" + "".join(
    f" cross join events as {letter}" for letter in "bcdefghij"
)

# The log message of a query that the engine has cancelled.
CANCELLED = "QUERY_WAS_CANCELLED"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("queries")) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        _send(opened, *(_event(number) for number in range(30)))
        yield opened


def _event(number: int) -> dict[str, Any]:
    return {
        "event": "seen" if number % 3 else "bought",
        "distinct_id": f"person-{number % 4}",
        "properties": {"n": number, "$set": {"plan": "free" if number % 4 else "paid"}},
    }


def _send(client: httpx.Client, *events: dict[str, Any], key: str = PROJECT_KEY) -> None:
    response = client.post("/batch", json={"api_key": key, "batch": list(events)})
    assert response.status_code == 200


def _run(client: httpx.Client, query: Any, **extra: Any) -> httpx.Response:
    return client.post(PATH, json={"query": query, **extra})


def _wait_until_busy(server: LiveServer) -> None:
    """Wait until the engine works on a query: an idle engine uses almost no CPU."""
    engine = server.find_engine()

    def cpu_time_s() -> float:
        _, _, rest = Path(f"/proc/{engine}/stat").read_text().rpartition(")")
        return sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")

    before = cpu_time_s()
    wait_for(lambda: cpu_time_s() > before + 1, at_most_s=60)


def hogql(client: httpx.Client, text: str, **extra: Any) -> dict[str, Any]:
    response = _run(client, {"kind": "HogQLQuery", "query": text, **extra})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def events(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    response = _run(client, {"kind": "EventsQuery", **fields})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_a_response_has_all_fields(client: httpx.Client) -> None:
    text = "select event, count() as number from events group by event order by event"
    found = hogql(client, text)
    assert found["results"] == [["bought", 10], ["seen", 20]]
    assert found["columns"] == ["event", "number"]
    assert [name for name, _ in found["types"]] == found["columns"]
    assert found["types"][1][1] == "UInt64"
    assert (found["limit"], found["offset"], found["hasMore"]) == (100, 0, False)
    assert found["query"] == {"kind": "HogQLQuery", "query": text}
    assert found["hogql"].startswith("SELECT event, count() AS number FROM events")
    assert {timing["k"] for timing in found["timings"]} == {"./read", "./run"}
    assert (found["error"], found["explain"], found["clickhouse"]) == (None, None, None)
    assert (found["timezone"], found["modifiers"]) == ("UTC", {})


def test_queries_see_events_and_persons_sent_before(client: httpx.Client) -> None:
    for number in range(5):
        name = f"prompt-{number}"
        _send(
            client,
            {"event": "prompt", "distinct_id": name, "properties": {"$set": {"n": number}}},
        )
        text = "select person.properties.n from events where distinct_id = {who}"
        assert hogql(client, text, values={"who": name})["results"] == [[str(number)]]


def test_merged_persons_count_as_one(client: httpx.Client) -> None:
    _send(client, {"event": "first", "distinct_id": "anonymous-1"})
    text = "select uniq(person_id) from events where distinct_id in ('anonymous-1', 'known-1')"
    assert hogql(client, text)["results"] == [[1]]
    _send(client, {"event": "second", "distinct_id": "known-1"})
    assert hogql(client, text)["results"] == [[2]]
    merge = {"$anon_distinct_id": "anonymous-1"}
    _send(client, {"event": "$identify", "distinct_id": "known-1", "properties": merge})
    assert hogql(client, text)["results"] == [[1]]


def test_values_and_filters_replace_placeholders(client: httpx.Client) -> None:
    text = "select count() from events where {filters} and properties.n < {most}"
    filters = {
        "dateRange": {"date_from": "-1d", "date_to": "all"},
        "properties": [{"key": "plan", "type": "person", "value": "paid"}],
    }
    assert hogql(client, text, values={"most": 9})["results"] == [[9]]
    assert hogql(client, text, values={"most": 9}, filters=filters)["results"] == [[3]]
    old = {"dateRange": {"date_to": "-1d"}}
    assert hogql(client, text, values={"most": 9}, filters=old)["results"] == [[0]]
    text = "select count() from events where properties.n in {these}"
    assert hogql(client, text, values={"these": ["1", "2", "x"]})["results"] == [[2]]


def test_a_property_is_a_text_unless_the_context_needs_a_number(client: httpx.Client) -> None:
    found = hogql(
        client,
        "select max(properties.n), max(toFloat(properties.n)), max(properties.n + 0),"
        " countIf(properties.n >= 10) from events where distinct_id like 'person-%'",
    )
    assert found["results"] == [["9", 29.0, 29.0, 20]]


def test_an_empty_result_has_columns_and_types(client: httpx.Client) -> None:
    found = hogql(client, "select event, timestamp as at from events where event = 'nothing'")
    assert found["results"] == []
    assert found["columns"] == ["event", "at"]
    assert found["types"] == [
        ["event", "LowCardinality(String)"],
        ["at", "DateTime64(6, 'UTC')"],
    ]
    assert events(client, event="nothing", select=["event", "*"])["types"][0].endswith("(String)")


def test_rows_are_limited_and_has_more_is_set(client: httpx.Client) -> None:
    text = "select arrayJoin(range(200000)) as n order by n"
    found = hogql(client, text)
    assert (len(found["results"]), found["limit"], found["hasMore"]) == (100, 100, True)
    found = hogql(client, f"{text} limit 3 offset 5")
    assert found["results"] == [[5], [6], [7]]
    assert (found["limit"], found["offset"], found["hasMore"]) == (3, 5, True)
    found = hogql(client, f"{text} limit 100000")
    assert (len(found["results"]), found["limit"], found["hasMore"]) == (50_000, 50_000, True)


def test_explain_returns_the_plan(client: httpx.Client) -> None:
    found = hogql(client, "select event from events limit 1", explain=True)
    assert any("ReadFromMergeTree" in line for line in found["explain"])
    assert found["clickhouse"].startswith("SELECT")
    assert len(found["results"]) == 1


@pytest.mark.parametrize(
    ("query", "code", "attr"),
    [
        ({"kind": "HogQLQuery", "query": "select evnt\n from events"}, "hogql_error", "query"),
        ({"kind": "HogQLQuery", "query": "select {x}"}, "hogql_error", "query"),
        ({"kind": "HogQLQuery", "query": "select 1 from system.tables"}, "hogql_error", "query"),
        ({"kind": "HogQLQuery", "query": "insert into events"}, "hogql_error", "query"),
        ({"kind": "HogQLQuery", "query": " "}, "required", "query__query"),
        ({"kind": "HogQLQuery", "query": 5}, "invalid_input", "query__query"),
        (
            {"kind": "HogQLQuery", "query": "select 1", "values": []},
            "not_a_dict",
            "query__values",
        ),
        (
            {"kind": "HogQLQuery", "query": "select {x}", "values": {"x": {}}},
            "invalid_input",
            "query__values__x",
        ),
        (
            {"kind": "HogQLQuery", "query": "select {x}", "values": {"x": "\0"}},
            "null_characters_not_allowed",
            "query__values",
        ),
        (
            {"kind": "HogQLQuery", "query": "s", "filters": {"dateRange": {"date_from": 1}}},
            "hogql_error",
            "query",
        ),
        (
            {
                "kind": "HogQLQuery",
                "query": "select 1",
                "filters": {"dateRange": {"date_from": "x"}},
            },
            "invalid_date",
            "query__filters__dateRange__date_from",
        ),
        ({"kind": "LifecycleQuery"}, "invalid_choice", "query__kind"),
        ({}, "required", "query__kind"),
        ({"kind": "EventsQuery", "select": "*"}, "not_a_list", "query__select"),
        ({"kind": "EventsQuery", "select": [1]}, "invalid_input", "query__select"),
        ({"kind": "EventsQuery", "limit": "5"}, "invalid_input", "query__limit"),
        ({"kind": "EventsQuery", "limit": 0}, "invalid_input", "query__limit"),
        ({"kind": "EventsQuery", "after": "soon"}, "invalid_date", "query__after"),
        ({"kind": "EventsQuery", "actionId": 1}, "action_does_not_exist", "query__actionId"),
        ({"kind": "EventsQuery", "wheer": ["1"]}, "unknown_field", "query__wheer"),
        ({"kind": "EventsQuery", "source": {"kind": "x"}}, "not_supported", "query__source"),
        ({"kind": "HogQLQuery", "query": "select 1", "value": {}}, "unknown_field", "query__value"),
        (
            {"kind": "HogQLQuery", "query": "select 1", "variables": {"1": {"code_name": "v"}}},
            "not_supported",
            "query__variables",
        ),
        ({"kind": "ExperimentQuery", "metrics": []}, "unknown_field", "query__metrics"),
        ({"kind": "ExperimentExposureQuery", "start": ""}, "unknown_field", "query__start"),
    ],
)
def test_invalid_queries_are_rejected_and_named(
    client: httpx.Client, query: Any, code: str, attr: str
) -> None:
    response = _run(client, query)
    error = read_error(response)
    assert (response.status_code, error["code"], error["attr"]) == (400, code, attr)


@pytest.mark.parametrize(
    "query",
    [
        {
            **{
                "kind": "HogQLQuery",
                "query": "select 1",
                "values": {},
                "variables": {},
                "name": "n",
            },
            "filters": {"filterTestAccounts": False, "dateRange": {"explicitDate": False}},
        },
        {
            **{
                "kind": "EventsQuery",
                "select": ["1"],
                "where": [],
                "properties": [],
                "event": None,
            },
            **{"fixedProperties": [], "filterTestAccounts": False, "source": None, "limit": 1},
            **{"after": "-1d", "before": None, "orderBy": [], "personId": None, "actionId": None},
        },
    ],
    ids=lambda query: query["kind"],
)
def test_fields_that_posthog_sends_are_known(client: httpx.Client, query: Any) -> None:
    sent_with_all = {"response": {}, "modifiers": {"debug": True}, "tags": {}, "version": 1}
    response = _run(client, {**query, **sent_with_all})
    assert response.status_code == 200, response.text


def test_unknown_field_of_a_query_has_a_suggestion(client: httpx.Client) -> None:
    error = read_error(_run(client, {"kind": "HogQLQuery", "query": "select 1", "valeus": {}}))
    assert error["detail"] == "Unknown field `valeus`. Did you mean `values`?"


def test_a_hogql_error_has_a_position_and_a_suggestion(client: httpx.Client) -> None:
    error = read_error(
        _run(client, {"kind": "HogQLQuery", "query": "select 1,\n  evnt from events"})
    )
    assert "line 2, column 3" in error["detail"]
    assert "'event'" in error["detail"]


def test_errors_do_not_expose_the_engine(client: httpx.Client) -> None:
    for text in (
        "select toInt(event) + [1] from events",
        "select throwIf(1)",
        "select count() from events group by nothing",
        "select quantile(5)(1)",
        "select arrayMap(x -> x, 5)",
    ):
        response = _run(client, {"kind": "HogQLQuery", "query": text})
        assert response.status_code in (200, 400), text
        for word in ("DB::", "Exception", "chdb", "hedgerow.events", "Code:", "t1."):
            assert word not in response.text, text


def test_events_query_selects_columns(client: httpx.Client) -> None:
    found = events(client, select=["event", "properties.n"], event="bought", orderBy=["timestamp"])
    assert found["columns"] == ["event", "properties.n"]
    assert all(isinstance(each, str) for each in found["types"])
    assert sorted(int(row[1]) for row in found["results"]) == list(range(0, 30, 3))
    grouped = events(client, select=["event", "count()"], properties=[{"key": "n", "value": "6"}])
    assert grouped["results"] == [["bought", 1]]
    fixed = [{"key": "n", "operator": "lt", "value": 6}]
    limited = events(client, select=["properties.n"], fixedProperties=fixed, limit=2, offset=1)
    assert (len(limited["results"]), limited["hasMore"]) == (2, True)
    assert (limited["limit"], limited["offset"]) == (2, 1)


def test_events_query_defaults_to_the_last_day(client: httpx.Client) -> None:
    _send(
        client,
        {"event": "old", "distinct_id": "ann", "timestamp": "2020-01-02T03:04:05Z"},
    )
    assert events(client, select=["event"], event="old")["results"] == []
    assert events(client, select=["event"], event="old", after="all")["results"] == [["old"]]
    person = hogql(client, "select person_id from events where event = 'old'")["results"][0][0]
    found = events(client, select=["event"], personId=person, after="all")
    assert found["results"] == [["old"]]


def _is_cached(client: httpx.Client, text: str, refresh: Any = None) -> bool:
    extra = {} if refresh is None else {"refresh": refresh}
    response = _run(client, {"kind": "HogQLQuery", "query": text}, **extra)
    assert response.status_code == 200, response.text
    return bool(response.json()["is_cached"])


def test_a_result_is_cached_until_data_changes(client: httpx.Client) -> None:
    text = "select count(), 'cached' from events"
    wait_for(lambda: _is_cached(client, text), at_most_s=120)
    assert not _is_cached(client, text, "force_blocking")
    assert not _is_cached(client, text, True)
    # Events of other tests may still be processed.
    wait_for(lambda: _is_cached(client, text), at_most_s=120)
    before = hogql(client, text)
    assert before["last_refresh"] < before["cache_target_age"]
    _send(client, {"event": "one more", "distinct_id": "ann"})
    after = hogql(client, text)
    assert not after["is_cached"]
    assert after["results"][0][0] == before["results"][0][0] + 1
    assert after["cache_key"] == before["cache_key"]


def test_force_cache_returns_only_cached_results(client: httpx.Client) -> None:
    query = {"kind": "HogQLQuery", "query": "select 'only cached'"}
    missing = _run(client, query, refresh="force_cache").json()
    assert (missing["results"], missing["is_cached"]) == (None, False)
    _run(client, query)
    found = _run(client, query, refresh="force_cache").json()
    assert (found["results"], found["is_cached"]) == ([["only cached"]], True)
    assert _run(client, query, refresh="lazy_async").json()["is_cached"]


def test_a_query_can_run_asynchronously(client: httpx.Client) -> None:
    query = {"kind": "HogQLQuery", "query": "select 'later'"}
    for refresh in ("async", "force_async", "lazy_async"):
        started = _run(client, {**query, "name": refresh}, refresh=refresh)
        assert started.status_code == 202
        status = started.json()["query_status"]
        path = f"{PATH}{status['id']}/"
        wait_for(lambda path=path: client.get(path).status_code == 200, at_most_s=120)  # type: ignore[misc]
        done = client.get(path).json()["query_status"]
        assert (done["complete"], done["error"], done["team_id"]) == (True, False, 1)
        assert done["results"]["results"] == [["later"]]
    missing = {**query, "name": "missing"}
    assert _run(client, missing, refresh="async_except_on_cache_miss").status_code == 200


def test_an_asynchronous_query_reports_its_error(client: httpx.Client) -> None:
    started = _run(client, {"kind": "HogQLQuery", "query": "select evnt"}, refresh="force_async")
    path = f"{PATH}{started.json()['query_status']['id']}/"
    wait_for(lambda: client.get(path).status_code == 200, at_most_s=120)
    status = client.get(path).json()["query_status"]
    assert (status["complete"], status["error"], status["results"]) == (True, True, None)
    assert "evnt" in status["error_message"]


def test_synchronous_and_asynchronous_queries_can_be_cancelled(
    server: LiveServer, client: httpx.Client
) -> None:
    query = {"kind": "HogQLQuery", "query": ENDLESS}
    started = _run(client, query, refresh="force_async", client_query_id="endless-1")
    assert started.json()["query_status"]["id"] == "endless-1"
    conflict = _run(client, query, refresh="force_async", client_query_id="endless-1")
    assert conflict.status_code == 409
    assert client.delete(f"{PATH}endless-1/").status_code == 204
    wait_for(lambda: client.get(f"{PATH}endless-1/").status_code == 200, at_most_s=120)
    status = client.get(f"{PATH}endless-1/").json()["query_status"]
    assert status["error_message"] == "The query was cancelled."

    with ThreadPoolExecutor(1) as pool, server.client() as other:
        waiting = pool.submit(_run, other, query, client_query_id="endless-2")
        wait_for(lambda: client.get(f"{PATH}endless-2/").status_code == 202, at_most_s=120)
        assert client.delete(f"{PATH}endless-2/").status_code == 204
        response = waiting.result(timeout=30)
    assert (response.status_code, read_error(response)["code"]) == (400, "query_cancelled")
    assert client.get(f"{PATH}endless-2/").status_code == 404


def test_a_cancelled_query_stops_in_the_engine_and_frees_its_slot(
    server: LiveServer, client: httpx.Client
) -> None:
    paths = [f"{PATH}many-{number}/" for number in range(6)]
    hogql(client, "select 'awake'")
    before = server.errors.count(CANCELLED)
    for number in range(6):
        query = {"kind": "HogQLQuery", "query": ENDLESS}
        id = f"many-{number}"
        assert _run(client, query, refresh="force_async", client_query_id=id).status_code == 202
    _wait_until_busy(server)  # with the first query
    for path in paths:
        assert client.delete(path).status_code == 204
    for path in paths:
        wait_for(lambda path=path: client.get(path).status_code == 200, at_most_s=120)  # type: ignore[misc]
    assert server.errors.count(CANCELLED) > before  # the others never started
    assert hogql(client, "select 'free again'")["results"] == [["free again"]]


def test_shutdown_does_not_wait_for_queries(tmp_path: Path) -> None:
    server = LiveServer(tmp_path).wait_ready()
    with server.client() as other:
        _send(other, *(_event(number) for number in range(30)))
        assert hogql(other, "select count() from events")["results"] == [[30]]
        query = {"kind": "HogQLQuery", "query": ENDLESS}
        assert _run(other, query, refresh="force_async").status_code == 202
        _wait_until_busy(server)
    assert server.stop() == 0
    assert CANCELLED in server.errors
    assert "Traceback" not in server.errors


def test_a_query_over_the_time_limit_is_stopped(client: httpx.Client) -> None:
    response = _run(client, {"kind": "HogQLQuery", "query": ENDLESS})
    error = read_error(response)
    assert (response.status_code, error["code"]) == (400, "query_limit_exceeded")


def test_projects_are_isolated(
    client: httpx.Client,
) -> None:
    created = client.post("/api/projects/", json={"name": "Other"}).json()
    path = f"/api/projects/{created['id']}/query/"
    _send(client, {"event": "theirs", "distinct_id": "person-1"}, key=created["api_token"])
    query = {"kind": "HogQLQuery", "query": "select event, count() from events group by event"}
    for _ in range(2):
        found = client.post(path, json={"query": query}).json()
        assert found["results"] == [["theirs", 1]]
        assert "theirs" not in str(_run(client, query).json()["results"])
    started = _run(client, query, refresh="force_async", client_query_id="ours")
    assert started.status_code == 202
    assert client.get(f"{path}ours/").status_code == 404
    assert client.delete(f"{path}ours/").status_code == 404


def test_a_query_requires_the_scope(server: LiveServer, client: httpx.Client) -> None:
    new_key = {"label": "flags only", "scopes": ["feature_flag:read"]}
    key = client.post("/api/personal_api_keys/", json=new_key).json()["value"]
    with server.client(key) as other:
        response = _run(other, {"kind": "HogQLQuery", "query": "select 1"})
    assert response.status_code == 403
    assert "query:read" in read_error(response)["detail"]


def test_times_are_in_the_time_zone_of_the_project(client: httpx.Client, tmp_path: Path) -> None:
    created = client.post(
        "/api/projects/", json={"name": "Paris", "timezone": "Europe/Paris"}
    ).json()
    path = f"/api/projects/{created['id']}/query/"
    query = {"kind": "HogQLQuery", "query": "select toDateTime('2026-07-01 12:00:00')"}
    found = client.post(path, json={"query": query}).json()
    assert found["timezone"] == "Europe/Paris"
    assert found["results"][0][0].startswith("2026-07-01T12:00:00")
    assert found["results"][0][0].endswith("+02:00")


def test_weeks_start_on_the_day_of_the_project(client: httpx.Client) -> None:
    query = "select toString(toDate(toStartOfWeek(toDateTime('2026-03-04 12:00:00')))), 1"
    hogql = {"kind": "HogQLQuery", "query": query}
    starts = []
    for day in (1, 0):
        client.patch("/api/projects/1/", json={"week_start_day": day}).raise_for_status()
        starts.append(_run(client, hogql).json()["results"][0][0])
    assert starts == ["2026-03-02", "2026-03-01"]
