"""What `hedgerow flags evaluate` says about the inside of a cohort."""

from hedgerow.cli.explanations import explanation_lines
from hedgerow.flags.decide import Asked
from hedgerow.flags.explain import explained
from hedgerow.flags.store import StoredSubject
from tests.unit.fake_time import START
from tests.unit.flags.world import a_cohort, a_flag, a_snapshot, in_cohort, of_groups, prop

STORED = StoredSubject(
    person_id=None,
    properties={"age": 41, "country": "FR"},
    cohorts=frozenset({7}),
    hash_keys={},
    groups={},
)
COHORTS = [
    a_cohort(7, name="Testers"),
    a_cohort(8, {"type": "AND", "values": [prop("age", 40, "gt")]}, name="Old"),
    a_cohort(
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
    a_cohort(10, {"type": "AND", "values": []}, name="All"),
]


def test_the_inside_of_a_cohort_stands_below_it_one_step_in() -> None:
    filters = of_groups(
        {"properties": [in_cohort(9), in_cohort(8, "not_in"), in_cohort(10)]},
    )
    asked = Asked(distinct_id="kim")
    [told] = explained(a_snapshot(a_flag(filters), cohorts=COHORTS), asked, STORED, START)
    lines = list(explanation_lines(told, asked))
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
        '  no   cohort "Old" not_in: is in it, as told above',
        '  yes  cohort "All" in: is in it',
        "       yes  it asks for nothing",
    ]
