"""Our answers beside those of PostHog's own client, wherever it can answer without a server.

The client was written to agree with PostHog's server. Where it is known not to, the generated
values leave that out, and a comment says why.
"""

import ast
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posthog import feature_flags

from hedgerow.filters.operators import operator_named, predicate
from hedgerow.filters.values import as_text
from hedgerow.flags.bucket import place
from tests.unit.flags.world import (
    a_cohort,
    a_flag,
    a_snapshot,
    depends_on,
    group_prop,
    in_cohort,
    known,
    outcome_of,
    outcomes,
    prop,
    variants,
)
from tests.unit.generated import PATIENT

client: Any = feature_flags
Undecided = (client.InconclusiveMatchError, client.RequiresServerEvaluation)
often = settings(PATIENT, max_examples=1500)
seldom = settings(PATIENT, max_examples=300)

TEXTS = [
    "DE",
    "de",
    "FR",
    "true",
    "False",
    "null",
    "É",
    "é",
    "straße",
    "STRASSE",
    "Ünï",
    "10",
    "9.5",
    "-3",
    "+1",
    ".5",
    "1e1",
    "a.b",
    "ab|cd",
]
texts = st.sampled_from(["", " ", "a b", "line\n", *TEXTS]) | st.text(
    alphabet=st.characters(exclude_categories=["Cs"]), max_size=4
)
numbers = st.sampled_from([0, 1, 10, -3, 9.5, 10.0, 0.1, 2**53, 1e16, 1e-7]) | st.integers(-20, 20)
scalars = texts | numbers | st.booleans() | st.none()
lists = st.lists(texts | numbers | st.booleans(), max_size=3)
objects = st.dictionaries(st.sampled_from("abc"), scalars, max_size=2)
anything = scalars | lists | objects
something = anything.filter(lambda value: value is not None)

# Asked of the client as text in Python's words (True, 1.0, ['a']), of the server as JSON.
for_patterns = texts | st.integers(-20, 20) | st.none()
PATTERNS = ["", "^$", "^D", "e$", "[A-Z]{2}", "a|b", "é", ".", "^.{2}$", "[^a-z]", "a{2,3}"]
CLASSES = [r"\.", r"^\d+$", r"^\w+$", r"\s", "^-?[0-9]+$", "(?:D|d)[Ee]"]
patterns = st.sampled_from([*PATTERNS, *CLASSES, "(", "[", "null"])

# Dates that the client reads too. It takes four digits for a year and eight for a date; they are
# seconds since 1970.
DATES = [
    "2019-03-01",
    "2024-02-29T12:00:00Z",
    "2024-02-29T14:00:00+02:00",
    "2031-01-01T00:00",
    "soon",
]
dates = st.sampled_from([*DATES, "2024-02-29 12:00:00", "2024-02-29T12:00:00.000001Z", ""])
limits = st.sampled_from([*DATES, "-7d", "30d", "24h", "2w", "11m", "-1y", "10000d", "7x"])

# Without pre-releases and builds, which the client drops; of no more than three numbers, of which
# it reads the first three; with one v at most, of which it drops any number.
VERSIONS = [
    "1.2.3",
    "v1.2.3",
    "1.2",
    "1",
    "0.2.3",
    "0.0.3",
    "0.0.0",
    "1.2.10",
    "2.0.0",
    "1.10.0",
    "01.2.3",
    "x",
    "1.x",
]
versions = st.sampled_from([*VERSIONS, "", " 1.2.3 "]) | st.just(1.2) | st.just(2) | st.none()
# Nothing but a star at the end: the client reads more into others.
wildcards = st.sampled_from(["1.*", "1.2.*", "0.*", "v1.*", "x.*", "2.0.*"])

EQUALITY = st.sampled_from(["exact", "is_not"])
TEXT = st.sampled_from(
    ["icontains", "not_icontains", "starts_with", "not_starts_with", "ends_with", "not_ends_with"]
)
ORDER = st.sampled_from(["gt", "gte", "lt", "lte"])
VERSION = st.sampled_from(
    [f"semver_{name}" for name in ["eq", "neq", "gt", "gte", "lt", "lte", "tilde", "caret"]]
)

# An operator, what it wants, and a value to ask.
questions = st.one_of(
    st.tuples(EQUALITY, something, anything),
    st.tuples(TEXT, something, anything),
    st.tuples(ORDER, something, anything),
    st.tuples(st.sampled_from(["regex", "not_regex"]), patterns, for_patterns),
    st.tuples(st.sampled_from(["is_date_before", "is_date_after"]), limits, dates),
    st.tuples(VERSION, versions.filter(lambda value: value is not None), versions),
    st.tuples(st.just("semver_wildcard"), wildcards, versions),
    st.tuples(st.sampled_from(["is_set", "is_not_set"]), anything, anything),
)
# What chance seldom asks.
ODD: list[tuple[str, Any, Any]] = [
    ("exact", [], True),
    ("exact", [True, False], True),
    ("exact", True, ["true"]),
    ("exact", 1e-7, "1e-7"),
    ("exact", '{"a":1,"b":2}', {"b": 2, "a": 1}),
    ("starts_with", "É", "été"),
    ("starts_with", ["D"], "DE"),
    ("ends_with", ["E"], "DE"),
    ("regex", r"^\w+$", "Größe"),
    ("regex", r"^\d+$", "٣"),
    ("regex", r"a\sb", "a\u00a0b"),
    ("regex", "a$", "a\n"),
    ("regex", "(", "("),
    ("not_regex", "(", "("),
    ("gt", True, 0),
    ("lt", "9", "10"),
]

# Where the client is known to say otherwise. docs/compatibility.md has a row for each kind.
OTHERWISE: list[tuple[str, Any, Any, bool]] = [
    ("regex", "^true$", True, True),
    ("regex", "^True$", True, False),
    ("regex", '^\\["a"]$', ["a"], True),
    ("is_date_after", "2020-01-01", "2024", False),
    ("is_date_before", "2020-01-01", "20240229", True),
    ("semver_eq", "1.2.3", "1.2.3-rc.1", False),
    ("semver_lt", "1.2.3", "1.2.3-rc.1", True),
    ("semver_eq", "1.2.3", "1.2.3.4", False),
    ("semver_eq", "1.2.3", "vv1.2.3", False),
    ("semver_wildcard", "1", "1.2.3", False),
    ("semver_wildcard", "1.2.3.*", "1.2.3", False),
]


def ours(name: str, wanted: Any, value: Any) -> bool:
    operator = operator_named(name)
    assert operator is not None
    return bool(predicate(operator, wanted)(value, datetime.now(UTC)))


def check(name: str, wanted: Any, value: Any) -> None:
    try:
        expected = client.match_property(prop("key", wanted, name), {"key": value})
    except Undecided:
        return
    assert ours(name, wanted, value) is expected


@given(questions)
@often
def test_every_operator_says_what_the_client_says(question: tuple[str, Any, Any]) -> None:
    check(*question)


@pytest.mark.parametrize(("name", "wanted", "value"), ODD)
def test_odd_questions_are_answered_as_the_client_does(name: str, wanted: Any, value: Any) -> None:
    check(name, wanted, value)


@pytest.mark.parametrize(("name", "wanted", "value", "answer"), OTHERWISE)
def test_where_the_client_says_otherwise_is_known(
    name: str, wanted: Any, value: Any, answer: bool
) -> None:
    assert ours(name, wanted, value) is answer
    assert client.match_property(prop("key", wanted, name), {"key": value}) is not answer


@given(anything)
@often
def test_values_are_written_as_the_client_writes_them(value: Any) -> None:
    assert as_text(value) == client._value_to_string(value, None)


@given(texts.filter(bool), texts, st.sampled_from(["", "variant"]))
@seldom
def test_identifiers_fall_where_the_client_puts_them(id: str, key: str, salt: str) -> None:
    at = client._hash(key, id, salt)
    assert place(f"{key}.".encode(), id.encode(), salt.encode()) == at
    assert place(b"holdout-", id.encode()) == client._holdout_hash(id)


# Whole flags. Properties are few and their values simple, so that many conditions hold.
KEYS = ["country", "age", "plan"]
simple = st.sampled_from(["DE", "de", "FR", "pro", "free", "10", "30", True, 10, 30, 9.5, None])
asked = st.one_of(
    st.tuples(EQUALITY, st.lists(simple.filter(bool), min_size=1, max_size=3) | st.just("DE")),
    st.tuples(TEXT, st.sampled_from(["D", "r", "1", "E", "ro"])),
    st.tuples(ORDER, st.sampled_from([10, "10", 20.5])),
    st.tuples(st.sampled_from(["regex", "not_regex"]), st.sampled_from(["^D", "[a-z]", "("])),
    st.tuples(st.sampled_from(["is_set", "is_not_set"]), st.none()),
)
# A truth is written otherwise by the client when a pattern asks for it.
filters = st.builds(
    lambda key, question: prop(key, question[1], question[0]), st.sampled_from(KEYS), asked
)
leaves = st.builds(lambda leaf, negation: leaf | {"negation": negation}, filters, st.booleans())
percentages = st.sampled_from([None, 0, 1, 33.3, 50, 75.5, 100]) | st.floats(0, 100)
ids = st.integers(0, 10_000).map("user-{}".format)
people = st.fixed_dictionaries(dict.fromkeys(KEYS, simple.filter(lambda value: value is not True)))


def cohort_trees(*inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Groups in groups. None is {}: for the client that is everybody, for the server nobody."""
    return st.recursive(
        st.one_of(leaves, *inner),
        lambda nodes: st.fixed_dictionaries(
            {"type": st.sampled_from(["AND", "OR"]), "values": st.lists(nodes, max_size=3)}
        ),
        max_leaves=6,
    ).filter(lambda tree: "values" in tree)


in_either = st.sampled_from(["in", "not_in", "exact", None])
cohort_filters = st.builds(in_cohort, st.sampled_from([1, 2]), in_either)
cohort_definitions = st.tuples(
    cohort_trees(),
    cohort_trees(
        st.builds(
            lambda operator, negation: in_cohort(1, operator) | {"negation": negation},
            in_either,
            st.booleans(),
        )
    ),
)
conditions = st.fixed_dictionaries(
    {"properties": st.lists(filters | cohort_filters, max_size=2)},
    optional={
        "rollout_percentage": percentages,
        "variant": st.sampled_from(["a", "b", "gone", None]),
    },
)
definitions = st.fixed_dictionaries(
    {"groups": st.lists(conditions, max_size=3)},
    optional={
        "multivariate": st.none()
        | st.builds(variants, a=st.floats(0, 60), b=st.floats(0, 60), c=st.integers(0, 20)),
        "early_exit": st.booleans(),
        "holdout": st.fixed_dictionaries(
            {"id": st.integers(1, 9), "exclusion_percentage": st.floats(-10, 110)}
        ),
    },
)


def answers(
    flag: Mapping[str, Any], id: str, properties: Mapping[str, Any], **context: Any
) -> Iterator[Any]:
    """The client's answer, if it has one. A flag that it calls inconclusive is the server's."""
    bucketing = context.pop("bucketing_value", id)
    try:
        yield client.match_feature_flag_properties(
            flag, id, properties, bucketing_value=bucketing, **context
        )
    except Undecided:
        return


def is_clear(flag: Mapping[str, Any], id: str, properties: Any, cohorts: Any) -> bool:
    """Whether no condition is inconclusive: the client goes on to the next one and may give its
    variant, where the server knows."""
    try:
        for condition in flag["filters"]["groups"]:
            client.is_condition_match(flag, id, condition, properties, cohorts, bucketing_value=id)
    except Undecided:
        return False
    return True


@given(
    st.lists(definitions, min_size=1, max_size=4),
    cohort_definitions,
    st.lists(st.tuples(ids, people), min_size=1, max_size=5),
)
@seldom
def test_flags_give_what_the_client_gives(filters: Any, trees: Any, persons: Any) -> None:
    flags = [a_flag(each, id) for id, each in enumerate(filters, start=1)]
    stored = [a_cohort(id, tree) for id, tree in enumerate(trees, start=1)]
    snapshot = a_snapshot(*flags, cohorts=stored)
    cohorts = {str(cohort.id): cohort.definition for cohort in stored}
    for id, properties in persons:
        found = outcomes(snapshot, known(properties, id=id))
        for flag in flags:
            theirs = {"key": flag.key, "filters": flag.filters}
            if is_clear(theirs, id, properties, cohorts):
                for value in answers(theirs, id, properties, cohort_properties=cohorts):
                    assert found[flag.id].value == value


@given(
    st.lists(
        st.fixed_dictionaries(
            {"properties": st.lists(filters, max_size=3), "rollout_percentage": percentages}
        ),
        max_size=4,
    ),
    st.lists(st.tuples(ids, st.dictionaries(st.sampled_from(KEYS), simple)), max_size=8),
)
@seldom
def test_what_the_client_decides_without_some_properties_is_so(groups: Any, persons: Any) -> None:
    """A property that is not given is unknown to the client and missing to us. Without an early
    exit, before which the client passes over what is unknown."""
    filters = {"groups": groups}
    snapshot = a_snapshot(a_flag(filters))
    for id, properties in persons:
        for value in answers({"key": "flag-1", "filters": filters}, id, properties):
            [outcome] = snapshot.evaluate(snapshot.everything, known(properties, id=id))
            assert outcome.value == value


person_conditions = st.builds(
    lambda condition: condition | {"aggregation_group_type_index": None},
    st.fixed_dictionaries(
        {"properties": st.lists(filters, max_size=2), "rollout_percentage": percentages}
    ),
)
group_conditions = st.builds(
    lambda index, value, operator, percentage: {
        "aggregation_group_type_index": index,
        "properties": [group_prop(index, "plan", value, operator)],
        "rollout_percentage": percentage,
    },
    st.integers(0, 1),
    st.sampled_from(["pro", ["free", "pro"]]),
    EQUALITY,
    percentages,
)


@given(
    st.lists(person_conditions | group_conditions, min_size=1, max_size=4),
    st.none() | st.just(variants(a=30, b=30)),
    st.lists(st.tuples(ids, people, st.frozensets(st.integers(0, 1))), max_size=5),
)
@seldom
def test_conditions_on_groups_give_what_the_client_gives(
    groups: Any, multivariate: Any, persons: Any
) -> None:
    filters = {"groups": groups, "multivariate": multivariate}
    snapshot = a_snapshot(a_flag(filters))
    names = {0: "company", 1: "project"}
    for id, properties, indexes in persons:
        keys = {index: f"{id}-{index}" for index in indexes}
        plans = {index: {"plan": properties["plan"]} for index in indexes}
        theirs = answers(
            {"key": "flag-1", "filters": filters},
            id,
            properties,
            group_type_mapping={str(index): name for index, name in names.items()},
            groups={names[index]: key for index, key in keys.items()},
            group_properties={names[index]: plan for index, plan in plans.items()},
        )
        subject = known(properties, id=id, groups=keys, group_properties=plans)
        for value in theirs:
            [outcome] = snapshot.evaluate(snapshot.everything, subject)
            assert outcome.value == value


@given(
    st.lists(st.fixed_dictionaries({"rollout_percentage": percentages}), max_size=2),
    st.sampled_from([True, False, "a", "b", "A"]),
    st.sampled_from([True, False]),
    percentages,
    st.lists(ids, min_size=1, max_size=10),
)
@seldom
def test_dependencies_give_what_the_client_gives(
    groups: Any, wanted: Any, wanted_of_second: bool, percentage: Any, ids: list[str]
) -> None:
    """Not with inactive flags: to the client they are false, to the server they are missing."""
    first = {"groups": groups, "multivariate": variants(a=40, b=40)}

    def asking(id: int, value: Any, chain: list[str] | None = None) -> dict[str, Any]:
        asked = depends_on(id, value)
        if chain is not None:
            asked |= {"key": f"flag-{id}", "dependency_chain": chain}
        return {"groups": [{"properties": [asked], "rollout_percentage": percentage}]}

    chain = ["flag-1", "flag-2"]
    theirs = {
        "flag-1": first,
        "flag-2": asking(1, wanted, chain[:1]),
        "flag-3": asking(2, wanted_of_second, chain),
    }
    by_key = {key: {"key": key, "active": True, "filters": each} for key, each in theirs.items()}
    snapshot = a_snapshot(
        a_flag(asking(2, wanted_of_second), 3), a_flag(asking(1, wanted), 2), a_flag(first, 1)
    )
    for id in ids:
        found = outcomes(snapshot, known(id=id))
        for outcome in found.values():
            [value] = answers(
                by_key[outcome.flag.key], id, {}, flags_by_key=by_key, evaluation_cache={}
            )
            assert outcome.value == value


def expected_by_the_clients_tests(name: str) -> list[Any]:
    """The list of a thousand results that the client's own consistency test holds."""
    path = Path(client.__file__).parent / "test" / "test_feature_flags.py"
    if not path.exists():
        pytest.skip("this build of the client comes without its tests")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            lists = [each for each in ast.walk(node) if isinstance(each, ast.List)]
            return list(ast.literal_eval(max(lists, key=lambda each: len(each.elts))))
    raise AssertionError(f"the client has no {name}")


@pytest.mark.parametrize(
    ("name", "key", "filters"),
    [
        (
            "test_simple_flag_consistency",
            "simple-flag",
            {"groups": [{"properties": [], "rollout_percentage": 45}]},
        ),
        (
            "test_multivariate_flag_consistency",
            "multivariate-flag",
            {
                "groups": [{"properties": [], "rollout_percentage": 55}],
                "multivariate": variants(
                    **{
                        "first-variant": 50,
                        "second-variant": 20,
                        "third-variant": 20,
                        "fourth-variant": 5,
                        "fifth-variant": 5,
                    }
                ),
            },
        ),
    ],
)
def test_a_thousand_people_get_what_they_get_in_every_client(
    name: str, key: str, filters: Any
) -> None:
    expected = expected_by_the_clients_tests(name)
    assert len(expected) == 1000
    found = [
        outcome_of(filters, known(id=f"distinct_id_{number}"), key=key).value
        for number in range(1000)
    ]
    assert found == expected
