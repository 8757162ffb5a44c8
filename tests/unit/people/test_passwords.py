import asyncio
from collections.abc import Callable

import pytest

from hedgerow.errors import Invalid, Unavailable
from hedgerow.people.passwords import (
    MAX_WAITING,
    PasswordHasher,
    check_new_password,
    hash_password,
    verify_password,
)


def test_hash_has_the_parameters_and_a_salt() -> None:
    first, second = hash_password("correct horse"), hash_password("correct horse")
    assert first.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert first != second
    assert verify_password("correct horse", first)
    assert not verify_password("correct horsf", first)


def test_unknown_account_is_compared_with_the_same_parameters_and_fails() -> None:
    assert not verify_password("", None)
    assert not verify_password("correct horse", None)


def test_equal_letters_are_equal_and_odd_text_is_no_error() -> None:
    assert verify_password("caf\u0065\u0301 \u212b", hash_password("caf\u00e9 \u00c5"))
    assert not verify_password("\ud800\x00", hash_password("x"))


@pytest.mark.parametrize(
    ("password", "code"),
    [
        ("eleven char", "password_too_short"),
        ("x" * 257, "max_length"),
        ("ANN@example.com", "password_too_common"),
        ("aaaaaaaaaaaaaaaa", "password_too_common"),
    ],
)
def test_weak_password_is_refused(password: str, code: str) -> None:
    with pytest.raises(Invalid) as raised:
        check_new_password(password, "ann@example.com")
    assert raised.value.code == code


async def test_one_runs_at_a_time_and_few_wait() -> None:
    running = most = calls = 0
    go = asyncio.Event()

    async def run(work: Callable[[], str | bool]) -> str | bool:
        nonlocal running, most, calls
        running, calls = running + 1, calls + 1
        most = max(most, running)
        await go.wait()
        running -= 1
        return True

    hasher = PasswordHasher(run)
    waiting = [asyncio.create_task(hasher.verify("x", None)) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await hasher.verify("x", None)
    await asyncio.sleep(0)
    waiting[0].cancel()  # its client has disconnected, and its hash goes on
    await asyncio.sleep(0)
    assert calls == 1
    go.set()
    await asyncio.gather(*waiting[1:])
    assert (most, calls) == (1, MAX_WAITING)
    assert await hasher.verify("x", None)
