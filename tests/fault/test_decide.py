"""What /decide survives: definitions that are traps, circles, heaps of flags, every script, edits
meanwhile, and a database that is away. It always answers, and what it can know is right.
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
from tests.fault.deciding import (
    BASE,
    Filters,
    asked,
    assert_unharmed,
    made,
    milliseconds,
    needs,
    one,
    person,
    place_of,
    write,
)
from tests.live import PROJECT_KEY, Installation, LiveServer, seconds_until, side_by_side
from tests.postgres import OwnPostgres

# What hangs takes for ever; what is slow because the machine is busy does not take this long.
HANGING_MS = 60_000
# While others decide all the time.
EDITS = 50
TURNS = 10


# Traps in definitions.

LINEAR = (r"^(a+)+$", r"(a|aa)+$", r"(a|a?)+$", r"(.*a){20}$", r"([a-zA-Z]+)*$")
BEYOND = (r"(?=(a+)+$)a", r"(a+)\1+$", r"(?:(?=a)a+)+$", r"^(?!(a+)+b)(a|aa)+$", r"(x+x+)+y(?=z)")


def test_patterns_that_could_run_for_ever_are_given_up_in_time(tmp_path: Path) -> None:
    texts = ["a" * 30 + "!", "x" * 5000, "a" * 9_999 + "!", "a" * 1_000_000 + "!"]
    with LiveServer(tmp_path) as server, server.client() as client:
        for number, pattern in enumerate(LINEAR + BEYOND):
            made(client, f"trap-{number}", one(person("p", pattern, "regex")))
        made(client, "plain", one(person("p", "x", "is_not")))
        for text in texts:
            for _ in range(3):
                found = asked(client, person_properties={"p": text})["featureFlags"]
                assert found["plain"] is True
                assert len(found) == len(LINEAR + BEYOND) + 1
        assert asked(client, person_properties={"p": "aaaa"})["featureFlags"]["trap-0"] is True
    assert max(milliseconds(server)) < HANGING_MS
    assert_unharmed(server)


def test_many_traps_in_one_project_do_not_add_up(tmp_path: Path) -> None:
    """Each pattern is given up after a while; fifty of them must not keep everybody waiting."""
    with LiveServer(tmp_path) as server, server.client() as client:
        for number in range(50):
            trap = rf"(?=(a+)+{number}$)a"
            made(client, f"trap-{number}", one(person("p", trap, "regex")))
        for _ in range(3):
            asked(client, person_properties={"p": "a" * 200 + "!"})
    assert max(milliseconds(server)) < HANGING_MS
    assert_unharmed(server)


def test_flags_and_cohorts_in_circles_and_long_chains_harm_no_other_flag(tmp_path: Path) -> None:
    def inner(id: int) -> dict[str, Any]:
        return {"type": "AND", "values": [{"type": "cohort", "key": "id", "value": id}]}

    def member(id: int) -> Filters:
        return one(person("id", id, "in", type="cohort"))

    circle = [{"id": n, "key": f"c{n}", "filters": one(needs(n % 50 + 1))} for n in range(1, 51)]
    links = [
        {"id": n, "key": f"l{n}", "filters": one(needs(n - 1)) if n > 101 else one()}
        for n in range(101, 601)
    ]
    others = [
        {"id": 900, "key": "on-circle", "filters": one(needs(7, False))},
        {"id": 901, "key": "in-circle", "filters": member(1)},
        {"id": 902, "key": "in-chain", "filters": member(101)},
        {"id": 903, "key": "self", "filters": one(needs(903, False))},
        {"id": 904, "key": "plain", "filters": one()},
    ]
    plain = {"type": "AND", "values": [person("p", "x")]}
    cohorts = [
        *({"id": n, "definition": inner(n % 30 + 1)} for n in range(1, 31)),
        *({"id": n, "definition": inner(n + 1)} for n in range(101, 2101)),
        {"id": 2101, "definition": plain},
    ]
    with LiveServer(tmp_path) as server, server.client() as client:
        write(tmp_path, tables.cohorts, cohorts)
        write(tmp_path, tables.flags, [*circle, *links, *others])
        seconds_until(lambda: len(asked(client)["featureFlags"]) > 1, at_most_s=60)
        decided = asked(client, person_properties={"p": "x"})
    flags = decided["featureFlags"]
    assert decided["errorsWhileComputingFlags"] is True
    assert flags["plain"] is True
    assert "in-circle" not in flags
    assert {flags[f"c{n}"] for n in range(1, 51)} == {False}
    assert (flags["on-circle"], flags["self"]) == (False, False)
    assert {flags[f"l{n}"] for n in range(101, 601)} == {True}
    assert_unharmed(server)


@pytest.mark.timeout(300)
def test_two_thousand_flags_of_a_hundred_conditions_are_served(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    with LiveServer(tmp_path):
        pass
    heap = [{"key": f"heap-{n}", "filters": _hundred_conditions(n)} for n in range(1999)]
    write(tmp_path, tables.flags, [*heap, {"key": "plain", "filters": one()}])
    started = time.monotonic()
    with LiveServer(tmp_path) as server, server.client() as client:
        start_s = time.monotonic() - started
        started = time.monotonic()
        waits = _waits(server, lambda: asked(client, "first"))
        first_s = time.monotonic() - started
        began = time.monotonic()
        decided = asked(client, "second", person_properties={"p-3": "yes", "plan": "x"})
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
    assert len(decided["featureFlags"]) == 2000
    assert decided["errorsWhileComputingFlags"] is False
    assert decided["featureFlags"]["plain"] is True
    assert decided["featureFlags"]["heap-3"] is True
    assert max(waits) < first_s / 2  # nobody had to wait for all of it
    assert_unharmed(server)


def _hundred_conditions(number: int) -> Filters:
    asks = (person(f"p-{(number + n) % 300}", ["no", f"no-{n}"]) for n in range(99))
    return {
        "groups": [
            *({"properties": [ask], "rollout_percentage": 50} for ask in asks),
            {"properties": [person(f"p-{number}", "yes")], "rollout_percentage": 100},
        ]
    }


def _waits(server: LiveServer, call: Callable[[], object]) -> list[float]:
    """How long each probe waited that was answered while the call went on."""
    waits = []
    thread = threading.Thread(target=call)
    thread.start()
    while thread.is_alive():
        began = time.monotonic()
        assert server.answers("/_liveness") == 200
        waits.append(time.monotonic() - began)
    thread.join()
    return waits


def test_distinct_ids_of_every_plane_count_by_their_utf_8(installation: Installation) -> None:
    rng = random.Random("planes")
    points = [0x10000 * plane + rng.randrange(0x10000) for plane in range(17) for _ in range(12)]
    edges = [0x10000 * plane + low for plane in range(17) for low in (0, 1, 0xFFFD, 0xFFFE, 0xFFFF)]
    kept = [chr(point) for point in chain(points, edges) if not 0xD800 <= point < 0xE000]
    ids = [each for each in (*kept, "".join(kept)) if "\0" not in each]
    with installation.server() as server, server.client() as client:
        made(client, "half", one(share=50))
        made(client, "stored", one(person("p", "x", "is_not_set"), share=50))
        made(client, "lasting", one(share=50), ensure_experience_continuity=True)
        wrong = []
        for id in ids:
            for more in ({}, {"$anon_distinct_id": id}, {"groups": {"company": id}}):
                decided = asked(client, id, **more)
                expected = {key: place_of(key, id[:200]) <= 0.5 for key in ("half", "stored")}
                expected["lasting"] = place_of("lasting", id if len(more) else id[:200]) <= 0.5
                if decided["featureFlags"] | expected != decided["featureFlags"]:
                    wrong.append((id, more, decided["featureFlags"], expected))
    assert not wrong, (len(wrong), wrong[:3])
    assert_unharmed(server)


@pytest.mark.parametrize("field", ["distinct_id", "$anon_distinct_id", "groups", "$device_id"])
def test_a_nul_in_an_id_is_no_reason_to_fail(installation: Installation, field: str) -> None:
    with installation.server() as server, server.client() as client:
        write(
            installation.data,
            tables.group_types,
            [{"index": 0, "name": "company"}],
            url=installation.settings.get("database_url", ""),
        )
        made(client, "half", one(share=50))
        made(client, "stored", one(person("p", "x", "is_not_set")))
        made(client, "lasting", one(share=50), ensure_experience_continuity=True)
        for id in ("\0", "a\0b", "\0" * 300):
            value = {"company": id} if field == "groups" else id
            body = {"distinct_id": "somebody", field: value, "api_key": PROJECT_KEY}
            answer = client.post("/decide?v=3", json=body)
            assert answer.status_code in (200, 400), answer.text
    assert_unharmed(server)


# Edits meanwhile.


def test_an_answer_is_never_half_of_an_edit(installation: Installation) -> None:
    variants = {"variants": [{"key": key, "rollout_percentage": 50} for key in ("a", "b")]}

    def chosen(variant: str) -> Filters:
        group = {"properties": [], "rollout_percentage": 100, "variant": variant}
        return {"groups": [group], "multivariate": variants, "payloads": {variant: [variant]}}

    with installation.server() as server, server.client() as client:
        root = made(client, "root", chosen("a"))
        made(client, "is-a", one(needs(root, "a")))
        made(client, "is-b", one(needs(root, "b")))
        is_over = threading.Event()

        def decide(number: int) -> set[str]:
            seen = set()
            with server.client(key=None) as own:
                while not is_over.is_set():
                    decided = asked(own, f"somebody-{number}")
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
                        assert asked(own)["featureFlags"]["root"] == variant
            finally:
                is_over.set()
            return set()

        calls: list[Callable[[], set[str]]] = [edit, *(partial(decide, n) for n in range(3))]
        seen = set(chain(*side_by_side(calls)))
        assert client.get(f"{BASE}{root}/").json()["version"] == EDITS
    assert seen == {"a", "b"}
    assert_unharmed(server)


def test_flags_that_come_and_go_break_no_decision(installation: Installation) -> None:
    with installation.server() as server, server.client() as client:
        made(client, "stays", one(share=50))
        is_over = threading.Event()

        def decide(number: int) -> int:
            count = 0
            with server.client(key=None) as own:
                while not is_over.is_set():
                    decided = asked(own, f"somebody-{number}-{count}")
                    expected = place_of("stays", f"somebody-{number}-{count}") <= 0.5
                    assert decided["featureFlags"]["stays"] is expected
                    assert decided["errorsWhileComputingFlags"] is False
                    count += 1
            return count

        def edit(number: int) -> int:
            try:
                with server.client() as own:
                    for turn in range(TURNS):
                        first = made(own, f"first-{number}-{turn}", one())
                        second = made(own, f"second-{number}-{turn}", one(needs(first)))
                        for id in (second, first):
                            assert own.delete(f"{BASE}{id}/").status_code == 204
            finally:
                is_over.set()
            return 0

        calls = [*(partial(decide, n) for n in range(3)), *(partial(edit, n) for n in range(2))]
        assert sum(side_by_side(calls)) > 0
        assert asked(client)["featureFlags"].keys() >= {"stays"}
    assert_unharmed(server)


def test_of_edits_at_once_each_counts(installation: Installation) -> None:
    """Each change gets a version of its own; of two that saw the same version one is a conflict."""
    with installation.server() as server, server.client() as client:
        flag = made(client, "f", one())

        def rename(name: str) -> int:
            body = {"name": name, "version": 1, "original_flag": {"name": ""}}
            return client.patch(f"{BASE}{flag}/", json=body).status_code

        codes = side_by_side([partial(rename, f"Name {n}") for n in range(8)])
        assert sorted(codes) == [200, *[409] * 7]
        tags = [
            partial(client.patch, f"{BASE}{flag}/", json={"name": f"Other {n}"}) for n in range(8)
        ]
        versions = [answer.json()["version"] for answer in side_by_side(tags)]
        assert sorted(versions) == list(range(3, 11))
        same = side_by_side(
            [partial(client.post, BASE, json={"key": "g", "filters": one()}) for _ in range(8)]
        )
        assert sorted(answer.status_code for answer in same) == [201, *[400] * 7]
    assert_unharmed(server)


# The database is away.


@pytest.fixture(scope="module")
def mortal() -> Iterator[OwnPostgres]:
    server = OwnPostgres()
    yield server
    server.start()
    server.close()


def _three_flags(client: httpx.Client) -> None:
    made(client, "plain", one(share=50))
    made(client, "asks", one(person("plan", "pro")))
    made(client, "lasting", one(share=50), ensure_experience_continuity=True)


def _assert_decides_without_stored_data(client: httpx.Client) -> None:
    for n in range(10):
        plain = {"plain": place_of("plain", f"id-{n}") <= 0.5}
        decided = asked(client, f"id-{n}")
        assert decided["featureFlags"] == plain
        assert decided["errorsWhileComputingFlags"] is True
        covered = asked(client, f"id-{n}", person_properties={"plan": "pro"})
        assert covered["featureFlags"] == {**plain, "asks": True}
        assert covered["errorsWhileComputingFlags"] is True
        chosen = asked(
            client, f"id-{n}", person_properties={"plan": "x"}, flag_keys=["plain", "asks"]
        )
        assert chosen["featureFlags"] == {**plain, "asks": False}
        assert chosen["errorsWhileComputingFlags"] is False
        anonymous = asked(client, f"id-{n}", **{"$anon_distinct_id": "before"})
        assert anonymous["featureFlags"].items() >= plain.items()
        assert anonymous["errorsWhileComputingFlags"] is True


@pytest.mark.parametrize("end", [OwnPostgres.stop, OwnPostgres.kill])
def test_without_postgresql_flags_that_need_nothing_stored_are_right(
    mortal: OwnPostgres, tmp_path: Path, end: Callable[[OwnPostgres], None]
) -> None:
    settings = {"database_url": mortal.new_database(), "database_timeout_s": "2"}
    with LiveServer(tmp_path, **settings) as server, server.client() as client:
        _three_flags(client)
        whole = asked(client, "id-0")
        end(mortal)
        try:
            _assert_decides_without_stored_data(client)
            unknown = client.post("/decide?v=3", json={"api_key": "phc_no", "distinct_id": "x"})
            assert unknown.status_code in (401, 503)
        finally:
            mortal.start()
        seconds_until(
            lambda: asked(client, "id-0")["featureFlags"] == whole["featureFlags"], at_most_s=60
        )
    assert whole["errorsWhileComputingFlags"] is False
    assert_unharmed_but_for_the_database(server)


def assert_unharmed_but_for_the_database(server: LiveServer) -> None:
    assert "Traceback" not in server.errors


def test_a_postgresql_that_hangs_costs_its_time_limit_at_most(
    mortal: OwnPostgres, tmp_path: Path
) -> None:
    settings = {"database_url": mortal.new_database(), "database_timeout_s": "1"}
    with LiveServer(tmp_path, **settings) as server, server.client() as client:
        _three_flags(client)
        expected = place_of("plain", "id-1") <= 0.5
        with mortal.frozen():
            calls = [
                partial(asked, client, "id-1"),
                partial(asked, client, "id-1", flag_keys=["plain"]),
            ]
            began = time.monotonic()
            waited, quick = side_by_side(calls)
            took_s = time.monotonic() - began
        assert took_s < HANGING_MS / 1000
        assert quick["featureFlags"] == {"plain": expected}
        assert quick["errorsWhileComputingFlags"] is False
        assert waited["featureFlags"] == {"plain": expected}
        assert waited["errorsWhileComputingFlags"] is True
    assert_unharmed_but_for_the_database(server)


def test_a_locked_sqlite_file_costs_only_what_must_be_written(tmp_path: Path) -> None:
    with LiveServer(tmp_path, database_timeout_s="0.5") as server, server.client() as client:
        _three_flags(client)
        known = client.post("/api/projects/1/persons/", json={"distinct_ids": ["id-1"]})
        assert known.status_code == 201
        with closing(sqlite3.connect(tmp_path / "hedgerow.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            read = asked(client, "id-1")
            written = asked(client, "id-1", **{"$anon_distinct_id": "before"})
            other.execute("ROLLBACK")
        again = asked(client, "id-1", **{"$anon_distinct_id": "before"})
    assert read["errorsWhileComputingFlags"] is False
    assert len(read["featureFlags"]) == 3
    assert written["errorsWhileComputingFlags"] is True
    assert written["featureFlags"]["plain"] is (place_of("plain", "id-1") <= 0.5)
    assert again["errorsWhileComputingFlags"] is False
    assert_unharmed_but_for_the_database(server)
