"""The query endpoint of a live service: what is asked, how it is told, and how long it is kept."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live import PROJECT_KEY, LiveServer, error_of, seconds_until

PATH = "/api/projects/1/query/"
# Takes minutes: the number of its rows is the tenth power of that of the events.
ENDLESS = "select count() from events as a" + "".join(
    f" cross join events as {letter}" for letter in "bcdefghij"
)

# What the log says of a query that the engine has ended because it was told to.
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
    answer = client.post("/batch", json={"api_key": key, "batch": list(events)})
    assert answer.status_code == 200


def _ask(client: httpx.Client, query: Any, **more: Any) -> httpx.Response:
    return client.post(PATH, json={"query": query, **more})


def _wait_until_busy(server: LiveServer) -> None:
    """Until the engine has begun with what was asked for: else the service does next to nothing."""

    def worked_s() -> float:
        _, _, rest = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")
        return sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")

    before = worked_s()
    seconds_until(lambda: worked_s() > before + 1, at_most_s=60)


def hogql(client: httpx.Client, text: str, **more: Any) -> dict[str, Any]:
    answer = _ask(client, {"kind": "HogQLQuery", "query": text, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def events(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = _ask(client, {"kind": "EventsQuery", **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_answer_has_all_that_clients_look_for(client: httpx.Client) -> None:
    text = "select event, count() as number from events group by event order by event"
    found = hogql(client, text)
    assert found["results"] == [["bought", 10], ["seen", 20]]
    assert found["columns"] == ["event", "number"]
    assert [name for name, _ in found["types"]] == found["columns"]
    assert found["types"][1][1] == "UInt64"
    assert (found["limit"], found["offset"], found["hasMore"]) == (100, 0, False)
    assert found["query"] == {"kind": "HogQLQuery", "query": text}
    assert found["hogql"].startswith("SELECT event, count() AS number FROM events")
    assert {timing["k"] for timing in found["timings"]} == {"./read", "./run", "./write"}
    assert (found["error"], found["explain"], found["clickhouse"]) == (None, None, None)
    assert (found["timezone"], found["modifiers"]) == ("UTC", {})


def test_what_was_sent_before_is_found_at_once_persons_too(client: httpx.Client) -> None:
    for number in range(5):
        name = f"prompt-{number}"
        _send(
            client,
            {"event": "prompt", "distinct_id": name, "properties": {"$set": {"n": number}}},
        )
        text = "select person.properties.n from events where distinct_id = {who}"
        assert hogql(client, text, values={"who": name})["results"] == [[str(number)]]


def test_who_was_merged_is_one_person_at_once(client: httpx.Client) -> None:
    _send(client, {"event": "first", "distinct_id": "anonymous-1"})
    text = "select uniq(person_id) from events where distinct_id in ('anonymous-1', 'known-1')"
    assert hogql(client, text)["results"] == [[1]]
    _send(client, {"event": "second", "distinct_id": "known-1"})
    assert hogql(client, text)["results"] == [[2]]
    merge = {"$anon_distinct_id": "anonymous-1"}
    _send(client, {"event": "$identify", "distinct_id": "known-1", "properties": merge})
    assert hogql(client, text)["results"] == [[1]]


def test_values_and_filters_go_where_they_are_named(client: httpx.Client) -> None:
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


def test_no_rows_have_columns_and_types_too(client: httpx.Client) -> None:
    found = hogql(client, "select event, timestamp as at from events where event = 'nothing'")
    assert found["results"] == []
    assert found["columns"] == ["event", "at"]
    assert found["types"] == [
        ["event", "LowCardinality(String)"],
        ["at", "DateTime64(6, 'UTC')"],
    ]
    assert events(client, event="nothing", select=["event", "*"])["types"][0].endswith("(String)")


def test_rows_are_bounded_and_more_is_told(client: httpx.Client) -> None:
    text = "select arrayJoin(range(200000)) as n order by n"
    found = hogql(client, text)
    assert (len(found["results"]), found["limit"], found["hasMore"]) == (100, 100, True)
    found = hogql(client, f"{text} limit 3 offset 5")
    assert found["results"] == [[5], [6], [7]]
    assert (found["limit"], found["offset"], found["hasMore"]) == (3, 5, True)
    found = hogql(client, f"{text} limit 100000")
    assert (len(found["results"]), found["limit"], found["hasMore"]) == (50_000, 50_000, True)


def test_a_plan_is_told_on_request(client: httpx.Client) -> None:
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
        ({"kind": "TrendsQuery"}, "invalid_choice", "query__kind"),
        ({}, "required", "query__kind"),
        ({"kind": "EventsQuery", "select": "*"}, "not_a_list", "query__select"),
        ({"kind": "EventsQuery", "select": [1]}, "invalid_input", "query__select"),
        ({"kind": "EventsQuery", "limit": "5"}, "invalid_input", "query__limit"),
        ({"kind": "EventsQuery", "limit": 0}, "invalid_input", "query__limit"),
        ({"kind": "EventsQuery", "after": "soon"}, "invalid_date", "query__after"),
        ({"kind": "EventsQuery", "actionId": 1}, "invalid_input", "query__actionId"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(
    client: httpx.Client, query: Any, code: str, attr: str
) -> None:
    answer = _ask(client, query)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["attr"]) == (400, code, attr)


def test_an_error_of_hogql_tells_the_place_and_what_may_be_meant(client: httpx.Client) -> None:
    error = error_of(_ask(client, {"kind": "HogQLQuery", "query": "select 1,\n  evnt from events"}))
    assert "line 2, column 3" in error["detail"]
    assert "'event'" in error["detail"]


def test_no_word_of_the_engine_is_in_an_error(client: httpx.Client) -> None:
    for text in (
        "select toInt(event) + [1] from events",
        "select throwIf(1)",
        "select count() from events group by nothing",
        "select quantile(5)(1)",
        "select arrayMap(x -> x, 5)",
    ):
        answer = _ask(client, {"kind": "HogQLQuery", "query": text})
        assert answer.status_code in (200, 400), text
        for word in ("DB::", "Exception", "chdb", "hedgerow.events", "Code:", "t1."):
            assert word not in answer.text, text


def test_events_with_chosen_columns(client: httpx.Client) -> None:
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


def test_events_are_those_of_the_last_day_unless_told(client: httpx.Client) -> None:
    _send(
        client,
        {"event": "old", "distinct_id": "somebody", "timestamp": "2020-01-02T03:04:05Z"},
    )
    assert events(client, select=["event"], event="old")["results"] == []
    assert events(client, select=["event"], event="old", after="all")["results"] == [["old"]]
    person = hogql(client, "select person_id from events where event = 'old'")["results"][0][0]
    found = events(client, select=["event"], personId=person, after="all")
    assert found["results"] == [["old"]]


def _cached(client: httpx.Client, text: str, refresh: Any = None) -> bool:
    more = {} if refresh is None else {"refresh": refresh}
    answer = _ask(client, {"kind": "HogQLQuery", "query": text}, **more)
    assert answer.status_code == 200, answer.text
    return bool(answer.json()["is_cached"])


def test_an_answer_is_kept_until_something_changes(client: httpx.Client) -> None:
    text = "select count(), 'kept' from events"
    seconds_until(lambda: _cached(client, text), at_most_s=30)
    assert not _cached(client, text, "force_blocking")
    assert not _cached(client, text, True)
    before = hogql(client, text)
    assert before["is_cached"]
    assert before["last_refresh"] < before["cache_target_age"]
    _send(client, {"event": "one more", "distinct_id": "somebody"})
    after = hogql(client, text)
    assert not after["is_cached"]
    assert after["results"][0][0] == before["results"][0][0] + 1
    assert after["cache_key"] == before["cache_key"]


def test_only_what_is_kept_may_be_asked_for(client: httpx.Client) -> None:
    query = {"kind": "HogQLQuery", "query": "select 'only kept'"}
    missing = _ask(client, query, refresh="force_cache").json()
    assert (missing["results"], missing["is_cached"]) == (None, False)
    _ask(client, query)
    found = _ask(client, query, refresh="force_cache").json()
    assert (found["results"], found["is_cached"]) == ([["only kept"]], True)
    assert _ask(client, query, refresh="lazy_async").json()["is_cached"]


def test_a_query_can_run_while_nobody_waits(client: httpx.Client) -> None:
    query = {"kind": "HogQLQuery", "query": "select 'later'"}
    for refresh in ("async", "force_async", "lazy_async"):
        begun = _ask(client, {**query, "name": refresh}, refresh=refresh)
        assert begun.status_code == 202
        status = begun.json()["query_status"]
        path = f"{PATH}{status['id']}/"
        seconds_until(lambda path=path: client.get(path).status_code == 200, at_most_s=30)  # type: ignore[misc]
        done = client.get(path).json()["query_status"]
        assert (done["complete"], done["error"], done["team_id"]) == (True, False, 1)
        assert done["results"]["results"] == [["later"]]
    missing = {**query, "name": "missing"}
    assert _ask(client, missing, refresh="async_except_on_cache_miss").status_code == 200


def test_what_went_wrong_while_nobody_waited_is_told(client: httpx.Client) -> None:
    begun = _ask(client, {"kind": "HogQLQuery", "query": "select evnt"}, refresh="force_async")
    path = f"{PATH}{begun.json()['query_status']['id']}/"
    seconds_until(lambda: client.get(path).status_code == 200, at_most_s=30)
    status = client.get(path).json()["query_status"]
    assert (status["complete"], status["error"], status["results"]) == (True, True, None)
    assert "evnt" in status["error_message"]


def test_a_query_can_be_cancelled_by_who_waits_and_by_who_does_not(
    server: LiveServer, client: httpx.Client
) -> None:
    query = {"kind": "HogQLQuery", "query": ENDLESS}
    begun = _ask(client, query, refresh="force_async", client_query_id="endless-1")
    assert begun.json()["query_status"]["id"] == "endless-1"
    taken = _ask(client, query, refresh="force_async", client_query_id="endless-1")
    assert taken.status_code == 409
    assert client.delete(f"{PATH}endless-1/").status_code == 204
    seconds_until(lambda: client.get(f"{PATH}endless-1/").status_code == 200, at_most_s=30)
    status = client.get(f"{PATH}endless-1/").json()["query_status"]
    assert status["error_message"] == "The query was cancelled."

    with ThreadPoolExecutor(1) as pool, server.client() as other:
        waiting = pool.submit(_ask, other, query, client_query_id="endless-2")
        seconds_until(lambda: client.get(f"{PATH}endless-2/").status_code == 202, at_most_s=30)
        assert client.delete(f"{PATH}endless-2/").status_code == 204
        answer = waiting.result(timeout=30)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "query_cancelled")
    assert client.get(f"{PATH}endless-2/").status_code == 404


def test_a_cancelled_query_ends_in_the_engine_and_leaves_its_place_to_others(
    server: LiveServer, client: httpx.Client
) -> None:
    paths = [f"{PATH}many-{number}/" for number in range(6)]
    hogql(client, "select 'awake'")
    before = server.errors.count(CANCELLED)
    for number in range(6):
        query = {"kind": "HogQLQuery", "query": ENDLESS}
        id = f"many-{number}"
        assert _ask(client, query, refresh="force_async", client_query_id=id).status_code == 202
    _wait_until_busy(server)  # with the first of them
    for path in paths:
        assert client.delete(path).status_code == 204
    for path in paths:
        seconds_until(lambda path=path: client.get(path).status_code == 200, at_most_s=30)  # type: ignore[misc]
    assert server.errors.count(CANCELLED) > before  # the others never began
    assert hogql(client, "select 'free again'")["results"] == [["free again"]]


def test_a_service_that_stops_waits_for_no_query(tmp_path: Path) -> None:
    server = LiveServer(tmp_path).wait_ready()
    with server.client() as other:
        _send(other, *(_event(number) for number in range(30)))
        assert hogql(other, "select count() from events")["results"] == [[30]]
        query = {"kind": "HogQLQuery", "query": ENDLESS}
        assert _ask(other, query, refresh="force_async").status_code == 202
        _wait_until_busy(server)
    assert server.stop() == 0
    assert CANCELLED in server.errors
    assert "Traceback" not in server.errors


def test_a_query_that_takes_too_long_is_ended(client: httpx.Client) -> None:
    answer = _ask(client, {"kind": "HogQLQuery", "query": ENDLESS})
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "query_limit_exceeded")


def test_projects_see_neither_each_others_events_nor_answers_nor_queries(
    client: httpx.Client,
) -> None:
    made = client.post("/api/projects/", json={"name": "Other"}).json()
    path = f"/api/projects/{made['id']}/query/"
    _send(client, {"event": "theirs", "distinct_id": "person-1"}, key=made["api_token"])
    query = {"kind": "HogQLQuery", "query": "select event, count() from events group by event"}
    for _ in range(2):
        found = client.post(path, json={"query": query}).json()
        assert found["results"] == [["theirs", 1]]
        assert "theirs" not in str(_ask(client, query).json()["results"])
    begun = _ask(client, query, refresh="force_async", client_query_id="ours")
    assert begun.status_code == 202
    assert client.get(f"{path}ours/").status_code == 404
    assert client.delete(f"{path}ours/").status_code == 404


def test_a_key_needs_the_scope(server: LiveServer, client: httpx.Client) -> None:
    wish = {"label": "flags only", "scopes": ["feature_flag:read"]}
    key = client.post("/api/personal_api_keys/", json=wish).json()["value"]
    with server.client(key) as other:
        answer = _ask(other, {"kind": "HogQLQuery", "query": "select 1"})
    assert answer.status_code == 403
    assert "query:read" in error_of(answer)["detail"]


def test_times_are_shown_in_the_projects_time_zone(client: httpx.Client, tmp_path: Path) -> None:
    made = client.post("/api/projects/", json={"name": "Paris", "timezone": "Europe/Paris"}).json()
    path = f"/api/projects/{made['id']}/query/"
    query = {"kind": "HogQLQuery", "query": "select toDateTime('2026-07-01 12:00:00')"}
    found = client.post(path, json={"query": query}).json()
    assert found["timezone"] == "Europe/Paris"
    assert found["results"][0][0].startswith("2026-07-01T12:00:00")
    assert found["results"][0][0].endswith("+02:00")
