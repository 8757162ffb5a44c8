"""Validation messages stay short, whatever the client sends."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.validate import ValidationContext, validate_filters
from tests.unit.flags.factories import build_filters, depends_on, in_cohort, prop, variants

LONG = "x" * 100_000
EMPTY_PROJECT = ValidationContext(cohorts={}, flags={}, own_id=None)


def condition_with(filter: dict[str, Any]) -> dict[str, Any]:
    return build_filters({"properties": [filter]})


@pytest.mark.parametrize(
    "filters",
    [
        build_filters({"variant": LONG}, multivariate=variants(a=100)),
        build_filters({"variant": [LONG, {LONG: LONG}]}, multivariate=variants(a=100)),
        condition_with(prop("plan", "pro", type=LONG)),
        condition_with(prop("plan", "pro", LONG)),
        condition_with(prop("plan", "(" + LONG[:1990], "regex")),
        condition_with(prop("plan", f"(?P<{LONG[:1990]}", "regex")),
        condition_with(in_cohort(LONG)),
        condition_with(in_cohort([LONG])),
        condition_with(depends_on(LONG)),
        build_filters({}, payloads={LONG: "1"}),
        build_filters({}, payloads={"b": "1"}, multivariate=variants(**{LONG: 100})),
        build_filters({}, payloads={LONG: "{"}, multivariate=variants(**{LONG: 100})),
        build_filters({}, multivariate=variants(**{f"v{n}": 1 for n in range(1000)})),
    ],
    ids=lambda filters: str(filters)[:60],
)
def test_error_message_truncates_sent_values(filters: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        validate_filters(filters, EMPTY_PROJECT, is_new=True)
    assert len(caught.value.detail) < 200
    assert len(caught.value.attr or "") < 200
