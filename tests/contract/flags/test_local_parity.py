"""PostHog's client evaluates our definitions to the same values as the server."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.flags.local_evaluation.definitions import SdkProfile
from tests.contract.flags.test_parity import (
    Undecided,
    client,
    cohort_definitions,
    definitions,
    few_examples,
    ids,
    is_clear,
    people,
)
from tests.unit.flags.factories import (
    evaluate_all,
    loaded_context,
    make_cohort,
    make_flag,
    make_snapshot,
)
from tests.unit.flags.local_evaluation.test_definitions import local_definitions


@given(
    st.lists(definitions, min_size=1, max_size=4),
    cohort_definitions,
    st.lists(st.tuples(ids, people), min_size=1, max_size=5),
    st.sampled_from(SdkProfile),
)
@few_examples
def test_local_evaluation_agrees_with_the_server(
    filters: Any, trees: Any, persons: Any, audience: SdkProfile
) -> None:
    flags = [make_flag(each, id) for id, each in enumerate(filters, start=1)]
    cohorts = tuple(make_cohort(id, tree) for id, tree in enumerate(trees, start=1))
    snapshot = make_snapshot(*flags, cohorts=cohorts)
    definitions_response = local_definitions(*flags, cohorts=cohorts, profile=audience)
    for id, properties in persons:
        found = evaluate_all(snapshot, loaded_context(properties, id=id))
        for flag in definitions_response["flags"]:
            if flag["ensure_experience_continuity"] or not is_clear(
                flag, id, properties, definitions_response["cohorts"]
            ):
                continue
            try:
                value = client.match_feature_flag_properties(
                    flag,
                    id,
                    properties,
                    cohort_properties=definitions_response["cohorts"],
                    bucketing_value=id,
                )
            except Undecided:
                continue
            assert found[flag["id"]].value == value
