"""No malformed document makes a conversion fail with anything but Invalid."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.importers import flagsmith, unleash
from hedgerow.importers.posthog import PostHogDefinitions, convert_posthog
from tests.unit.importers import test_flagsmith, test_posthog, test_unleash

INVALID_VALUES: list[Any] = [None, -7, "x\ud800", [7], [[]], {"a": {}}]


def corrupt_copies(value: Any) -> Iterator[Any]:
    """Yield copies of the document, each with an invalid value at one path."""
    yield from INVALID_VALUES
    if not isinstance(value, dict | list):
        return
    for place, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        for other in corrupt_copies(inner):
            copy: Any = value.copy()
            copy[place] = other
            yield copy


UNLEASH = test_unleash.export(
    test_unleash.strategy(
        "a",
        constraints=[test_unleash.constraint("NUM_GT", "x", value="5", inverted=True)],
        segments=[1],
        variants=[{"name": "v", "weight": 3, "payload": {"type": "json", "value": "1"}}],
    ),
    test_unleash.strategy("b", "userWithId", parameters={"userIds": "x"}),
    segments=[{"id": 1, "constraints": [test_unleash.constraint("IN", "y", "z")]}],
    dependencies=[{"feature": "b", "dependencies": [{"feature": "a", "variants": ["v"]}]}],
)
FLAGSMITH = test_flagsmith.environment(
    test_flagsmith.state("f", multivariate_feature_state_values=[{"percentage_allocation": 5}]),
    segments=[
        test_flagsmith.segment(
            "s",
            test_flagsmith.state("f", feature_segment={"priority": 1}),
            test_flagsmith.rule("ANY", test_flagsmith.condition("EQUAL", "a", "b")),
        )
    ],
)
POSTHOG = {
    "group_types": [{"group_type": "company", "group_type_index": 0}],
    "cohorts": [
        test_posthog.cohort(1, "a", test_posthog.PRO),
        test_posthog.cohort(2, "b", test_posthog.in_cohort(1)),
    ],
    "flags": [
        test_posthog.flag(1, "a", test_posthog.groups(test_posthog.in_cohort(2))),
        test_posthog.colours(),
    ],
    "surveys": [
        {**test_posthog.SURVEY, "targeting_flag": {"filters": test_posthog.groups()}},
        {**test_posthog.SURVEY, "linked_flag": {"id": 1}},
    ],
    "experiments": [{**test_posthog.EXPERIMENT, "feature_flag_key": "colours"}],
    "features": [{"name": "F", "stage": "beta", "feature_flag": test_posthog.flag(1, "a")}],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unleash", "flagsmith", "posthog"])
def test_odd_values_in_a_document_raise_no_other_error(kind: str) -> None:
    documents = {"unleash": UNLEASH, "flagsmith": FLAGSMITH, "posthog": _without_people(POSTHOG)}
    number = 0
    for document in corrupt_copies(documents[kind]):
        number += 1
        with contextlib.suppress(Invalid):
            if kind == "unleash":
                unleash.convert_unleash(document, "production")
            elif kind == "flagsmith":
                flagsmith.convert_flagsmith(document)
            elif isinstance(document, dict):
                convert_posthog(
                    PostHogDefinitions(**{name: _items(document.get(name)) for name in POSTHOG})
                )
    assert number > 200


def _without_people(value: Any) -> Any:
    """Return the document without creators, which are not read."""
    if isinstance(value, list):
        return [_without_people(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_people(each) for name, each in value.items() if not name.endswith("_by")}


def _items(value: Any) -> list[Any]:
    """Return the objects of a list, as the pages of an API are read."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
