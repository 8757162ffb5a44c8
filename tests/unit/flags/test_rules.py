"""What is wrong is said in few words, however much was sent."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.rules import Surroundings, checked_filters
from tests.unit.flags.world import depends_on, in_cohort, of_groups, prop, variants

LONG = "x" * 100_000
NOBODY_AROUND = Surroundings(cohorts={}, flags={}, own_id=None)


def asking(filter: dict[str, Any]) -> dict[str, Any]:
    return of_groups({"properties": [filter]})


@pytest.mark.parametrize(
    "filters",
    [
        of_groups({"variant": LONG}, multivariate=variants(a=100)),
        of_groups({"variant": [LONG, {LONG: LONG}]}, multivariate=variants(a=100)),
        asking(prop("plan", "pro", type=LONG)),
        asking(prop("plan", "pro", LONG)),
        asking(prop("plan", "(" + LONG[:1990], "regex")),
        asking(prop("plan", f"(?P<{LONG[:1990]}", "regex")),
        asking(in_cohort(LONG)),
        asking(in_cohort([LONG])),
        asking(depends_on(LONG)),
        of_groups({}, payloads={LONG: "1"}),
        of_groups({}, payloads={"b": "1"}, multivariate=variants(**{LONG: 100})),
        of_groups({}, payloads={LONG: "{"}, multivariate=variants(**{LONG: 100})),
        of_groups({}, multivariate=variants(**{f"v{n}": 1 for n in range(1000)})),
    ],
    ids=lambda filters: str(filters)[:60],
)
def test_a_message_repeats_little_of_what_was_sent(filters: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        checked_filters(filters, NOBODY_AROUND, is_new=True)
    assert len(refused.value.detail) < 200
    assert len(refused.value.attr or "") < 200
