"""A scan finds the persons that flags match, on both databases and for any properties."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from hedgerow.errors import Invalid, Unavailable
from hedgerow.flags.evaluation.blast_radius import compile_condition
from hedgerow.flags.evaluation.condition_matcher import Condition
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.flags.model import FlagDefinitions
from hedgerow.flags.store import ScanResult
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolLimits
from hedgerow.persons.model import Cohort, CohortId, Person, PersonId
from hedgerow.persons.store import PersonQuery
from hedgerow.storage.connect import build_scan_source
from hedgerow.storage.persons.person_scanner import WORKER_LIMITS, SqlPersonScanner
from hedgerow.storage.persons.scan_worker import ScanPart, choose_page, scan_groups, scan_persons
from tests.contract.storage.conftest import DEFAULT_PROJECT, NOW, Stores
from tests.contract.storage.persons.test_cohorts import PLAIN, create_person, put_cohort
from tests.unit.flags.factories import make_flag

SEED = 20
PERSON_COUNT = 80
FILTER_COUNT = 200
STATIC_SHARE = 0.3
KEYS = ("plan", "Größe 🌿", 'a"b\\c', "$initial_os", "$os", "os", "distinct_id", "email", "missing")
VALUES: Sequence[Any] = (
    *(
        None,
        True,
        False,
        "true",
        "False",
        "",
        " ",
        "pro",
        "PRO",
        "Straße",
        "STRASSE",
        "ÜBER",
        "über",
    ),
    *(0, 1, -1, 1.0, 1.5, 1e-7, 1e-5, 1e22, 2**53 + 1, 2**70, -0.0, "1", "1.0", " 1", "1e3", "0x1"),
    *("2024-01-05", "2024-01-05T10:00:00Z", "2024-01-05 10:00:00+02:00", "2024/01/05", 1704412800),
    *("Fri, 05 Jan 2024 10:00:00 GMT", "2024-13-05", "1.2.3", "v1.2", "1.2.3-rc.1", "1.2.3+5"),
    *([], {}, ["pro"], ["true"], [True, True], {"b": 1, "a": [1.0, "ü"]}, "a\nb", "x" * 10_001),
    *(["x" * 10_001], "user@example.com", "\u2028", "😀 smile", "İ", "ς", "Σ"),
)
OPERATORS: Mapping[str, Sequence[Any]] = {
    "exact": (*VALUES[1:], ["pro", 1], ["true", "false"]),
    "is_not": (*VALUES[1:], ["pro", "ÜBER"], [1, 1.5]),
    **dict.fromkeys(
        ("icontains", "not_icontains"), ("p", "Ü", "ü", "SS", "1", "[", "tru", "😀", " ")
    ),
    **dict.fromkeys(("icontains_multi", "not_icontains_multi"), (["p", "Ü"], ["1", "zz"])),
    **dict.fromkeys(("starts_with", "ends_with", "not_starts_with"), ("p", "1", "Ü", "é")),
    **dict.fromkeys(("regex", "not_regex"), (r"^p", r"\d+$", r"^\w+$", r"(?=p)p", "ü", ".", "a.b")),
    **dict.fromkeys(("gt", "gte", "lt", "lte"), (0, 1, "1.0", 1e3, -1.5, 2**60)),
    **dict.fromkeys(("between", "not_between"), ([0, 1], ["-1", "1e3"])),
    **dict.fromkeys(("is_set", "is_not_set"), (None,)),
    **dict.fromkeys(
        ("is_date_exact", "is_date_before", "is_date_after"),
        ("2024-01-05", "-7d", "2024-01-05T10:00Z"),
    ),
    **dict.fromkeys(("semver_eq", "semver_gt", "semver_lte", "semver_caret"), ("1.2.3", "1.2")),
    "semver_wildcard": ("1.*", "1.2.*"),
}


def choose_filter(source: random.Random) -> dict[str, Any]:
    operator = source.choice(list(OPERATORS))
    value = source.choice(OPERATORS[operator])
    return {"type": "person", "key": source.choice(KEYS), "operator": operator, "value": value}


def choose_properties(source: random.Random) -> dict[str, Any]:
    keys = source.sample(KEYS[:-1], source.randrange(len(KEYS)))
    return {key: source.choice(VALUES) for key in keys}


def build_cohorts(source: random.Random, static: CohortId) -> list[Cohort]:
    """A dynamic cohort, and one that contains this one but not the static one."""
    some = [choose_filter(source), choose_filter(source) | {"negation": True}]
    others = [
        {"type": "cohort", "key": "id", "value": static + 1},
        {"type": "cohort", "key": "id", "value": static, "operator": "not_in"},
    ]
    return [
        replace(PLAIN, id=CohortId(static + n), definition={"type": kind, "values": values})
        for n, kind, values in ((1, "OR", some), (2, "AND", others))
    ]


def build_definitions(**fields: Any) -> FlagDefinitions:
    default = {"generation": 1, "flags": (), "cohorts": (), "group_types": {"team": 0}}
    return FlagDefinitions(**{**default, "timezone": "Europe/Berlin", **fields})


def build_condition(*filters: Any, **definitions: Any) -> Condition:
    snapshot = build_snapshot(build_definitions(**definitions))
    return compile_condition(snapshot, {"properties": list(filters)}, None, NOW)


async def list_persons(stores: Stores) -> list[Person]:
    return (await stores.persons.persons(PersonQuery(project_id=DEFAULT_PROJECT, limit=1000)))[0]


def evaluate_each(
    snapshot: FlagSnapshot,
    filters: Sequence[Any],
    persons: Sequence[Person],
    members: Mapping[int, frozenset[int]],
) -> list[int]:
    """Evaluate the filters as `/decide` does: in a complete context of each person."""
    _, predicate = snapshot.predicates.compile_all(filters)
    found: list[int] = []
    for person in persons:
        context = EvaluationContext(distinct_id=person.distinct_ids[0], now=NOW)
        cohorts = members.get(person.id, frozenset())
        context.add_stored_data(person.properties, groups={}, cohorts=cohorts, hash_keys={})
        outcomes = snapshot.evaluate(snapshot.all_flags, context)
        context.results = {outcome.flag.id: outcome for outcome in outcomes}
        if predicate(context):
            found.append(person.id)
    return found


async def test_scan_matches_as_flags_do(stores: Stores) -> None:
    source = random.Random(SEED)
    for n in range(PERSON_COUNT):
        await create_person(stores, f"Person {n}", f"{n}", **choose_properties(source))
    persons = await list_persons(stores)
    static = await put_cohort(stores, replace(PLAIN, is_static=True))
    own: frozenset[int] = frozenset({static.id})
    members: dict[int, frozenset[int]] = {
        person.id: own for person in persons if source.random() < STATIC_SHARE
    }
    ids = [person.distinct_ids[0] for person in persons if person.id in members]
    await stores.cohorts.add_members(DEFAULT_PROJECT, static.id, ids)
    scan_source = build_scan_source(stores.location, 30)
    query = PersonQuery(project_id=DEFAULT_PROJECT, limit=1000)
    seen: set[int] = set()
    for n in range(FILTER_COUNT):
        cohorts = [static, *build_cohorts(source, static.id)]
        filters = [choose_filter(source) for _ in range(source.choice((1, 1, 2)))]
        if n % 4 == 0:
            id = source.choice(cohorts).id
            filters.append(
                {
                    "type": "cohort",
                    "key": "id",
                    "value": id,
                    "operator": source.choice(("in", "not_in")),
                }
            )
        snapshot = build_snapshot(build_definitions(cohorts=cohorts))
        expected = evaluate_each(snapshot, filters, persons, members)
        condition = build_condition(*filters, cohorts=cohorts)
        parts = [
            scan_persons(scan_source, query, condition, ScanPart(number=number, of=2))
            for number in (0, 1)
        ]
        assert all(part.total for part in parts)
        assert sum(part.total for part in parts) == PERSON_COUNT
        assert sum(part.matching for part in parts) == len(expected), filters
        found = choose_page(chain.from_iterable(part.ids for part in parts), query)
        assert found == expected, filters
        seen.add(len(expected))
    assert len(seen) > 20  # the filters differ


async def test_scan_evaluates_flags_that_filters_depend_on(stores: Stores) -> None:
    for n in range(20):
        await create_person(stores, f"user-{n}", plan="pro" if n % 2 else "free")
    half = {
        "properties": [{"key": "plan", "value": "pro", "type": "person"}],
        "rollout_percentage": 50,
    }
    flag = make_flag(id=7, key="some", filters={"groups": [half]})
    filter = {"type": "flag", "key": "7", "operator": "flag_evaluates_to", "value": True}
    snapshot = build_snapshot(build_definitions(flags=[flag]))
    expected = evaluate_each(snapshot, [filter], await list_persons(stores), {})
    query = PersonQuery(project_id=DEFAULT_PROJECT, limit=1000)
    condition = build_condition(filter, flags=[flag])
    found = scan_persons(build_scan_source(stores.location, 30), query, condition)
    assert list(found.ids) == expected
    assert 0 < len(expected) < 10


async def test_scan_counts_groups(stores: Stores) -> None:
    for n in range(5):
        properties = {"size": n, "ü": {"a": n}}
        await stores.persons.upsert_group(DEFAULT_PROJECT, 0, f"g{n}", properties, NOW)
    await stores.persons.upsert_group(DEFAULT_PROJECT, 1, "other", {"size": 9}, NOW)
    snapshot = build_snapshot(build_definitions())
    filter = {"type": "group", "group_type_index": 0, "key": "size", "operator": "gt", "value": 1}
    condition = compile_condition(snapshot, {"properties": [filter]}, 0, NOW)
    found = scan_groups(build_scan_source(stores.location, 30), DEFAULT_PROJECT, condition)
    assert (found.matching, found.total) == (3, 5)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"search": "AN"}, ["ann", "hans"]),
        ({"search": "second"}, ["ann"]),
        ({"search": "%"}, ["100%"]),
        ({"search": "_"}, ["a_b"]),
        ({"search": "\\"}, ["c\\d"]),
        ({"search": "ÜBER"}, ["über"]),
        # Its first letter is the Kelvin sign, whose lower case is an ordinary k.
        ({"search": "K8"}, ["\u212a8"]),
        ({"search": "a\0"}, []),
        ({"search": "ann", "distinct_id": "hans"}, []),
        ({"search": "example"}, ["hans"]),
        ({"search": "null"}, []),
        ({"email": "Hans@example.com"}, ["hans"]),
        ({"email": "hans@example.com"}, []),
    ],
)
async def test_scan_finds_texts(stores: Stores, filters: dict[str, str], found: list[str]) -> None:
    await create_person(stores, "ann", "second-id", "second-name", email=None)
    await create_person(stores, "hans", email="Hans@example.com", name=["other"])
    for id in ("100%", "a_b", "c\\d", "über", "\u212a8"):
        await create_person(stores, id)
    query = PersonQuery(project_id=DEFAULT_PROJECT, **filters)  # type: ignore[arg-type]
    scanned = scan_persons(build_scan_source(stores.location, 30), query, build_condition())
    persons = await stores.persons.get_newest_first(scanned.ids)
    assert sorted(person.distinct_ids[0] for person in persons) == found
    assert scanned.matching == len(found)


async def test_every_page_is_the_same_from_offset_and_cursor(stores: Stores) -> None:
    for n in range(9):
        await create_person(stores, f"user-{n}", plan="pro" if n % 3 else "free")
    condition = build_condition({"type": "person", "key": "plan", "value": "pro"})
    source = build_scan_source(stores.location, 30)
    plain = PersonQuery(project_id=DEFAULT_PROJECT, limit=2)
    everyone = [person.id for person in await list_persons(stores)]
    matching = list(scan_persons(source, replace(plain, limit=99), condition).ids)
    assert (len(everyone), len(matching)) == (9, 6)
    for ids in (everyone, matching):
        for start in range(0, len(ids), 2):
            for query in list_page_queries(plain, ids, start):
                if ids is matching:
                    page = list(scan_persons(source, query, condition).ids)
                else:
                    page = [person.id for person in (await stores.persons.persons(query))[0]]
                assert page == ids[start : start + 2], query


def list_page_queries(plain: PersonQuery, ids: list[PersonId], start: int) -> list[PersonQuery]:
    """List all ways to ask for the same page: by offset and from both of its neighbors, with a
    known count and without."""
    queries = [replace(plain, offset=start)]
    if start:
        queries.append(replace(plain, older_than=ids[start - 1]))
    if start + 2 < len(ids):
        queries.append(replace(plain, newer_than=ids[start + 2]))
    return queries + [replace(each, count=5) for each in queries]


async def run_slowly(stores: Stores, pattern: str, limits: PoolLimits) -> ScanResult:
    workers = FunctionPool(limits)
    try:
        scanner = SqlPersonScanner(stores.location, workers)
        filter = {"type": "person", "key": "plan", "operator": "regex", "value": pattern}
        query = PersonQuery(project_id=DEFAULT_PROJECT, limit=5)
        return await scanner.scan_persons(query, build_condition(filter))
    finally:
        workers.close()


async def test_scan_runs_in_a_worker_process_within_its_limits(stores: Stores) -> None:
    person = await create_person(stores, "ann", plan="pro")
    found = await run_slowly(stores, "^p", WORKER_LIMITS)
    assert found == ScanResult(ids=[PersonId(person.id)], matching=1, total=1)
    with pytest.raises(Invalid, match="take too long"):
        await run_slowly(stores, "^p", replace(WORKER_LIMITS, timeout_s=0.001))


async def test_database_error_in_a_worker_process_is_unavailable(stores: Stores) -> None:
    place = stores.location
    place = (
        replace(place, path=place.path.with_name("absent.db"))
        if place.is_sqlite
        else replace(place, url=place.url + "-absent")
    )
    with pytest.raises(Unavailable):
        await run_slowly(replace(stores, location=place), "^p", WORKER_LIMITS)
