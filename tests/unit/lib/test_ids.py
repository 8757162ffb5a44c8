from datetime import UTC, datetime
from itertools import islice
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lib.ids import UUID7_RANDOM_BYTES, generate_uuid7s, normalize_uuid
from hedgerow.lib.tokens import RandomBytesPool
from tests.unit.generated import bounded

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CANONICAL = "01a1dc84-37c5-7927-ac02-855ee6f528bc"


@pytest.mark.parametrize("randomness", [bytes(10), b"\xff" * 10, b"0123456789"])
def test_uuids_of_one_batch_ascend(randomness: bytes) -> None:
    made = list(islice(generate_uuid7s(NOON, randomness), 10_000))
    assert made == sorted(set(made))
    for text in (made[0], made[-1]):
        uuid = UUID(text)
        assert str(uuid) == text
        assert uuid.version == 7
        assert uuid.int >> 80 == NOON.timestamp() * 1000


@bounded
@given(
    st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.binary(min_size=UUID7_RANDOM_BYTES, max_size=UUID7_RANDOM_BYTES),
)
def test_generated_uuid_is_canonical_at_any_time(moment: datetime, randomness: bytes) -> None:
    uuid = next(generate_uuid7s(moment, randomness))
    assert normalize_uuid(uuid) is uuid
    assert UUID(uuid).version == 7


def test_different_random_bytes_give_different_uuids() -> None:
    assert next(generate_uuid7s(NOON, b"0123456789")) != next(generate_uuid7s(NOON, b"0123456780"))


@pytest.mark.parametrize(
    "written",
    [
        CANONICAL,
        CANONICAL.upper(),
        CANONICAL.replace("-", ""),
        f"{{{CANONICAL}}}",
        f"urn:uuid:{CANONICAL}",
        f"URN:UUID:{CANONICAL.upper()}",
    ],
)
def test_every_notation_is_normalized(written: str) -> None:
    assert normalize_uuid(written) == CANONICAL


@pytest.mark.parametrize(
    "written",
    [
        "",
        "null",
        "undefined",
        CANONICAL[:-1],
        f"{CANONICAL}0",
        f" {CANONICAL}",
        f"{CANONICAL}\n",
        f"{{{CANONICAL}",
        CANONICAL.replace("0", "g"),
        CANONICAL.replace("0", "٠"),
        CANONICAL.replace("-", "_"),
        "0_1" + "0" * 29,
        "01a1dc8437c5-7927-ac02-855ee6f528bc",
        pytest.param("a" * 1_000_000, id="very long"),
    ],
)
def test_other_text_is_not_a_uuid(written: str) -> None:
    assert normalize_uuid(written) is None


@bounded
@given(st.text() | st.uuids().map(str))
def test_normalization_never_raises(written: str) -> None:
    uuid = normalize_uuid(written)
    assert uuid is None or str(UUID(written)) == uuid


def test_random_bytes_are_never_repeated() -> None:
    randomness = RandomBytesPool()
    taken = [randomness.take_uuid7_bytes() for _ in range(2500)]
    assert {len(each) for each in taken} == {UUID7_RANDOM_BYTES}
    assert len(set(taken)) == len(taken)
