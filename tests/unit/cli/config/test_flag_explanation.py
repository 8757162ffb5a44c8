"""The lines of `hedgerow flags evaluate` for filters inside cohorts."""

from tests.unit.fake_time import START
from tests.unit.flags.factories import (
    build_filters,
    in_cohort,
    make_cohort,
    make_flag,
    make_snapshot,
    prop,
)

from hedgerow.cli.config.flag_explanation import describe_explanation
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.explain import explain_flags
from hedgerow.flags.evaluation.explanation import to_json
from hedgerow.flags.store import StoredData

STORED = StoredData(
    person_id=None,
    properties={"age": 41, "country": "FR"},
    cohorts=frozenset({7}),
    hash_keys={},
    groups={},
)
COHORTS = [
    make_cohort(7, name="Testers"),
    make_cohort(8, {"type": "AND", "values": [prop("age", 40, "gt")]}, name="Old"),
    make_cohort(
        9,
        {
            "type": "OR",
            "values": [
                {"type": "AND", "values": [in_cohort(8), prop("country", "DE")]},
                {"type": "AND", "values": [prop("plan", "pro", negation=True), in_cohort(7)]},
            ],
        },
        name="Guests",
    ),
    make_cohort(10, {"type": "AND", "values": []}, name="All"),
]


def test_filters_of_a_cohort_are_indented_below_it() -> None:
    filters = build_filters(
        {"properties": [in_cohort(9), in_cohort(8, "not_in"), in_cohort(10)]},
    )
    request = EvaluationRequest(distinct_id="kim")
    [explanation] = explain_flags(
        make_snapshot(make_flag(filters), cohorts=COHORTS), request, STORED, START
    )
    lines = list(describe_explanation(to_json(explanation), "kim"))
    start = lines.index("condition 1: does not match") + 1
    assert lines[start:-1] == [
        '  yes  cohort "Guests" in: is in it',
        "       yes  any of these",
        "            no   all of these",
        '                 yes  cohort "Old" in: is in it',
        "                      yes  person age gt 40: 41 (stored)",
        '                 no   person country exact "DE": "FR" (stored)',
        "            yes  all of these",
        '                 yes  not person plan exact "pro": missing',
        '                 yes  cohort "Testers" in: is in it',
        '  no   cohort "Old" not_in: is in it, as shown above',
        '  yes  cohort "All" in: is in it',
        "       yes  no filters",
    ]
