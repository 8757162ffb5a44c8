"""What scheduled changes do to a flag, and which of them are refused."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hedgerow.errors import Invalid
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.schedules.model import find_next_cron
from hedgerow.flags.schedules.operations import build_fields, parse_payload
from tests.unit.flags.factories import FLAG

BERLIN = ZoneInfo("Europe/Berlin")
FILTERS: dict[str, Any] = {
    "groups": [{"properties": [], "rollout_percentage": 10}],
    "multivariate": {"variants": [{"key": "a", "rollout_percentage": 100}]},
    "payloads": {"a": "1"},
}
FLAG_NOW = replace(FLAG, filters=FILTERS)
MORE = {"properties": [], "rollout_percentage": 5}
NEW_VARIANTS = [{"key": "b", "rollout_percentage": 100}]


@pytest.mark.parametrize(
    ("operation", "value", "expected"),
    [
        ("update_status", False, FlagFields(active=False)),
        (
            "add_release_condition",
            {"groups": [MORE]},
            FlagFields(filters={**FILTERS, "groups": [*FILTERS["groups"], MORE]}),
        ),
        (
            "update_variants",
            {"variants": NEW_VARIANTS},
            FlagFields(
                filters={**FILTERS, "multivariate": {"variants": NEW_VARIANTS}, "payloads": {}}
            ),
        ),
        (
            "update_rollout",
            {"rollout_percentage": 50},
            FlagFields(
                filters={**FILTERS, "groups": [{"properties": [], "rollout_percentage": 50}]}
            ),
        ),
        (
            "update_fields",
            {"archived": True, "tags": ["old"]},
            FlagFields(archived=True, tags=("old",)),
        ),
    ],
)
def test_operation_changes_the_flag_as_it_is_then(
    operation: str, value: Any, expected: FlagFields
) -> None:
    payload = parse_payload({"operation": operation, "value": value})
    assert build_fields(FLAG_NOW, payload) == expected
    assert FLAG_NOW.filters["groups"][0]["rollout_percentage"] == 10


@pytest.mark.parametrize(
    ("payload", "attr"),
    [
        (None, "payload"),
        ({"operation": "update_status", "value": True, "more": 1}, "payload"),
        ({"operation": "erase", "value": True}, "payload.operation"),
        ({"operation": ["update_status"], "value": True}, "payload.operation"),
        ({"operation": "update_status", "value": 1}, "payload.value"),
        ({"operation": "add_release_condition", "value": {"groups": []}}, "payload.value.groups"),
        ({"operation": "add_release_condition", "value": {"x": 1}}, "payload.value.x"),
        ({"operation": "update_variants", "value": {"variants": {}}}, "payload.value.variants"),
        (
            {"operation": "update_rollout", "value": {"rollout_percentage": 101}},
            "payload.value.rollout_percentage",
        ),
        (
            {"operation": "update_rollout", "value": {"rollout_percentage": float("nan")}},
            "payload.value.rollout_percentage",
        ),
        (
            {
                "operation": "update_rollout",
                "value": {"rollout_percentage": 1, "condition_index": True},
            },
            "payload.value.condition_index",
        ),
        ({"operation": "update_fields", "value": {}}, "payload.value"),
        ({"operation": "update_fields", "value": {"key": "x"}}, "payload.value.key"),
        ({"operation": "update_fields", "value": {"active": 1}}, "payload.value.active"),
        ({"operation": "update_fields", "value": {"tags": [1]}}, "payload.value.tags"),
    ],
)
def test_payload_that_no_flag_can_take_is_refused(payload: Any, attr: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_payload(payload)
    assert refused.value.attr == attr


def test_rollout_of_several_conditions_needs_to_know_which() -> None:
    two = replace(FLAG, filters={"groups": [MORE, MORE]})
    value: dict[str, Any] = {"rollout_percentage": 50}
    with pytest.raises(Invalid, match="2 conditions"):
        build_fields(two, {"operation": "update_rollout", "value": value})
    with pytest.raises(Invalid, match="no condition 2"):
        build_fields(two, {"operation": "update_rollout", "value": value | {"condition_index": 2}})
    fields = build_fields(
        two, {"operation": "update_rollout", "value": value | {"condition_index": 1}}
    )
    assert [each["rollout_percentage"] for each in fields.filters["groups"]] == [5, 50]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # Summer time begins on 29 March 2026 at 2:00, and ends on 25 October at 3:00.
        ("2026-03-28T12:00:00", "2026-03-29T01:00:00"),
        ("2026-03-29T12:00:00", "2026-03-30T00:30:00"),
        ("2026-10-24T12:00:00", "2026-10-25T00:30:00"),
        ("2026-10-25T00:30:00", "2026-10-26T01:30:00"),
    ],
)
def test_cron_expression_is_in_local_time(after: str, expected: str) -> None:
    found = find_next_cron("30 2 * * *", datetime.fromisoformat(after).replace(tzinfo=UTC), BERLIN)
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "hourly", "61 * * * *", "* * * *", "0 0 30 2 *"])
def test_invalid_cron_expression_has_no_next_time(text: str) -> None:
    assert find_next_cron(text, datetime(2026, 1, 1, tzinfo=UTC), BERLIN) is None
