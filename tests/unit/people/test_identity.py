"""Which email of a provider counts."""

import pytest

from hedgerow.people.oidc.login import read_identity


def _read_email(email: object, **claims: object) -> str:
    found = {"sub": "1", "email": email, "email_verified": True, **claims}
    return read_identity(found, trusts_emails=False).email


def test_a_verified_plain_address_counts() -> None:
    assert _read_email("Ann@Example.com") == "ann@example.com"
    assert _read_email("ann@example.com", email_verified=False) == ""


@pytest.mark.parametrize(
    "email",
    [
        *("ann@example.com\n", "\nann@example.com", "ann@example.com ", " ann@example.com"),
        *("ann@example.com\r\n", "ann@example.com\x00", "ann@exa\nmple.com", "ann@example.com\x1f"),
        *("Ann <ann@example.com>", "ann@example.com,bob@example.com", "İ@example.com", "", None, 5),
        ["ann@example.com"],
    ],
)
def test_nothing_else_counts(email: object) -> None:
    assert _read_email(email) == ""
