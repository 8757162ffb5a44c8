"""The line of text that tells people about an entry of the activity log."""

from typing import Any

import pytest

from hedgerow.pipelines.deliveries.activity_messages import describe_entry
from hedgerow.projects.activity import (
    SYSTEM,
    ActivityEntry,
    Actor,
    RecordedActivity,
    diff_fields,
)
from tests.unit.fake_time import START
from tests.unit.pipelines.sample_components import PROJECT

ANN = Actor(kind="user", id="1", name="Ann", email="ann@example.com")
REASON = "Flag has not been called in 31 days"


def describe(**fields: Any) -> str:
    given = {"activity": "updated", "actor": ANN, **fields}
    entry = ActivityEntry(
        scope="FeatureFlag", item_id="7", item_name="beta", project_id=PROJECT, **given
    )
    return describe_entry(RecordedActivity(id=1, entry=entry, created_at=START))


def change(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {"changes": diff_fields("FeatureFlag", before, after)}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            change({"active": False, "name": "a"}, {"active": True, "name": "b"}),
            'ann@example.com updated FeatureFlag beta: active false → true, name "a" → "b"',
        ),
        (
            change({"filters": {"groups": []}}, {"filters": {"groups": [{}]}}),
            "ann@example.com updated FeatureFlag beta: filters",
        ),
        (
            change({"name": "x" * 61}, {"name": ""}),
            "ann@example.com updated FeatureFlag beta: name",
        ),
        (
            change({}, {f"f{number}": number for number in range(12)}) | {"activity": "created"},
            "ann@example.com created FeatureFlag beta",
        ),
        (
            {"activity": "break_glass", "detail": {"reason": "The shop is down"}},
            "ann@example.com break glass FeatureFlag beta: The shop is down",
        ),
        (
            {"activity": "became_stale", "actor": SYSTEM, "detail": {"reason": REASON}},
            f"FeatureFlag beta became stale: {REASON}",
        ),
    ],
)
def test_entry_is_a_line_of_text(fields: dict[str, Any], text: str) -> None:
    assert describe(**fields) == text


def test_line_names_few_of_many_changes() -> None:
    many = change({}, {f"f{number}": number for number in range(12)})
    assert describe(**many).endswith("f9 null → 9 and 2 more")
