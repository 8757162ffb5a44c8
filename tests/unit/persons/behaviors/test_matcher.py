"""Events are matched as queries of events match them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.persons.behaviors.filters import parse_behavioral_filter
from hedgerow.persons.behaviors.matcher import BehaviorMatcher, build_definition
from hedgerow.persons.behaviors.model import Behavior, BehaviorId, BehaviorState
from hedgerow.projects.model import ProjectId
from tests.unit.persons.behaviors.test_filters import DID

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def track(id: int, filter: dict[str, Any], steps: Any = ()) -> Behavior:
    event = parse_behavioral_filter(filter).event
    return Behavior(
        id=BehaviorId(id),
        project_id=ProjectId(1),
        reference=event.reference,
        definition=build_definition(event, steps),
        depth=event.depth,
        state=BehaviorState.READY,
        done=0,
        total=0,
        cursor="",
        doubted_at=None,
        created_at=NOW,
    )


def where(key: str, operator: str, value: Any = None) -> dict[str, Any]:
    return {**DID, "event_filters": [{"key": key, "operator": operator, "value": value}]}


def find(behavior: Behavior, properties: dict[str, Any], name: str = "paid") -> bool:
    return BehaviorMatcher([behavior]).find(name, properties, NOW) == [behavior.id]


@pytest.mark.parametrize(
    ("filter", "matching", "others"),
    [
        (where("a", "exact", "Pro"), ["Pro"], ["pro", None, 1, ["Pro"]]),
        (where("a", "exact", ["x", 2]), ["x", 2, 2.0, "2"], [3, "X"]),
        (where("a", "is_not", "Pro"), ["pro", None, 1], ["Pro"]),
        (where("a", "gt", 3), [4, "4", 3.5], [3, None, "x", True]),
        (where("a", "icontains", "RO"), ["Pro", "prow"], [None, "p"]),
        (where("a", "regex", "^P"), ["Pro"], ["pro", None]),
        (where("a", "is_set"), ["x", 0, False], [None]),
        (where("a", "is_not_set"), [None], ["x"]),
    ],
)
def test_event_filters(filter: dict[str, Any], matching: list[Any], others: list[Any]) -> None:
    behavior = track(1, filter)
    assert [each for each in matching if not find(behavior, {"a": each})] == []
    assert [each for each in others if find(behavior, {"a": each})] == []
    assert not find(behavior, {"a": matching[0]}, "other")


def test_actions() -> None:
    action = {**DID, "event_type": "actions", "key": 5}
    steps = [
        {"event": "paid", "url": "shop/%/c_rt", "url_matching": "contains"},
        {"event": "left", "properties": [{"key": "a", "value": 1, "type": "event"}]},
    ]
    behavior = track(1, action, steps)
    assert find(behavior, {"$current_url": "http://x/shop/5/cart?a"})
    assert not find(behavior, {"$current_url": "http://x/shop/cart"})
    assert not find(behavior, {})
    assert find(behavior, {"a": 1}, "left")
    assert find(
        track(1, action, [{"event": None, "url": "x$", "url_matching": "regex"}]),
        {"$current_url": "a/x"},
    )
    with pytest.raises(Invalid, match=r"selector"):
        track(1, action, [{"event": "a", "selector": "div"}])


def test_events_after_the_end_do_not_count() -> None:
    dates = {**DID, "explicit_datetime": "2026-01-01", "explicit_datetime_to": "2026-03-01T12:00"}
    matcher = BehaviorMatcher([track(1, dates)])
    assert matcher.find("paid", {}, NOW) == [1]
    assert matcher.find("paid", {}, NOW + timedelta(microseconds=1)) == []
