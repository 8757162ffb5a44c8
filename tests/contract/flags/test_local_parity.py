"""What PostHog's own client makes of the definitions that we tell it, beside what we say."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.flags.local import Audience
from tests.contract.flags.test_parity import (
    Undecided,
    client,
    cohort_definitions,
    definitions,
    ids,
    is_clear,
    people,
    seldom,
)
from tests.unit.flags.test_local import told
from tests.unit.flags.world import a_cohort, a_flag, a_snapshot, known, outcomes


@given(
    st.lists(definitions, min_size=1, max_size=4),
    cohort_definitions,
    st.lists(st.tuples(ids, people), min_size=1, max_size=5),
    st.sampled_from(Audience),
)
@seldom
def test_what_an_sdk_makes_of_it_is_what_we_say(
    filters: Any, trees: Any, persons: Any, audience: Audience
) -> None:
    flags = [a_flag(each, id) for id, each in enumerate(filters, start=1)]
    cohorts = tuple(a_cohort(id, tree) for id, tree in enumerate(trees, start=1))
    snapshot = a_snapshot(*flags, cohorts=cohorts)
    answer = told(*flags, cohorts=cohorts, audience=audience)
    for id, properties in persons:
        found = outcomes(snapshot, known(properties, id=id))
        for flag in answer["flags"]:
            if flag["ensure_experience_continuity"] or not is_clear(
                flag, id, properties, answer["cohorts"]
            ):
                continue
            try:
                value = client.match_feature_flag_properties(
                    flag, id, properties, cohort_properties=answer["cohorts"], bucketing_value=id
                )
            except Undecided:
                continue
            assert found[flag["id"]].value == value
