"""/decide under hostile definitions, cycles, thousands of flags, unusual ids, concurrent edits and
an unavailable database: it always responds, and correctly where no stored data is needed.
"""

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import pytest

from hedgerow.storage import tables
from tests.fault.decide_requests import (
    BASE,
    Filters,
    assert_unharmed,
    build_filters,
    build_flag_filter,
    build_person_filter,
    create_flag,
    decide,
    get_bucket_position,
    read_durations_ms,
    write_rows,
)
from tests.support.live import (
    PROJECT_KEY,
    Installation,
    LiveServer,
    run_concurrently,
    run_in_process,
    wait_for,
)
from tests.support.postgres import PostgresTestServer

# Far above the time of a slow request on a busy machine.
HANGING_MS = 60_000
# Edits per writer while readers evaluate continuously.
EDITS = 20
TURNS = 5


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def installation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    """One for all tests that do not depend on its contents, on both engines."""
    settings = {}
    if request.param == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgres").create_migrated_database()
    return Installation(data=tmp_path_factory.mktemp("decide"), settings=settings)


@pytest.fixture(scope="module")
def server(installation: Installation) -> Iterator[LiveServer]:
    """A service whose flags depend on the distinct id, on stored properties and on both."""
    with installation.server() as server:
        with server.client() as client:
            create_flag(client, "half", build_filters(share=50))
            asks = build_person_filter("p", "x", "is_not_set")
            create_flag(client, "stored", build_filters(asks, share=50))
            own = {"ensure_experience_continuity": True}
            create_flag(client, "lasting", build_filters(share=50), **own)
        yield server
    assert_unharmed(server)


# Hostile definitions.

LINEAR_TIME_PATTERNS = (r"^(a+)+$", r"(a|aa)+$", r"(a|a?)+$", r"(.*a){20}$", r"([a-zA-Z]+)*$")
BACKTRACKING_PATTERNS = (
    r"(?=(a+)+$)a",
    r"(a+)\1+$",
    r"(?:(?=a)a+)+$",
    r"^(?!(a+)+b)(a|aa)+$",
    r"(x+x+)+y(?=z)",
)


def test_catastrophic_regexes_are_bounded(tmp_path: Path) -> None:
    texts = ["a" * 30 + "!", "x" * 5000, "a" * 9_999 + "!", "a" * 1_000_000 + "!"]
    with LiveServer(tmp_path) as server, server.client() as client:
        for number, pattern in enumerate(LINEAR_TIME_PATTERNS + BACKTRACKING_PATTERNS):
            create_flag(
                client, f"trap-{number}", build_filters(build_person_filter("p", pattern, "regex"))
            )
        create_flag(client, "plain", build_filters(build_person_filter("p", "x", "is_not")))
        for text in texts:
            for _ in range(3):
                decided = decide(client, person_properties={"p": text})
                found = decided["featureFlags"]
                assert found["plain"] is True
                # A flag over the budget is left out, and the response says so.
                is_complete = len(found) == len(LINEAR_TIME_PATTERNS + BACKTRACKING_PATTERNS) + 1
                assert decided["errorsWhileComputingFlags"] is not is_complete
        assert decide(client, person_properties={"p": "aaaa"})["featureFlags"]["trap-0"] is True
    assert max(read_durations_ms(server)) < HANGING_MS
    assert_unharmed(server)


def test_many_catastrophic_regexes_do_not_add_up(tmp_path: Path) -> None:
    """Each pattern has a time limit; fifty of them must not block other requests."""
    with LiveServer(tmp_path) as server, server.client() as client:
        for number in range(50):
            trap = rf"(?=(a+)+{number}$)a"
            create_flag(
                client, f"trap-{number}", build_filters(build_person_filter("p", trap, "regex"))
            )
        for _ in range(3):
            decide(client, person_properties={"p": "a" * 200 + "!"})
    assert max(read_durations_ms(server)) < HANGING_MS
    assert_unharmed(server)


def test_cyclic_and_deep_dependencies_do_not_affect_other_flags(tmp_path: Path) -> None:
    def inner(id: int) -> dict[str, Any]:
        return {"type": "AND", "values": [{"type": "cohort", "key": "id", "value": id}]}

    def member(id: int) -> Filters:
        return build_filters(build_person_filter("id", id, "in", type="cohort"))

    circle = [
        {"id": n, "key": f"c{n}", "filters": build_filters(build_flag_filter(n % 50 + 1))}
        for n in range(1, 51)
    ]
    links = [
        {
            "id": n,
            "key": f"l{n}",
            "filters": build_filters(build_flag_filter(n - 1)) if n > 101 else build_filters(),
        }
        for n in range(101, 601)
    ]
    others = [
        {"id": 900, "key": "on-circle", "filters": build_filters(build_flag_filter(7, False))},
        {"id": 901, "key": "in-circle", "filters": member(1)},
        {"id": 902, "key": "in-chain", "filters": member(101)},
        {"id": 903, "key": "self", "filters": build_filters(build_flag_filter(903, False))},
        {"id": 904, "key": "plain", "filters": build_filters()},
    ]
    plain = {"type": "AND", "values": [build_person_filter("p", "x")]}
    cohorts = [
        *({"id": n, "definition": inner(n % 30 + 1)} for n in range(1, 31)),
        *({"id": n, "definition": inner(n + 1)} for n in range(101, 2101)),
        {"id": 2101, "definition": plain},
    ]
    with LiveServer(tmp_path) as server, server.client() as client:
        write_rows(tmp_path, tables.cohorts, cohorts)
        write_rows(tmp_path, tables.flags, [*circle, *links, *others])
        wait_for(lambda: len(decide(client)["featureFlags"]) > 1, at_most_s=60)
        decided = decide(client, person_properties={"p": "x"})
    flags = decided["featureFlags"]
    assert decided["errorsWhileComputingFlags"] is True
    assert flags["plain"] is True
    assert "in-circle" not in flags
    assert {flags[f"c{n}"] for n in range(1, 51)} == {False}
    assert (flags["on-circle"], flags["self"]) == (False, False)
    assert {flags[f"l{n}"] for n in range(101, 601)} == {True}
    assert_unharmed(server)


def test_two_thousand_flags_with_a_hundred_conditions_are_evaluated(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    assert run_in_process("init", data=tmp_path).returncode == 0
    heap = [{"key": f"heap-{n}", "filters": _hundred_conditions(n)} for n in range(1999)]
    write_rows(tmp_path, tables.flags, [*heap, {"key": "plain", "filters": build_filters()}])
    started = time.monotonic()
    with LiveServer(tmp_path) as server, server.client() as client:
        start_s = time.monotonic() - started
        started = time.monotonic()
        waits = _measure_latencies(server, lambda: decide(client, "first"))
        first_s = time.monotonic() - started
        began = time.monotonic()
        decided = decide(client, "second", person_properties={"p-3": "yes", "plan": "x"})
        next_s = time.monotonic() - began
        flag = client.get(f"{BASE}heap-3/").json()["id"]
        began = time.monotonic()
        assert client.patch(f"{BASE}{flag}/", json={"name": "N"}).status_code == 200
        edit_s = time.monotonic() - began
    tell(
        f"2000 flags x 100 conditions: start {start_s:.1f} s, first answer {first_s:.1f} s "
        f"(others waited {max(waits):.2f} s at most), next {next_s * 1000:.0f} ms, "
        f"an edit {edit_s:.1f} s"
    )
    # The budget of a request ends the evaluation on a slow machine, and the response says so.
    is_complete = len(decided["featureFlags"]) == 2000
    assert decided["errorsWhileComputingFlags"] is not is_complete
    assert len(decided["featureFlags"]) >= 200
    assert decided["featureFlags"]["heap-3"] is True
    assert max(waits) < first_s / 2  # no probe waited for the whole call
    assert_unharmed(server)


def _hundred_conditions(number: int) -> Filters:
    asks = (build_person_filter(f"p-{(number + n) % 300}", ["no", f"no-{n}"]) for n in range(99))
    return {
        "groups": [
            *({"properties": [ask], "rollout_percentage": 50} for ask in asks),
            {"properties": [build_person_filter(f"p-{number}", "yes")], "rollout_percentage": 100},
        ]
    }


def _measure_latencies(server: LiveServer, call: Callable[[], object]) -> list[float]:
    """Return the latency of each probe that completed during the call."""
    waits = []
    thread = threading.Thread(target=call)
    thread.start()
    while thread.is_alive():
        began = time.monotonic()
        assert server.get_status("/_liveness") == 200
        waits.append(time.monotonic() - began)
    thread.join()
    return waits


def test_distinct_ids_are_hashed_as_utf_8(server: LiveServer) -> None:
    rng = random.Random("planes")
    points = [0x10000 * plane + rng.randrange(0x10000) for plane in range(17) for _ in range(4)]
    edges = [0x10000 * plane + low for plane in range(17) for low in (0, 1, 0xFFFD, 0xFFFE, 0xFFFF)]
    kept = [chr(point) for point in chain(points, edges) if not 0xD800 <= point < 0xE000]
    ids = [each for each in (*kept, "".join(kept)) if "\0" not in each]
    with server.client() as client:
        wrong = []
        for id in ids:
            for more in ({}, {"$anon_distinct_id": id}, {"groups": {"company": id}}):
                decided = decide(client, id, **more)
                expected = {
                    key: get_bucket_position(key, id[:200]) <= 0.5 for key in ("half", "stored")
                }
                expected["lasting"] = (
                    get_bucket_position("lasting", id if len(more) else id[:200]) <= 0.5
                )
                if decided["featureFlags"] | expected != decided["featureFlags"]:
                    wrong.append((id, more, decided["featureFlags"], expected))
    assert not wrong, (len(wrong), wrong[:3])
    assert_unharmed(server)


def test_nul_in_a_distinct_id_does_not_fail(installation: Installation, server: LiveServer) -> None:
    url = installation.settings.get("database_url", "")
    company = [{"index": 0, "name": "company"}]
    write_rows(installation.data, tables.group_types, company, url=url)
    with server.client() as client:
        for field in ("distinct_id", "$anon_distinct_id", "groups", "$device_id"):
            for id in ("\0", "a\0b", "\0" * 300):
                value = {"company": id} if field == "groups" else id
                body = {"distinct_id": "person", field: value, "api_key": PROJECT_KEY}
                answer = client.post("/decide?v=3", json=body)
                assert answer.status_code in (200, 400), (field, answer.text)
    assert_unharmed(server)


# Concurrent edits.


def test_response_never_mixes_two_flag_versions(server: LiveServer) -> None:
    variants = {"variants": [{"key": key, "rollout_percentage": 50} for key in ("a", "b")]}

    def chosen(variant: str) -> Filters:
        group = {"properties": [], "rollout_percentage": 100, "variant": variant}
        return {"groups": [group], "multivariate": variants, "payloads": {variant: [variant]}}

    with server.client() as client:
        root = create_flag(client, "root", chosen("a"))
        create_flag(client, "is-a", build_filters(build_flag_filter(root, "a")))
        create_flag(client, "is-b", build_filters(build_flag_filter(root, "b")))
        is_over = threading.Event()

        def read_repeatedly(number: int) -> set[str]:
            seen = set()
            with server.client(key=None) as own:
                while not is_over.is_set():
                    decided = decide(own, f"somebody-{number}")
                    flags = decided["featureFlags"]
                    assert decided["errorsWhileComputingFlags"] is False
                    assert flags["root"] in ("a", "b")
                    assert decided["featureFlagPayloads"]["root"] == f'["{flags["root"]}"]'
                    assert flags["is-a"] is (flags["root"] == "a")
                    assert flags["is-b"] is (flags["root"] == "b")
                    seen.add(flags["root"])
            return seen

        def edit() -> set[str]:
            try:
                with server.client() as own:
                    for number in range(EDITS):
                        variant = "ab"[number % 2]
                        answer = own.patch(f"{BASE}{root}/", json={"filters": chosen(variant)})
                        assert answer.status_code == 200, answer.text
                        assert decide(own)["featureFlags"]["root"] == variant
            finally:
                is_over.set()
            return set()

        calls: list[Callable[[], set[str]]] = [
            edit,
            *(partial(read_repeatedly, n) for n in range(3)),
        ]
        seen = set(chain(*run_concurrently(calls)))
        assert client.get(f"{BASE}{root}/").json()["version"] == EDITS
    assert seen == {"a", "b"}
    assert_unharmed(server)


def test_flags_created_and_deleted_concurrently_do_not_break_evaluation(
    server: LiveServer,
) -> None:
    with server.client() as client:
        create_flag(client, "stays", build_filters(share=50))
        is_over = threading.Event()

        def read_repeatedly(number: int) -> int:
            count = 0
            with server.client(key=None) as own:
                while not is_over.is_set():
                    decided = decide(own, f"somebody-{number}-{count}")
                    expected = get_bucket_position("stays", f"somebody-{number}-{count}") <= 0.5
                    assert decided["featureFlags"]["stays"] is expected
                    assert decided["errorsWhileComputingFlags"] is False
                    count += 1
            return count

        def edit(number: int) -> int:
            try:
                with server.client() as own:
                    for turn in range(TURNS):
                        first = create_flag(own, f"first-{number}-{turn}", build_filters())
                        second = create_flag(
                            own, f"second-{number}-{turn}", build_filters(build_flag_filter(first))
                        )
                        for id in (second, first):
                            assert own.delete(f"{BASE}{id}/").status_code == 204
            finally:
                is_over.set()
            return 0

        calls = [
            *(partial(read_repeatedly, n) for n in range(3)),
            *(partial(edit, n) for n in range(2)),
        ]
        assert sum(run_concurrently(calls)) > 0
        assert decide(client)["featureFlags"].keys() >= {"stays"}
    assert_unharmed(server)


def test_concurrent_edits_are_all_applied(server: LiveServer) -> None:
    """Each change increases the version; of two changes of the same version, one conflicts."""
    with server.client() as client:
        flag = create_flag(client, "f", build_filters())

        def rename(name: str) -> int:
            body = {"name": name, "version": 1, "original_flag": {"name": ""}}
            return client.patch(f"{BASE}{flag}/", json=body).status_code

        codes = run_concurrently([partial(rename, f"Name {n}") for n in range(8)])
        assert sorted(codes) == [200, *[409] * 7]
        tags = [
            partial(client.patch, f"{BASE}{flag}/", json={"name": f"Other {n}"}) for n in range(8)
        ]
        versions = [answer.json()["version"] for answer in run_concurrently(tags)]
        assert sorted(versions) == list(range(3, 11))
        same = run_concurrently(
            [
                partial(client.post, BASE, json={"key": "g", "filters": build_filters()})
                for _ in range(8)
            ]
        )
        assert sorted(answer.status_code for answer in same) == [201, *[400] * 7]
    assert_unharmed(server)


# Unavailable database.


@pytest.fixture(scope="module")
def stoppable_postgres() -> Iterator[PostgresTestServer]:
    server = PostgresTestServer()
    yield server
    server.start()
    server.close()


def _create_three_flags(client: httpx.Client) -> None:
    create_flag(client, "plain", build_filters(share=50))
    create_flag(client, "asks", build_filters(build_person_filter("plan", "pro")))
    create_flag(client, "lasting", build_filters(share=50), ensure_experience_continuity=True)


def _assert_decides_without_stored_data(client: httpx.Client) -> None:
    for n in range(10):
        plain = {"plain": get_bucket_position("plain", f"id-{n}") <= 0.5}
        decided = decide(client, f"id-{n}")
        assert decided["featureFlags"] == plain
        assert decided["errorsWhileComputingFlags"] is True
        covered = decide(client, f"id-{n}", person_properties={"plan": "pro"})
        assert covered["featureFlags"] == {**plain, "asks": True}
        assert covered["errorsWhileComputingFlags"] is True
        chosen = decide(
            client, f"id-{n}", person_properties={"plan": "x"}, flag_keys=["plain", "asks"]
        )
        assert chosen["featureFlags"] == {**plain, "asks": False}
        assert chosen["errorsWhileComputingFlags"] is False
        anonymous = decide(client, f"id-{n}", **{"$anon_distinct_id": "before"})
        assert anonymous["featureFlags"].items() >= plain.items()
        assert anonymous["errorsWhileComputingFlags"] is True


@pytest.mark.parametrize("end", [PostgresTestServer.stop, PostgresTestServer.kill])
def test_flags_without_stored_data_are_evaluated_while_postgresql_is_down(
    stoppable_postgres: PostgresTestServer,
    tmp_path: Path,
    end: Callable[[PostgresTestServer], None],
) -> None:
    settings = {"database_url": stoppable_postgres.create_database(), "database_timeout_s": "2"}
    with LiveServer(tmp_path, **settings) as server, server.client() as client:
        _create_three_flags(client)
        whole = decide(client, "id-0")
        end(stoppable_postgres)
        try:
            _assert_decides_without_stored_data(client)
            unknown = client.post("/decide?v=3", json={"api_key": "phc_no", "distinct_id": "x"})
            assert unknown.status_code in (401, 503)
        finally:
            stoppable_postgres.start()
        wait_for(
            lambda: decide(client, "id-0")["featureFlags"] == whole["featureFlags"], at_most_s=60
        )
    assert whole["errorsWhileComputingFlags"] is False
    assert_ready_except_database(server)


def assert_ready_except_database(server: LiveServer) -> None:
    assert "Traceback" not in server.errors


def test_hanging_postgresql_costs_at_most_the_timeout(
    stoppable_postgres: PostgresTestServer, tmp_path: Path
) -> None:
    settings = {"database_url": stoppable_postgres.create_database(), "database_timeout_s": "1"}
    with LiveServer(tmp_path, **settings) as server, server.client() as client:
        _create_three_flags(client)
        expected = get_bucket_position("plain", "id-1") <= 0.5
        with stoppable_postgres.freeze():
            calls = [
                partial(decide, client, "id-1"),
                partial(decide, client, "id-1", flag_keys=["plain"]),
            ]
            began = time.monotonic()
            waited, quick = run_concurrently(calls)
            took_s = time.monotonic() - began
        assert took_s < HANGING_MS / 1000
        assert quick["featureFlags"] == {"plain": expected}
        assert quick["errorsWhileComputingFlags"] is False
        assert waited["featureFlags"] == {"plain": expected}
        assert waited["errorsWhileComputingFlags"] is True
    assert_ready_except_database(server)


def test_locked_sqlite_delays_only_writes(tmp_path: Path) -> None:
    with LiveServer(tmp_path, database_timeout_s="0.5") as server, server.client() as client:
        _create_three_flags(client)
        known = client.post("/api/projects/1/persons/", json={"distinct_ids": ["id-1"]})
        assert known.status_code == 201
        with closing(sqlite3.connect(tmp_path / "hedgerow.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            read = decide(client, "id-1")
            written = decide(client, "id-1", **{"$anon_distinct_id": "before"})
            other.execute("ROLLBACK")
        again = decide(client, "id-1", **{"$anon_distinct_id": "before"})
    assert read["errorsWhileComputingFlags"] is False
    assert len(read["featureFlags"]) == 3
    assert written["errorsWhileComputingFlags"] is True
    assert written["featureFlags"]["plain"] is (get_bucket_position("plain", "id-1") <= 0.5)
    assert again["errorsWhileComputingFlags"] is False
    assert_ready_except_database(server)
