"""A worker learns names, types and volumes, and keeps what it could not save."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from hedgerow.definitions import learn
from hedgerow.definitions.learn import DefinitionLearner
from hedgerow.definitions.model import PropertyKind, SeenEvent
from hedgerow.definitions.store import DefinitionStore, LearnedNames
from hedgerow.projects.model import ProjectId

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROJECT = ProjectId(1)


class SavedNames:
    """Collects what is saved."""

    def __init__(self) -> None:
        self.saved: list[LearnedNames] = []
        self.is_failing = False

    async def save_learned(self, learned: LearnedNames, now: datetime) -> None:
        if self.is_failing:
            raise OSError("disk full")
        self.saved.append(learned)


@pytest.fixture
def store() -> SavedNames:
    return SavedNames()


@pytest.fixture
def learner(store: SavedNames) -> DefinitionLearner:
    return DefinitionLearner(cast(DefinitionStore, store), lambda: NOW)


def seen(properties: Mapping[str, Any], event: str = "e", at: datetime = NOW) -> SeenEvent:
    return SeenEvent(event, properties, properties, at, NOW)


def names(learned: LearnedNames, kind: PropertyKind = PropertyKind.EVENT) -> dict[str, Any]:
    return {
        key.name: each.property_type
        for (_, key), each in learned.properties.items()
        if key.kind is kind
    }


async def test_events_are_counted_and_properties_saved_once(
    store: SavedNames, learner: DefinitionLearner
) -> None:
    old = NOW - timedelta(days=31)
    learner.observe(PROJECT, [seen({"a": 1}), seen({"a": 2}), seen({"a": 3}, at=old)])
    await learner.save()
    learner.observe(PROJECT, [seen({"a": "x"}, at=NOW + timedelta(days=9))])
    await learner.save()
    await learner.save()
    first, second = store.saved
    assert first.events == {(PROJECT, "e"): (old, NOW, 2)}
    assert names(first) == {"a": "Numeric"}
    assert first.pairs == {(PROJECT, "e", "a")}
    assert second.events == {(PROJECT, "e"): (NOW, NOW, 1)}
    assert not second.properties


async def test_type_of_a_null_is_found_later(store: SavedNames, learner: DefinitionLearner) -> None:
    learner.observe(PROJECT, [seen({"a": None, "b": [1]})])
    await learner.save()
    learner.observe(PROJECT, [seen({"a": True, "b": "x"})])
    await learner.save()
    assert [names(each) for each in store.saved] == [
        {"a": None, "b": None},
        {"a": "Boolean", "b": None},
    ]


async def test_person_and_group_properties_are_learned(
    store: SavedNames, learner: DefinitionLearner
) -> None:
    event = {"$set": {"p": 1}, "$set_once": {"q": "x"}, "$group_set": {"g": True}, "$group_0": "k"}
    learner.observe(PROJECT, [seen(event)._replace(group_type_index=2), seen(event)])
    await learner.save()
    [saved] = store.saved
    assert names(saved, PropertyKind.EVENT) == {}
    assert names(saved, PropertyKind.PERSON) == {"p": "Numeric", "q": "String"}
    assert {key for _, key in saved.properties if key.kind is PropertyKind.GROUP} == {
        (PropertyKind.GROUP, 2, "g")
    }


async def test_what_could_not_be_saved_is_saved_next_time(
    store: SavedNames, learner: DefinitionLearner
) -> None:
    store.is_failing = True
    learner.observe(PROJECT, [seen({"a": 1})])
    with pytest.raises(OSError, match="disk"):
        await learner.save()
    learner.observe(PROJECT, [seen({"a": 1})])
    store.is_failing = False
    await learner.save()
    [saved] = store.saved
    assert saved.events[PROJECT, "e"].number == 2
    assert names(saved) == {"a": "Numeric"}


async def test_forgotten_properties_are_learned_anew(
    store: SavedNames, learner: DefinitionLearner
) -> None:
    learner.observe(PROJECT, [seen({"a": 1})])
    await learner.save()
    learner.forget(PROJECT)
    learner.observe(PROJECT, [seen({"a": 1})])
    await learner.save()
    assert [names(each) for each in store.saved] == [{"a": "Numeric"}] * 2


async def test_names_without_end_need_bounded_memory(
    store: SavedNames, learner: DefinitionLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learn, "MAX_NEW_KEYS", 100)
    learner.observe(PROJECT, [seen({f"a{number}": 1}, f"e{number}") for number in range(1000)])
    learner.observe(PROJECT, [seen({"x" * 401: 1, "\ud800": 1}, "e" * 401)])
    await learner.save()
    learner.observe(PROJECT, [seen({"x" * 401: 1, "\ud800": 1})])
    await learner.save()
    assert len(store.saved[0].events) <= 100
    assert names(store.saved[1]) == {"\ufffd": None}


async def test_new_properties_of_persons_count_as_new_keys(
    store: SavedNames, learner: DefinitionLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learn, "MAX_NEW_KEYS", 100)
    for number in range(10):
        values = {f"a{number}_{each}": 1 for each in range(60)}
        learner.observe(PROJECT, [seen({"$set": values}, f"e{number}")])
    await learner.save()
    assert len(store.saved[0].events) == 2
