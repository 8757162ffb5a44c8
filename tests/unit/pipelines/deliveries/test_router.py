"""Filters, sampling and routing of events to destinations."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.events.model import Event, PersonMode
from hedgerow.filters.operators import Operator
from hedgerow.lib import jsonio
from hedgerow.pipelines.deliveries.router import DestinationRouter, Route
from hedgerow.pipelines.event_filters import check_destination_settings, compile_event_filter
from hedgerow.pipelines.model import RecordId
from tests.unit.fake_time import START
from tests.unit.generated import bounded
from tests.unit.pipelines.sample_components import PROJECT


def event(name: str = "bought", number: int = 0, **properties: Any) -> Event:
    return Event(
        project_id=PROJECT,
        uuid=f"0199aaaa-0000-7000-8000-{number:012}",
        event=name,
        distinct_id="ann",
        properties=jsonio.encode(properties).decode(),
        elements_chain="",
        timestamp=START,
        created_at=START,
        person_id="p",
        person_created_at=START,
        person_properties='{"plan": "pro"}',
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )


@pytest.mark.parametrize(
    ("config", "is_wanted"),
    [
        ({}, True),
        ({"events": ["bought"]}, True),
        ({"events": ["seen"]}, False),
        ({"properties": [{"key": "price", "operator": "gt", "value": 5}]}, True),
        ({"properties": [{"key": "price", "operator": "gt", "value": 50}]}, False),
        ({"properties": [{"key": "other", "operator": "is_not_set"}]}, True),
        ({"properties": [{"key": "plan", "value": "pro", "type": "person"}]}, True),
        ({"properties": [{"key": "plan", "value": "free", "type": "person"}]}, False),
        ({"properties": [{"key": "plan", "value": "pro"}]}, False),
    ],
)
def test_filters_select_events(config: dict[str, Any], is_wanted: bool) -> None:
    check_destination_settings(config)
    assert compile_event_filter(config)(event(price=10), START) is is_wanted


def test_sample_has_its_size_and_is_stable() -> None:
    events = [event(number=number) for number in range(2000)]
    first = [compile_event_filter({"sampling": 25})(each, START) for each in events]
    assert first == [compile_event_filter({"sampling": 25})(each, START) for each in events]
    assert 400 < sum(first) < 600


@given(st.integers(1, 99), st.integers(1, 99), st.integers(0, 10**9))
@bounded
def test_larger_sample_contains_the_smaller(one: int, other: int, number: int) -> None:
    small, large = sorted((one, other))
    is_in_small = compile_event_filter({"sampling": small})(event(number=number), START)
    assert compile_event_filter({"sampling": large})(event(number=number), START) or not is_in_small


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
values = (
    st.sampled_from(["1.2.3", "1.*", "-7d", "2026-01-01", 3, [1, 2], ["a"], "(a)+"]) | json_values
)
filters = st.fixed_dictionaries(
    {"key": st.sampled_from(["price", "plan", ""])},
    optional={
        "operator": st.sampled_from(list(Operator)) | json_values,
        "value": values,
        "type": st.sampled_from(["event", "person"]) | json_values,
    },
)


@given(
    st.lists(filters, max_size=3) | json_values,
    st.lists(st.text(), max_size=2) | json_values,
    st.dictionaries(st.sampled_from(["price", "plan", "other"]), values),
)
@bounded
def test_any_filter_is_refused_or_works(properties: Any, names: Any, sent: dict[str, Any]) -> None:
    """A filter that raises would stop the processing of every event."""
    config = {"properties": properties, "events": names}
    try:
        check_destination_settings(config)
    except Invalid:
        return
    assert compile_event_filter(config)(event(**sent), START) in (True, False)


@pytest.mark.parametrize(
    "config",
    [
        {"events": {"bought": 1}},
        {"events": [1]},
        {"properties": ["price"]},
        {"properties": [{"key": "price", "operator": "nearly", "value": 1}]},
        {"properties": [{"key": "id", "value": 1, "type": "cohort"}]},
        {"properties": [{"key": "price", "operator": "regex", "value": "("}]},
        {"sampling": 101},
        {"batch_size": 0},
        {"batch_seconds": -1},
    ],
)
def test_unusable_settings_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        check_destination_settings(config)


def route(is_enabled: bool, *switches: int) -> Route:
    """Return a destination switched at this many seconds after START."""
    return Route(
        record_id=RecordId(7),
        is_enabled=is_enabled,
        switches=[int((START.timestamp() + each) * 1000) for each in switches],
        matches=compile_event_filter({}),
    )


@pytest.mark.parametrize(
    ("is_enabled", "switches", "gets"),
    [
        (True, (), [0, 1, 2, 3, 4]),
        (False, (), []),
        (True, (2,), [2, 3, 4]),
        (False, (2,), [0, 1]),
        (True, (1, 3), [0, 3, 4]),
        (False, (1, 3), [1, 2]),
    ],
)
def test_routing_depends_on_the_time_of_acceptance(
    is_enabled: bool, switches: tuple[int, ...], gets: list[int]
) -> None:
    router = DestinationRouter([route(is_enabled, *switches)])
    got = [
        second
        for second in range(5)
        if router.destinations(
            msgspec.structs.replace(event(), created_at=START + timedelta(seconds=second)),
            START + timedelta(seconds=5),
        )
    ]
    assert got == gets


def test_a_switch_before_the_clock_was_set_back_is_in_the_past() -> None:
    assert DestinationRouter([route(True, 3600)]).destinations(event(), START) == [RecordId(7)]
    assert DestinationRouter([route(False, 3600)]).destinations(event(), START) == []


def test_only_destinations_that_were_disabled_later_are_candidates() -> None:
    asked: list[int] = []

    def build(id: int, is_enabled: bool, *switches: int) -> Route:
        def matches(event: Event, now: Any) -> bool:
            asked.append(id)
            return True

        known = route(is_enabled, *switches)
        return replace(known, record_id=RecordId(id), matches=matches)

    routes = [build(1, False, 5), build(2, True), build(3, False, 20), build(4, False, 1, 9, 30)]
    now = START + timedelta(seconds=40)
    accepted = msgspec.structs.replace(event(), created_at=START + timedelta(seconds=10))
    assert DestinationRouter(routes).destinations(accepted, now) == [2, 4, 3]
    assert asked == [2, 4, 3]


def test_properties_are_decoded_once_for_all_destinations(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = jsonio.decode

    def count_decode(text: str) -> Any:
        decoded.append(text)
        return decode(text)

    monkeypatch.setattr(jsonio, "decode", count_decode)
    of_event = {"key": "price", "value": 987}
    of_person = {"key": "plan", "value": "once", "type": "person"}
    config = {"properties": [of_event, of_person]}
    matches = [compile_event_filter(config) for _ in range(20)]
    sent = msgspec.structs.replace(event(price=987), person_properties='{"plan": "once"}')
    assert all(each(sent, START) for each in matches)
    assert decoded == [sent.properties, sent.person_properties]
