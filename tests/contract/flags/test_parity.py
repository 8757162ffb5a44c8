"""Flag evaluation agrees with local evaluation in PostHog's Python client.

The client is meant to agree with PostHog's server. The generated values leave out the cases in
which it is known to differ; a comment says why.
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

from hedgerow.filters.operators import build_predicate, parse_operator
from hedgerow.filters.values import as_text
from hedgerow.flags.evaluation.bucket import bucket_position
from tests.unit.flags.factories import (
    depends_on,
    evaluate_all,
    evaluate_flag,
    group_prop,
    in_cohort,
    loaded_context,
    make_cohort,
    make_flag,
    make_snapshot,
    prop,
    variants,
)
from tests.unit.generated import PATIENT

client: Any = feature_flags
Undecided = (client.InconclusiveMatchError, client.RequiresServerEvaluation)
many_examples = settings(PATIENT, max_examples=1500)
few_examples = settings(PATIENT, max_examples=300)

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
any_value = scalars | lists | objects
some_value = any_value.filter(lambda value: value is not None)

# The client matches Python's text of a value (True, 1.0, ['a']), the server its JSON.
for_patterns = texts | st.integers(-20, 20) | st.none()
PATTERNS = ["", "^$", "^D", "e$", "[A-Z]{2}", "a|b", "é", ".", "^.{2}$", "[^a-z]", "a{2,3}"]
CLASSES = [r"\.", r"^\d+$", r"^\w+$", r"\s", "^-?[0-9]+$", "(?:D|d)[Ee]"]
patterns = st.sampled_from([*PATTERNS, *CLASSES, "(", "[", "null"])

# Dates that the client parses too. It reads four digits as a year and eight as a date; the server
# reads them as seconds since 1970.
DATES = [
    "2019-03-01",
    "2024-02-29T12:00:00Z",
    "2024-02-29T14:00:00+02:00",
    "2031-01-01T00:00",
    "soon",
]
dates = st.sampled_from([*DATES, "2024-02-29 12:00:00", "2024-02-29T12:00:00.000001Z", ""])
limits = st.sampled_from([*DATES, "-7d", "30d", "24h", "2w", "11m", "-1y", "10000d", "7x"])

# Without pre-releases and builds, which the client drops; with at most three numbers, because it
# ignores further ones; with at most one v, because it strips any number of them.
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
# Only a star at the end: the client interprets others differently.
wildcards = st.sampled_from(["1.*", "1.2.*", "0.*", "v1.*", "x.*", "2.0.*"])

EQUALITY = st.sampled_from(["exact", "is_not"])
TEXT = st.sampled_from(
    ["icontains", "not_icontains", "starts_with", "not_starts_with", "ends_with", "not_ends_with"]
)
ORDER = st.sampled_from(["gt", "gte", "lt", "lte"])
VERSION = st.sampled_from(
    [f"semver_{name}" for name in ["eq", "neq", "gt", "gte", "lt", "lte", "tilde", "caret"]]
)

# An operator, its operand, and a value.
operations = st.one_of(
    st.tuples(EQUALITY, some_value, any_value),
    st.tuples(TEXT, some_value, any_value),
    st.tuples(ORDER, some_value, any_value),
    st.tuples(st.sampled_from(["regex", "not_regex"]), patterns, for_patterns),
    st.tuples(st.sampled_from(["is_date_before", "is_date_after"]), limits, dates),
    st.tuples(VERSION, versions.filter(lambda value: value is not None), versions),
    st.tuples(st.just("semver_wildcard"), wildcards, versions),
    st.tuples(st.sampled_from(["is_set", "is_not_set"]), any_value, any_value),
)
# Cases that random values rarely contain.
EDGE_CASES: list[tuple[str, Any, Any]] = [
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

# Known differences from the client. docs/compatibility.md has a row for each kind.
KNOWN_DIFFERENCES: list[tuple[str, Any, Any, bool]] = [
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


def evaluate_operator(name: str, operand: Any, value: Any) -> bool:
    operator = parse_operator(name)
    assert operator is not None
    return bool(build_predicate(operator, operand)(value, datetime.now(UTC)))


def check(name: str, operand: Any, value: Any) -> None:
    try:
        expected = client.match_property(prop("key", operand, name), {"key": value})
    except Undecided:
        return
    assert evaluate_operator(name, operand, value) is expected


@given(operations)
@many_examples
def test_every_operator_agrees_with_the_client(operation: tuple[str, Any, Any]) -> None:
    check(*operation)


@pytest.mark.parametrize(("name", "operand", "value"), EDGE_CASES)
def test_edge_cases_agree_with_the_client(name: str, operand: Any, value: Any) -> None:
    check(name, operand, value)


@pytest.mark.parametrize(("name", "operand", "value", "answer"), KNOWN_DIFFERENCES)
def test_known_differences_from_the_client(
    name: str, operand: Any, value: Any, answer: bool
) -> None:
    assert evaluate_operator(name, operand, value) is answer
    assert client.match_property(prop("key", operand, name), {"key": value}) is not answer


@given(any_value)
@many_examples
def test_value_text_agrees_with_the_client(value: Any) -> None:
    assert as_text(value) == client._value_to_string(value, None)


@given(texts.filter(bool), texts, st.sampled_from(["", "variant"]))
@few_examples
def test_bucketing_agrees_with_the_client(id: str, key: str, salt: str) -> None:
    at = client._hash(key, id, salt)
    assert bucket_position(f"{key}.".encode(), id.encode(), salt.encode()) == at
    assert bucket_position(b"holdout-", id.encode()) == client._holdout_hash(id)


# Whole flags. Few properties with simple values, so that many conditions match.
KEYS = ["country", "age", "plan"]
simple = st.sampled_from(["DE", "de", "FR", "pro", "free", "10", "30", True, 10, 30, 9.5, None])
operators_with_operands = st.one_of(
    st.tuples(EQUALITY, st.lists(simple.filter(bool), min_size=1, max_size=3) | st.just("DE")),
    st.tuples(TEXT, st.sampled_from(["D", "r", "1", "E", "ro"])),
    st.tuples(ORDER, st.sampled_from([10, "10", 20.5])),
    st.tuples(st.sampled_from(["regex", "not_regex"]), st.sampled_from(["^D", "[a-z]", "("])),
    st.tuples(st.sampled_from(["is_set", "is_not_set"]), st.none()),
)
# The client converts booleans to other text for regular expressions.
filters = st.builds(
    lambda key, operation: prop(key, operation[1], operation[0]),
    st.sampled_from(KEYS),
    operators_with_operands,
)
leaves = st.builds(lambda leaf, negation: leaf | {"negation": negation}, filters, st.booleans())
percentages = st.sampled_from([None, 0, 1, 33.3, 50, 75.5, 100]) | st.floats(0, 100)
ids = st.integers(0, 10_000).map("user-{}".format)
people = st.fixed_dictionaries(dict.fromkeys(KEYS, simple.filter(lambda value: value is not True)))


def cohort_trees(*inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nested groups. None is {}: the client matches everyone, the server no one."""
    return st.recursive(
        st.one_of(leaves, *inner),
        lambda nodes: st.fixed_dictionaries(
            {"type": st.sampled_from(["AND", "OR"]), "values": st.lists(nodes, max_size=3)}
        ),
        max_leaves=6,
    ).filter(lambda tree: "values" in tree)


any_properties = st.sampled_from(["in", "not_in", "exact", None])
cohort_filters = st.builds(in_cohort, st.sampled_from([1, 2]), any_properties)
cohort_definitions = st.tuples(
    cohort_trees(),
    cohort_trees(
        st.builds(
            lambda operator, negation: in_cohort(1, operator) | {"negation": negation},
            any_properties,
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


def client_values(
    flag: Mapping[str, Any], id: str, properties: Mapping[str, Any], **context: Any
) -> Iterator[Any]:
    """Yield the value of the client, or nothing if the flag needs the server."""
    bucketing = context.pop("bucketing_value", id)
    try:
        yield client.match_feature_flag_properties(
            flag, id, properties, bucketing_value=bucketing, **context
        )
    except Undecided:
        return


def is_clear(flag: Mapping[str, Any], id: str, properties: Any, cohorts: Any) -> bool:
    """Whether no condition is inconclusive. The client skips such a condition and may return a
    later variant; the server can decide it."""
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
@few_examples
def test_flags_agree_with_the_client(filters: Any, trees: Any, persons: Any) -> None:
    flags = [make_flag(each, id) for id, each in enumerate(filters, start=1)]
    stored = [make_cohort(id, tree) for id, tree in enumerate(trees, start=1)]
    snapshot = make_snapshot(*flags, cohorts=stored)
    cohorts = {str(cohort.id): cohort.definition for cohort in stored}
    for id, properties in persons:
        found = evaluate_all(snapshot, loaded_context(properties, id=id))
        for flag in flags:
            theirs = {"key": flag.key, "filters": flag.filters}
            if is_clear(theirs, id, properties, cohorts):
                for value in client_values(theirs, id, properties, cohort_properties=cohorts):
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
@few_examples
def test_flags_with_missing_properties_agree_with_the_client(groups: Any, persons: Any) -> None:
    """An absent property is unknown to the client and missing on the server. Without early exit,
    because the client skips unknown conditions before it."""
    filters = {"groups": groups}
    snapshot = make_snapshot(make_flag(filters))
    for id, properties in persons:
        for value in client_values({"key": "flag-1", "filters": filters}, id, properties):
            [outcome] = snapshot.evaluate(snapshot.all_flags, loaded_context(properties, id=id))
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
@few_examples
def test_group_conditions_agree_with_the_client(
    groups: Any, multivariate: Any, persons: Any
) -> None:
    filters = {"groups": groups, "multivariate": multivariate}
    snapshot = make_snapshot(make_flag(filters))
    names = {0: "company", 1: "project"}
    for id, properties, indexes in persons:
        keys = {index: f"{id}-{index}" for index in indexes}
        plans = {index: {"plan": properties["plan"]} for index in indexes}
        theirs = client_values(
            {"key": "flag-1", "filters": filters},
            id,
            properties,
            group_type_mapping={str(index): name for index, name in names.items()},
            groups={names[index]: key for index, key in keys.items()},
            group_properties={names[index]: plan for index, plan in plans.items()},
        )
        context = loaded_context(properties, id=id, groups=keys, group_properties=plans)
        for value in theirs:
            [outcome] = snapshot.evaluate(snapshot.all_flags, context)
            assert outcome.value == value


@given(
    st.lists(st.fixed_dictionaries({"rollout_percentage": percentages}), max_size=2),
    st.sampled_from([True, False, "a", "b", "A"]),
    st.sampled_from([True, False]),
    percentages,
    st.lists(ids, min_size=1, max_size=10),
)
@few_examples
def test_dependencies_agree_with_the_client(
    groups: Any, operand: Any, second_operand: bool, percentage: Any, ids: list[str]
) -> None:
    """Without inactive flags: the client evaluates them to false, the server leaves them out."""
    first = {"groups": groups, "multivariate": variants(a=40, b=40)}

    def depending_on(id: int, value: Any, chain: list[str] | None = None) -> dict[str, Any]:
        condition = depends_on(id, value)
        if chain is not None:
            condition |= {"key": f"flag-{id}", "dependency_chain": chain}
        return {"groups": [{"properties": [condition], "rollout_percentage": percentage}]}

    chain = ["flag-1", "flag-2"]
    theirs = {
        "flag-1": first,
        "flag-2": depending_on(1, operand, chain[:1]),
        "flag-3": depending_on(2, second_operand, chain),
    }
    by_key = {key: {"key": key, "active": True, "filters": each} for key, each in theirs.items()}
    snapshot = make_snapshot(
        make_flag(depending_on(2, second_operand), 3),
        make_flag(depending_on(1, operand), 2),
        make_flag(first, 1),
    )
    for id in ids:
        found = evaluate_all(snapshot, loaded_context(id=id))
        for outcome in found.values():
            [value] = client_values(
                by_key[outcome.flag.key], id, {}, flags_by_key=by_key, evaluation_cache={}
            )
            assert outcome.value == value


def read_client_expectations(name: str) -> list[Any]:
    """Read the thousand expected results from the consistency test of the client."""
    path = Path(client.__file__).parent / "test" / "test_feature_flags.py"
    if not path.exists():
        pytest.skip("this build of the client has no tests")
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
def test_a_thousand_ids_get_the_same_value_as_in_every_client(
    name: str, key: str, filters: Any
) -> None:
    expected = read_client_expectations(name)
    assert len(expected) == 1000
    found = [
        evaluate_flag(filters, loaded_context(id=f"distinct_id_{number}"), key=key).value
        for number in range(1000)
    ]
    assert found == expected
