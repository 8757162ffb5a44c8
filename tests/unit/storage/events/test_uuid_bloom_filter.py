from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from hedgerow.events.model import EventKey
from hedgerow.projects.model import ProjectId
from hedgerow.storage.events.uuid_bloom_filter import RECENT_KEYS, UuidBloomFilter

MANY = 20_000


def random_key(_: int) -> EventKey:
    return ProjectId(1), str(uuid4())


def counting_key(number: int) -> EventKey:
    return ProjectId(1), str(UUID(int=number))


def encode_like_the_engine(key: EventKey) -> bytes:
    uuid = UUID(key[1]).int
    return (uuid >> 64).to_bytes(8, "little") + (uuid & (2**64 - 1)).to_bytes(8, "little")


@pytest.mark.parametrize("key", [random_key, counting_key])
def test_filter_has_no_false_negatives(key: Callable[[int], EventKey]) -> None:
    memory = UuidBloomFilter(0)
    stored = [key(number) for number in range(MANY)]
    just_now = [key(number) for number in range(MANY, 2 * MANY)]
    memory.add_stored(b"".join(map(encode_like_the_engine, stored)))
    memory.add_pending(just_now)
    assert memory.filter_possible([*stored, *just_now]) == [*stored, *just_now]


@pytest.mark.parametrize("key", [random_key, counting_key])
def test_filter_has_few_false_positives(key: Callable[[int], EventKey]) -> None:
    memory = UuidBloomFilter(0)
    memory.add_pending([key(number) for number in range(MANY)])
    new = [key(number) for number in range(MANY, 2 * MANY)]
    assert len(memory.filter_possible(new)) < MANY / 1000


def test_recent_keys_are_known_exactly() -> None:
    memory = UuidBloomFilter(0)
    keys = [counting_key(number) for number in range(RECENT_KEYS + 10)]
    memory.add_pending(keys)
    memory.confirm_stored(keys[:10])
    memory.confirm_stored(keys[10:])
    assert [memory.is_recent(key) for key in keys[:12]] == [False] * 10 + [True] * 2
    memory.clear_recent()
    assert not memory.is_recent(keys[-1])
    assert memory.filter_possible(keys[:1]) == keys[:1]


def test_uuid_of_another_project_is_possible() -> None:
    memory = UuidBloomFilter(0)
    project, uuid = random_key(0)
    memory.add_pending([(project, uuid)])
    memory.confirm_stored([(project, uuid)])
    theirs = ProjectId(2), uuid
    assert not memory.is_recent(theirs)
    assert memory.filter_possible([theirs]) == [theirs]


def test_empty_input_is_a_no_op() -> None:
    memory = UuidBloomFilter(10**12)
    memory.add_stored(b"")
    memory.add_pending([])
    assert memory.filter_possible([]) == []
