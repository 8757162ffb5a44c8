"""The tests of a flag in a flag document: a subject, and the value that it must get. Pure.

    tests:
      - name: people of our company
        subject: {distinct_id: ann, person_properties: {email: ann@example.com}, cohorts: [Testers]}
        expected: true
        payload: {color: blue}

Applying a document checks the form of its tests and does not store them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.lib.dates import parse_iso_date
from hedgerow.projects.document import ErrorLocation, check_field_names, check_no_env_reference
from hedgerow.projects.validation import check_storable

MAX_TESTS = 1000
_FIELDS = ("name", "environment", "at", "subject", "expected", "payload")
_SUBJECT_FIELDS = (
    *("distinct_id", "device_id", "person_properties", "groups", "group_properties", "cohorts"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationSubject:
    """Who a flag is evaluated for. `cohorts` are the names of the cohorts that it is in, or their
    ids."""

    distinct_id: str
    device_id: str | None
    person_properties: Mapping[str, Any]
    groups: Mapping[str, str]
    group_properties: Mapping[str, Mapping[str, Any]]
    cohorts: frozenset[str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagExpectation:
    """`payload` is MISSING if the test does not check it. `environment` is "" for the values that
    the environments share; `at` is None for the time of the run."""

    place: str
    name: str
    environment: str
    at: datetime | None
    subject: ExpectationSubject
    expected: bool | str
    payload: Any


def parse_tests(value: Any, place: str) -> tuple[FlagExpectation, ...]:
    """Parse the tests of a flag. Invalid names the path of an error below `place`."""
    place = f"{place}: tests"
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_TESTS:
        raise Invalid(f"Expected a list of at most {MAX_TESTS} tests.", attr=place)
    check_storable(value, place)
    check_no_env_reference(value, place, "`!env` cannot be used in flags.")
    return tuple(_parse_test(each, f"{place}[{number}]") for number, each in enumerate(value))


def _parse_test(value: Any, place: str) -> FlagExpectation:
    if not isinstance(value, dict):
        raise Invalid("Expected an object with `subject` and `expected`.", attr=place)
    check_field_names(value, _FIELDS, place)
    with ErrorLocation(place):
        expected = value.get("expected", MISSING)
        if not isinstance(expected, bool | str):
            raise Invalid("Expected true, false or the key of a variant.", attr="expected")
        subject = value.get("subject")
        if not isinstance(subject, dict):
            raise Invalid("Expected an object with a `distinct_id`.", attr="subject")
        return FlagExpectation(
            place=place,
            name=_parse_text(value.get("name", ""), "name"),
            environment=_parse_text(value.get("environment", ""), "environment"),
            at=_parse_time(value.get("at")),
            subject=_parse_subject(subject),
            expected=expected,
            payload=value.get("payload", MISSING),
        )


def _parse_subject(value: Mapping[str, Any]) -> ExpectationSubject:
    check_field_names(value, _SUBJECT_FIELDS, "subject")
    device = value.get("device_id")
    groups = _parse_object(value.get("groups"), "subject.groups")
    properties = _parse_object(value.get("group_properties"), "subject.group_properties")
    for name in properties:
        if name not in groups:
            detail = f"Name the group in `groups`: {{{name}: a-key}}."
            raise Invalid(detail, attr="subject.group_properties")
    distinct_id = _parse_text(value.get("distinct_id"), "subject.distinct_id")
    if not distinct_id:
        raise Invalid("This field may not be blank.", attr="subject.distinct_id")
    return ExpectationSubject(
        distinct_id=distinct_id,
        device_id=None if device is None else _parse_text(device, "subject.device_id"),
        person_properties=_parse_object(
            value.get("person_properties"), "subject.person_properties"
        ),
        groups={name: _parse_text(key, f"subject.groups.{name}") for name, key in groups.items()},
        group_properties={
            name: _parse_object(each, f"subject.group_properties.{name}")
            for name, each in properties.items()
        },
        cohorts=_parse_cohorts(value.get("cohorts")),
    )


def _parse_cohorts(value: Any) -> frozenset[str | int]:
    value = [] if value is None else value
    is_list = isinstance(value, list)
    if not is_list or any(isinstance(x, bool) or not isinstance(x, str | int) for x in value):
        raise Invalid("Expected a list of names of cohorts.", attr="subject.cohorts")
    return frozenset(value)


def _parse_object(value: Any, attr: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid("Expected an object.", attr=attr)
    return value


def _parse_text(value: Any, attr: str) -> str:
    if not isinstance(value, str):
        raise Invalid("Expected a string: put the value in quotes.", attr=attr)
    return value


def _parse_time(value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        return parse_iso_date(_parse_text(value, "at"), UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        detail = "Expected a time such as 2026-01-31T12:00:00Z."
        raise Invalid(detail, attr="at", code="invalid_date") from None
