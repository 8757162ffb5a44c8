import hashlib
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.flags.evaluation.bucket import (
    FULL_ROLLOUT,
    HOLDOUT,
    SCALE,
    VARIANT,
    bucket_position,
    encode_identifier,
    hasher,
    limit_below,
    limit_up_to,
    select_hasher,
)
from tests.unit.flags.factories import build_filters, evaluate_flag, loaded_context, variants
from tests.unit.generated import bounded

percentages = st.integers(0, 100) | st.floats(0, 100) | st.floats(0, 1e-12)
numbers = st.integers(0, 2**60 - 1)


def reference_position(text: str) -> float:
    """Compute the documented formula: 15 hexadecimal digits over 15 F."""
    return int(hashlib.sha1(text.encode()).hexdigest()[:15], 16) / float(0xFFFFFFFFFFFFFFF)


def digest_at(number: int, rest: bytes = bytes(12)) -> bytes:
    """Return a digest whose first 60 bits are the number."""
    return (number << 4 | rest[0] >> 4).to_bytes(8, "big") + rest


@pytest.mark.parametrize(
    ("prefix", "identifier", "salt", "digits", "value"),
    [
        ("simple-flag.", "distinct_id_0", "", "c8a05362b9f414f", 0.7836963764220432),
        ("simple-flag.", "distinct_id_1", "", "56f70997ddf6067", 0.3397069926995401),
        ("multivariate-flag.", "distinct_id_0", "variant", "9e5f8c67dc34910", 0.6186454537930379),
        ("beta-feature.", "user_123", "", "68a7741b798fa95", 0.40880513830921805),
        ("beta-feature.", "user_123", "variant", "31b0ecfa024501c", 0.19410592178089206),
        ("group-flag.", "acme-inc", "", "7166e71305fb4ad", 0.4429764195865406),
        ("holdout-", "user_123", "", "", 0.24823847221312947),
        ("holdout-", "acme-inc", "", "", 0.09653386325608826),
    ],
)
def test_bucket_positions_match_posthog(
    prefix: str, identifier: str, salt: str, digits: str, value: float
) -> None:
    text = prefix + identifier + salt
    assert bucket_position(prefix.encode(), identifier.encode(), salt.encode()) == value
    assert reference_position(text) == value
    digest = hasher(text.encode()).digest()
    assert digest.hex().startswith(digits)
    assert digest < limit_up_to(value)
    assert not digest < limit_below(value)


def test_prefixes_match_posthog() -> None:
    assert (HOLDOUT, VARIANT) == (b"holdout-", b"variant")


def test_empty_identifier_is_at_zero() -> None:
    assert bucket_position(b"flag.", b"") == 0.0
    assert select_hasher(b"")(b"flag.").digest() == bytes(20)
    assert select_hasher(b"x") is hasher


@given(percentages, st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
@bounded
def test_limit_agrees_with_the_formula(percentage: float, identifier: str) -> None:
    share = percentage / 100
    text = f"flag.{identifier}"
    digest = hasher(text.encode()).digest()
    assert (digest < limit_up_to(share)) is (reference_position(text) <= share)
    assert (digest < limit_below(share)) is (reference_position(text) < share)


@given(numbers, st.integers(-3, 3), st.binary(min_size=12, max_size=12))
@example(0, 0, bytes(12))
@example(2**60 - 1, 0, b"\xff" * 12)
@bounded
def test_limit_is_exact_at_a_bucket_position(number: int, off: int, rest: bytes) -> None:
    """The share is the bucket position of the number, or a few floats off."""
    share = number / SCALE
    for _ in range(abs(off)):
        share = math.nextafter(share, math.inf if off > 0 else -math.inf)
    at = float(number) / SCALE
    digest = digest_at(number, rest)
    assert (digest < limit_up_to(share)) is (at <= share)
    assert (digest < limit_below(share)) is (at < share)


@given(st.integers(0, 10_000), st.integers(-70, 70))
@bounded
def test_limit_is_exact_around_every_hundredth_of_a_percent(hundredths: int, off: int) -> None:
    share = hundredths / 100 / 100
    number = min(max(int(share * SCALE) + off, 0), 2**60 - 1)
    digest = digest_at(number)
    assert (digest < limit_up_to(share)) is (float(number) / SCALE <= share)
    assert (digest < limit_below(share)) is (float(number) / SCALE < share)


def test_shares_out_of_range_are_clamped() -> None:
    last, first = b"\xff" * 20, bytes(20)
    for share in (1.0, 1.5, math.inf):
        assert limit_up_to(share) == FULL_ROLLOUT
        assert last < limit_up_to(share)
    # The last positions are rounded to 1.0, which is not less than 1.
    assert not last < limit_below(1.0)
    assert last < limit_below(1.01)
    for share in (-0.01, -math.inf, math.nan):
        assert not first < limit_up_to(share)
    assert first < limit_up_to(0.0)
    assert not first < limit_below(0.0)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5))
@bounded
def test_limits_grow_with_the_share(shares: list[float]) -> None:
    ordered = sorted(shares)
    for limit in (limit_up_to, limit_below):
        limits = [limit(share) for share in ordered]
        assert limits == sorted(limits)


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [("ü", b"\xc3\xbc"), (5, b"5"), ("", b""), ("\ud800", b"\xed\xa0\x80")],
)
def test_identifiers_are_encoded_as_utf_8(identifier: object, expected: bytes) -> None:
    assert encode_identifier(identifier) == expected


def test_rollout_agrees_with_the_formula() -> None:
    """The flag and share are those of the consistency tests in PostHog's SDKs."""
    filters = build_filters({"rollout_percentage": 45})
    for number in range(1000):
        outcome = evaluate_flag(
            filters, loaded_context(id=f"distinct_id_{number}"), key="simple-flag"
        )
        inside = reference_position(f"simple-flag.distinct_id_{number}") <= 0.45
        assert outcome.value is inside


def test_variants_agree_with_the_formula() -> None:
    shares = {"first": 50.0, "second": 20.0, "third": 20.0, "fourth": 5.0, "fifth": 5.0}
    filters = build_filters({"rollout_percentage": 55}, multivariate=variants(**shares))
    for number in range(1000):
        id = f"distinct_id_{number}"
        expected: bool | str = False
        if reference_position(f"multivariate-flag.{id}") <= 0.55:
            end, at = 0.0, reference_position(f"multivariate-flag.{id}variant")
            expected = True
            for variant, percentage in shares.items():
                end += percentage / 100
                if at < end:
                    expected = variant
                    break
        outcome = evaluate_flag(filters, loaded_context(id=id), key="multivariate-flag")
        assert outcome.value == expected
