from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.lib.randomness import Randomness


def test_nobody_gets_the_same_bytes_twice() -> None:
    randomness = Randomness()
    taken = [randomness.for_uuid7() for _ in range(2500)]
    assert {len(each) for each in taken} == {UUID7_RANDOM_BYTES}
    assert len(set(taken)) == len(taken)
