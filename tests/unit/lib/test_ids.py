from datetime import UTC, datetime
from itertools import islice
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lib.ids import UUID7_RANDOM_BYTES, canonical_uuid, uuid7s
from tests.unit.generated import bounded

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CANONICAL = "01a1dc84-37c5-7927-ac02-855ee6f528bc"


@pytest.mark.parametrize("randomness", [bytes(10), b"\xff" * 10, b"0123456789"])
def test_ids_made_in_one_go_are_in_their_order(randomness: bytes) -> None:
    made = list(islice(uuid7s(NOON, randomness), 10_000))
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
def test_an_id_of_any_moment_is_a_canonical_one(moment: datetime, randomness: bytes) -> None:
    uuid = next(uuid7s(moment, randomness))
    assert canonical_uuid(uuid) is uuid
    assert UUID(uuid).version == 7


def test_other_randomness_makes_other_ids() -> None:
    assert next(uuid7s(NOON, b"0123456789")) != next(uuid7s(NOON, b"0123456780"))


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
def test_every_way_of_writing_an_id_is_the_same_id(written: str) -> None:
    assert canonical_uuid(written) == CANONICAL


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
def test_other_text_is_no_id(written: str) -> None:
    assert canonical_uuid(written) is None


@bounded
@given(st.text() | st.uuids().map(str))
def test_no_text_is_too_strange_to_ask_about(written: str) -> None:
    uuid = canonical_uuid(written)
    assert uuid is None or str(UUID(written)) == uuid
