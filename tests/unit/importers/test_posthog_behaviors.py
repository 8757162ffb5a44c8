"""Cohorts by behavior of a PostHog project."""

from hedgerow.importers.posthog import PostHogDefinitions, convert_posthog
from tests.unit.importers.test_posthog import DID, cohort, flag, groups, in_cohort, list_skipped

PRO_EVENT = {"key": "plan", "type": "event", "value": "pro", "operator": "exact"}


def test_cohorts_by_behavior_are_imported() -> None:
    old = {"event_id": "paid", "days": "30", "count": 3, "count_operator": "gte"}
    source = PostHogDefinitions(
        cohorts=[
            cohort(1, "active", {**DID, "bytecode": ["_H"], "event_filters": [PRO_EVENT]}),
            cohort(2, "oldest", filters=None, groups=[old]),
        ],
        flags=[flag(1, "for-active", groups(in_cohort(1, operator="in")))],
    )
    assert list_skipped(source) == {}
    active, oldest, _ = convert_posthog(source).items
    assert active.body["filters"]["properties"]["values"][0]["values"] == [
        {**DID, "event_filters": [PRO_EVENT]}
    ]
    [filter] = oldest.body["filters"]["properties"]["values"]
    assert filter["value"] == "performed_event_multiple"
    assert (filter["key"], filter["operator_value"], filter["time_value"]) == ("paid", 3, 30)
