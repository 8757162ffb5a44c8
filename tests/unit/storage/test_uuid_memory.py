from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from hedgerow.events.model import EventKey
from hedgerow.projects.model import ProjectId
from hedgerow.storage.uuid_memory import RECENT, UuidMemory

MANY = 20_000


def random_key(_: int) -> EventKey:
    return ProjectId(1), str(uuid4())


def counting_key(number: int) -> EventKey:
    return ProjectId(1), str(UUID(int=number))


def as_the_engine_writes(key: EventKey) -> bytes:
    uuid = UUID(key[1]).int
    return (uuid >> 64).to_bytes(8, "little") + (uuid & (2**64 - 1)).to_bytes(8, "little")


@pytest.mark.parametrize("key", [random_key, counting_key])
def test_what_was_learnt_is_never_taken_for_new(key: Callable[[int], EventKey]) -> None:
    memory = UuidMemory(0)
    stored = [key(number) for number in range(MANY)]
    just_now = [key(number) for number in range(MANY, 2 * MANY)]
    memory.learn_stored(b"".join(map(as_the_engine_writes, stored)))
    memory.expect(just_now)
    assert memory.unsure([*stored, *just_now]) == [*stored, *just_now]


@pytest.mark.parametrize("key", [random_key, counting_key])
def test_what_is_new_is_nearly_always_known_to_be(key: Callable[[int], EventKey]) -> None:
    memory = UuidMemory(0)
    memory.expect([key(number) for number in range(MANY)])
    new = [key(number) for number in range(MANY, 2 * MANY)]
    assert len(memory.unsure(new)) < MANY / 1000


def test_the_latest_are_known_for_certain() -> None:
    memory = UuidMemory(0)
    keys = [counting_key(number) for number in range(RECENT + 10)]
    memory.expect(keys)
    memory.learn(keys[:10])
    memory.learn(keys[10:])
    assert [memory.is_stored(key) for key in keys[:12]] == [False] * 10 + [True] * 2
    memory.forget()
    assert not memory.is_stored(keys[-1])
    assert memory.unsure(keys[:1]) == keys[:1]


def test_a_uuid_in_another_project_is_unsure() -> None:
    memory = UuidMemory(0)
    project, uuid = random_key(0)
    memory.expect([(project, uuid)])
    memory.learn([(project, uuid)])
    theirs = ProjectId(2), uuid
    assert not memory.is_stored(theirs)
    assert memory.unsure([theirs]) == [theirs]


def test_nothing_is_learnt_of_nothing() -> None:
    memory = UuidMemory(10**12)
    memory.learn_stored(b"")
    memory.expect([])
    assert memory.unsure([]) == []
