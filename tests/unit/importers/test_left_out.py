"""What is told by name before it is missed, and what an earlier run or somebody else has made."""

from dataclasses import replace
from typing import Any

from hedgerow.importers.lacking import without_lacking
from hedgerow.importers.matching import Action, Numbers, There, decided, translated
from hedgerow.importers.model import Kind, Reading
from hedgerow.importers.posthog import Definitions, understood
from tests.unit.importers.test_posthog import EXPERIMENT, SURVEY, cohort, colours, flag, groups

LARGE = {"key": "size", "type": "group", "group_type_index": 1, "value": 9, "operator": "gt"}


def notes(source: Definitions) -> list[str]:
    return [each.text for each in understood(source).notes]


def test_flags_by_groups_that_cannot_be_here_are_told_and_what_needs_them() -> None:
    by_planet = groups(aggregation_group_type_index=1)
    needs = {"key": "2", "type": "flag", "value": True, "operator": "flag_evaluates_to"}
    reading = understood(
        Definitions(
            group_types=[
                {"group_type": "company", "group_type_index": 0},
                {"group_type": "planet", "group_type_index": 1},
            ],
            flags=[
                flag(1, "by-company", groups(aggregation_group_type_index=0)),
                flag(2, "by-planet", by_planet),
                flag(3, "large", {**groups(LARGE), "aggregation_group_type_index": 1}),
                flag(4, "unlisted", groups(aggregation_group_type_index=3)),
                flag(5, "needs", groups(needs)),
                flag(6, "needs-that", groups({**needs, "key": "5"})),
                flag(7, "plain"),
            ],
            surveys=[{**SURVEY, "linked_flag_id": 2}],
        )
    )
    kept, lost = without_lacking(reading, {0})
    room = "It is about groups of type planet, for which there is no room here."
    assert [each.name for each in kept] == ["by-company", "plain"]
    assert {each.name: each.text for each in lost} == {
        "by-planet": room,
        "large": room,
        "unlisted": "It is about groups of type 3, which the source does not list.",
        "needs": "It needs a flag that is not copied.",
        "needs-that": "It needs a flag that is not copied.",
        "How is it?": "It needs a flag that is not copied.",
    }
    assert without_lacking(Reading(wanted=kept), {0}) == (kept, [])


def test_what_experiments_and_surveys_leave_behind_is_told() -> None:
    plain = {**EXPERIMENT, "metrics": [], "saved_metrics": [], "stats_config": None}
    assert notes(Definitions(flags=[colours()], experiments=[plain], surveys=[SURVEY])) == []
    older = {
        **plain,
        "filters": {"events": [{"id": "bought"}], "insight": "FUNNELS"},
        "secondary_metrics": [{"name": "Paid"}],
        "holdout_id": 4,
    }
    sampled = {**SURVEY, "response_sampling_limit": 9, "response_sampling_interval": None}
    found = notes(Definitions(flags=[colours()], experiments=[older], surveys=[sampled]))
    assert found == [
        "Without its sampling of responses (response_sampling_limit).",
        "Without its older definition of a metric (filters).",
        "Without its older secondary metrics (secondary_metrics).",
        "Without its holdout (holdout_id).",
    ]


def test_a_flag_that_only_sounds_like_one_of_a_survey_is_copied() -> None:
    own = {**SURVEY, "targeting_flag": flag(8, "chosen-by-hand")}
    flags = [flag(id, key) for id, key in ((6, "survey-targeting-mine"), (8, "chosen-by-hand"))]
    flags.append(flag(99, "survey-targeting-9f3c-custom"))
    wanted = understood(Definitions(flags=flags, surveys=[own])).wanted
    assert [each.name for each in wanted if each.kind is Kind.FLAG] == [
        "survey-targeting-mine",
        "chosen-by-hand",
    ]


def test_what_was_renamed_there_is_known_by_the_number_that_it_was_given() -> None:
    source = Definitions(flags=[colours()], surveys=[SURVEY], experiments=[EXPERIMENT])
    for wanted in understood(source).wanted[1:]:
        stored: dict[str, Any] = {**wanted.body, "id": "here", "name": "as it was called"}
        stored["targeting_flag"] = None
        there = There(items={wanted.kind: [stored]})
        assert decided(wanted, there, Numbers(), {}).action is Action.CREATE
        found = decided(wanted, there, Numbers(), {wanted.source_id: "here"})
        assert (found.action, found.id) == (Action.DIFFERS, "here")
        assert "name" in found.differences


def test_what_was_taken_back_there_differs() -> None:
    source = Definitions(flags=[colours()], surveys=[SURVEY], experiments=[EXPERIMENT])
    for wanted in understood(source).wanted[1:]:
        stored = {**translated(wanted, Numbers()), "id": "here", "targeting_flag": None}
        there = There(items={wanted.kind: [stored]})
        known = {wanted.source_id: "here"}
        assert decided(wanted, there, Numbers(), known).differences == []
        stored["end_date"] = "2026-05-01T00:00:00Z"
        changed = {"end_date"}
        if wanted.kind is Kind.SURVEY:
            limited = replace(wanted, body={**wanted.body, "responses_limit": 5})
            stored["responses_limit"] = 5  # and its end may be due to that
            assert decided(limited, there, Numbers(), known).differences == []
            stored |= {"translations": {}, "linked_flag_id": 7}
            stored["targeting_flag"] = {"filters": {"groups": [{}]}}
            changed |= {"responses_limit", "linked_flag_id", "targeting_flag_filters"}
        assert set(decided(wanted, there, Numbers(), known).differences) == changed


def test_a_list_of_members_that_somebody_made_here_is_theirs() -> None:
    [wanted] = understood(Definitions(cohorts=[cohort(1, "Friends", is_static=True)])).wanted
    stored = {**wanted.body, "id": 7, "count": 2}
    there = There(items={Kind.COHORT: [stored]})
    assert decided(wanted, there, Numbers(), {}).differences == ["members"]
    assert decided(wanted, there, Numbers(), {1: 7}).action is Action.SAME
    # One that is empty may be ours, from a run that was killed; there is nothing to spoil.
    empty = There(items={Kind.COHORT: [{**stored, "count": 0}]})
    assert decided(wanted, empty, Numbers(), {}).action is Action.SAME
