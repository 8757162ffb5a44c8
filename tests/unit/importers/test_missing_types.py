"""Items that are skipped, imported with notes, or matched with existing ones."""

from dataclasses import replace
from typing import Any

from hedgerow.importers.matching import (
    IdMap,
    ImportAction,
    TargetState,
    decide_import,
    translate_body,
)
from hedgerow.importers.missing_types import skip_missing_types
from hedgerow.importers.model import ConversionResult, ResourceKind
from hedgerow.importers.posthog import PostHogDefinitions, convert_posthog
from tests.unit.importers.test_posthog import EXPERIMENT, SURVEY, cohort, colours, flag, groups

LARGE = {"key": "size", "type": "group", "group_type_index": 1, "value": 9, "operator": "gt"}


def notes(source: PostHogDefinitions) -> list[str]:
    return [each.text for each in convert_posthog(source).notes]


def test_flags_of_missing_group_types_are_skipped_with_their_dependents() -> None:
    by_planet = groups(aggregation_group_type_index=1)
    needs = {"key": "2", "type": "flag", "value": True, "operator": "flag_evaluates_to"}
    reading = convert_posthog(
        PostHogDefinitions(
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
    kept, skipped = skip_missing_types(reading, {0})
    no_free_type = "It needs the group type planet, and the target project has no free group type."
    assert [each.name for each in kept] == ["by-company", "plain"]
    assert {each.name: each.text for each in skipped} == {
        "by-planet": no_free_type,
        "large": no_free_type,
        "unlisted": "It needs the group type 3, which the source does not list.",
        "needs": "It needs a flag that is not imported.",
        "needs-that": "It needs a flag that is not imported.",
        "How is it?": "It needs a flag that is not imported.",
    }
    assert skip_missing_types(ConversionResult(items=kept), {0}) == (kept, [])


def test_unsupported_parts_of_experiments_and_surveys_are_noted() -> None:
    plain = {**EXPERIMENT, "metrics": [], "saved_metrics": [], "stats_config": None}
    assert notes(PostHogDefinitions(flags=[colours()], experiments=[plain], surveys=[SURVEY])) == []
    older = {
        **plain,
        "filters": {"events": [{"id": "bought"}], "insight": "FUNNELS"},
        "secondary_metrics": [{"name": "Paid"}],
        "holdout_id": 4,
    }
    sampled = {**SURVEY, "response_sampling_limit": 9, "response_sampling_interval": None}
    found = notes(PostHogDefinitions(flags=[colours()], experiments=[older], surveys=[sampled]))
    assert found == [
        "Imported without its response sampling (response_sampling_limit).",
        "Imported without its legacy metric definition (filters).",
        "Imported without its legacy secondary metrics (secondary_metrics).",
        "Imported without its holdout (holdout_id).",
    ]


def test_user_flag_with_the_prefix_of_survey_flags_is_imported() -> None:
    own = {**SURVEY, "targeting_flag": flag(8, "chosen-by-hand")}
    flags = [flag(id, key) for id, key in ((6, "survey-targeting-mine"), (8, "chosen-by-hand"))]
    flags.append(flag(99, "survey-targeting-9f3c-custom"))
    items = convert_posthog(PostHogDefinitions(flags=flags, surveys=[own])).items
    assert [each.name for each in items if each.kind is ResourceKind.FLAG] == [
        "survey-targeting-mine",
        "chosen-by-hand",
    ]


def test_renamed_item_matches_by_the_recorded_id() -> None:
    source = PostHogDefinitions(flags=[colours()], surveys=[SURVEY], experiments=[EXPERIMENT])
    for item in convert_posthog(source).items[1:]:
        stored: dict[str, Any] = {**item.body, "id": "here", "name": "as it was called"}
        stored["targeting_flag"] = None
        target = TargetState(items={item.kind: [stored]})
        assert decide_import(item, target, IdMap(), {}).action is ImportAction.CREATE
        found = decide_import(item, target, IdMap(), {item.source_id: "here"})
        assert (found.action, found.id) == (ImportAction.DIFFERS, "here")
        assert "name" in found.differences


def test_removed_value_is_a_difference() -> None:
    source = PostHogDefinitions(flags=[colours()], surveys=[SURVEY], experiments=[EXPERIMENT])
    for item in convert_posthog(source).items[1:]:
        stored = {**translate_body(item, IdMap()), "id": "here", "targeting_flag": None}
        target = TargetState(items={item.kind: [stored]})
        known = {item.source_id: "here"}
        assert decide_import(item, target, IdMap(), known).differences == []
        stored["end_date"] = "2026-05-01T00:00:00Z"
        changed = {"end_date"}
        if item.kind is ResourceKind.SURVEY:
            limited = replace(item, body={**item.body, "responses_limit": 5})
            stored["responses_limit"] = 5  # which may have ended the survey
            assert decide_import(limited, target, IdMap(), known).differences == []
            stored |= {"translations": {}, "linked_flag_id": 7}
            stored["targeting_flag"] = {"filters": {"groups": [{}]}}
            changed |= {"responses_limit", "linked_flag_id", "targeting_flag_filters"}
        assert set(decide_import(item, target, IdMap(), known).differences) == changed


def test_static_cohort_with_members_added_here_differs() -> None:
    [item] = convert_posthog(
        PostHogDefinitions(cohorts=[cohort(1, "Friends", is_static=True)])
    ).items
    stored = {**item.body, "id": 7, "count": 2}
    target = TargetState(items={ResourceKind.COHORT: [stored]})
    assert decide_import(item, target, IdMap(), {}).differences == ["members"]
    assert decide_import(item, target, IdMap(), {1: 7}).action is ImportAction.SAME
    # An empty cohort may come from an interrupted import, and has no members to lose.
    empty = TargetState(items={ResourceKind.COHORT: [{**stored, "count": 0}]})
    assert decide_import(item, empty, IdMap(), {}).action is ImportAction.SAME
