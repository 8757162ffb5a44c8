"""Tests beside flags: their form, and their results with the engine that evaluates flags."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.as_code.document import parse_document
from hedgerow.flags.as_code.flag_tests import ABSENT, FlagTestResult, run_tests
from tests.unit.fake_time import START

EMAIL = {"key": "email", "operator": "icontains", "value": "@example.com", "type": "person"}
SUBJECT = {"distinct_id": "ann"}
OURS = {"distinct_id": "ann", "person_properties": {"email": "ann@example.com"}}


def build_document(filters: Any, *tests: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": 1, "flags": [{"key": "beta", "filters": filters, "tests": tests, **fields}]}


def run(document: Any) -> list[FlagTestResult]:
    document["flags"] = [{**flag, "tests": list(flag["tests"])} for flag in document["flags"]]
    return run_tests(document, START)


def run_one(filters: Any, test: dict[str, Any], **fields: Any) -> FlagTestResult:
    [result] = run(build_document(filters, test, **fields))
    return result


@pytest.mark.parametrize(
    ("test", "value", "has_passed"),
    [
        ({"subject": OURS, "expected": True}, True, True),
        ({"subject": OURS, "expected": False}, True, False),
        ({"subject": SUBJECT, "expected": False}, False, True),
        ({"subject": SUBJECT, "expected": "true"}, False, False),
        ({"subject": OURS, "expected": True, "payload": {"color": "blue"}}, True, True),
        ({"subject": OURS, "expected": True, "payload": {"color": "red"}}, True, False),
        ({"subject": OURS, "expected": True, "payload": None}, True, False),
        ({"subject": SUBJECT, "expected": False, "payload": None}, False, True),
    ],
)
def test_value_and_payload_are_compared(
    test: dict[str, Any], value: bool, has_passed: bool
) -> None:
    filters = {"groups": [{"properties": [EMAIL]}], "payloads": {"true": '{"color": "blue"}'}}
    result = run_one(filters, test)
    assert (result.value, result.has_passed) == (value, has_passed)


def test_variants_are_those_of_the_engine() -> None:
    filters = {
        "groups": [{}],
        "multivariate": {
            "variants": [
                {"key": "control", "rollout_percentage": 50},
                {"key": "test", "rollout_percentage": 50},
            ]
        },
    }
    tests = [{"subject": {"distinct_id": f"u{n}"}, "expected": "test"} for n in range(100)]
    results = run(build_document(filters, *tests))
    assert {each.value for each in results} == {"control", "test"}
    assert all(each.has_passed is (each.value == "test") for each in results)
    again = run(build_document(filters, *tests))
    assert [each.value for each in again] == [each.value for each in results]


def test_cohorts_groups_and_dependencies_need_no_project() -> None:
    filters = {
        "groups": [
            {"properties": [{"key": "id", "type": "cohort", "value": "Testers"}]},
            {"properties": [{"key": "id", "type": "cohort", "value": 7}]},
            {
                "aggregation_group_type_index": "company",
                "properties": [
                    {"key": "plan", "type": "group", "group_type_index": "company", "value": "team"}
                ],
            },
        ]
    }
    company = {"groups": {"company": "acme"}, "group_properties": {"company": {"plan": "team"}}}
    tests = [
        {"subject": {"distinct_id": "a", "cohorts": ["Testers"]}, "expected": True},
        {"subject": {"distinct_id": "a", "cohorts": [7]}, "expected": True},
        {"subject": {"distinct_id": "a", **company}, "expected": True},
        {"subject": {"distinct_id": "a", "groups": {"company": "acme"}}, "expected": False},
    ]
    document = build_document(filters, *tests)
    child = {"groups": [{"properties": [{"key": "beta", "type": "flag", "value": True}]}]}
    child["groups"][0]["properties"][0]["operator"] = "flag_evaluates_to"
    document["flags"].append({"key": "child", "filters": child, "tests": tests})
    assert [each.has_passed for each in run(document)] == [True] * 8


def test_environments_have_their_own_values() -> None:
    overrides = {"production": {"active": False}, "staging": {"absent": True}}
    tests = [
        {"subject": SUBJECT, "expected": True},
        {"subject": SUBJECT, "expected": False, "environment": "production"},
        {"subject": SUBJECT, "expected": True, "environment": "staging"},
    ]
    results = run(build_document({"groups": [{}]}, *tests, environments=overrides))
    assert [each.has_passed for each in results] == [True, True, False]
    assert results[2].reason == ABSENT


def test_relative_dates_count_from_the_time_of_the_test() -> None:
    recent = {"key": "joined", "type": "person", "operator": "is_date_after", "value": "-7d"}
    subject = {"distinct_id": "a", "person_properties": {"joined": "2020-01-05"}}
    filters = {"groups": [{"properties": [recent]}]}
    at = {"at": "2020-01-06T00:00:00Z"}
    assert run_one(filters, {"subject": subject, "expected": True, **at}).has_passed
    assert run_one(filters, {"subject": subject, "expected": False}).has_passed
    assert datetime(2020, 2, 1, tzinfo=UTC) < START


@pytest.mark.parametrize(
    ("test", "detail", "attr"),
    [
        ({"subject": SUBJECT}, "true, false or the key of a variant", "[0]: expected"),
        ({"subject": {}, "expected": True}, "Expected a string", "subject.distinct_id"),
        ({"expected": True}, "with a `distinct_id`", "[0]: subject"),
        ({"subject": SUBJECT, "expected": True, "expect": 1}, "`expect`", "tests[0]"),
        (
            {"subject": {**SUBJECT, "properties": {}}, "expected": True},
            "`properties`",
            "[0]: subject",
        ),
        ({"subject": SUBJECT, "expected": True, "at": "soon"}, "Expected a time", "[0]: at"),
        (
            {"subject": {**SUBJECT, "group_properties": {"company": {}}}, "expected": True},
            "Name the group",
            "subject.group_properties",
        ),
        ({"subject": {**SUBJECT, "cohorts": ["X"]}, "expected": True}, "No flag", "subject"),
        ({"subject": {**SUBJECT, "groups": {"x": "y"}}, "expected": True}, "No flag", "subject"),
        ({"subject": SUBJECT, "expected": True, "environment": "x"}, "mention", "environment"),
    ],
)
def test_error_names_its_place(test: dict[str, Any], detail: str, attr: str) -> None:
    with pytest.raises(Invalid) as caught:
        run_one({"groups": [{}]}, test)
    assert detail in caught.value.detail
    assert attr in str(caught.value.attr)


def test_document_with_tests_can_be_applied() -> None:
    tests = [{"subject": SUBJECT, "expected": True}]
    document = {"version": 1, "flags": [{"key": "beta", "filters": {}, "tests": tests}]}
    [spec] = parse_document(document)
    assert len(spec.tests) == 1
    document["flags"] = [{"key": "beta", "filters": {}, "tests": "none"}]
    with pytest.raises(Invalid, match="list of at most"):
        parse_document(document)
