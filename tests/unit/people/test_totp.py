import base64
from datetime import UTC, datetime

import pytest

from hedgerow.people import totp

SECRET = base64.b32encode(b"12345678901234567890").decode()


@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_are_those_of_the_rfc(seconds: int, code: str) -> None:
    """RFC 6238, appendix B, with six digits."""
    assert totp.compute_code(SECRET, seconds // 30) == code


@pytest.mark.parametrize(
    ("offset", "is_valid"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)]
)
def test_code_is_valid_for_a_step_around_now(offset: int, is_valid: bool) -> None:
    now = datetime.fromtimestamp(1_000_000_000, UTC)
    step = 1_000_000_000 // 30 + offset
    found = totp.find_step(SECRET, totp.compute_code(SECRET, step), now)
    assert found == (step if is_valid else None)


@pytest.mark.parametrize("code", ["", "é", "12345", "1234567", "١٢٣٤٥٦", "\ud800"])
def test_odd_text_is_no_code(code: str) -> None:
    assert totp.find_step(SECRET, code, datetime.fromtimestamp(59, UTC)) is None
    assert not totp.is_totp_code(code)


def test_recovery_codes_are_distinct_and_compared_without_separators() -> None:
    codes = totp.generate_recovery_codes()
    assert len(set(codes)) == totp.RECOVERY_CODES
    assert all(len(code) == 19 for code in codes)
    plain = codes[0].replace("-", "").upper()
    assert totp.hash_recovery_code(f" {plain} ") == totp.hash_recovery_code(codes[0])


def test_uri_names_issuer_and_account() -> None:
    uri = totp.build_uri(SECRET, "ann@example.com", "Hedge & Row")
    assert uri == (
        "otpauth://totp/Hedge%20%26%20Row:ann@example.com"
        f"?secret={SECRET}&issuer=Hedge%20%26%20Row&digits=6&period=30"
    )
