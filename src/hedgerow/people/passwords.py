"""Passwords: the rules for new ones, and Argon2id.

A hash takes 19 MiB and tens of milliseconds on purpose, so one runs at a time, in a thread, and
only a few wait.
"""

import asyncio
import os
import unicodedata
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from hedgerow.errors import Invalid, Unavailable
from hedgerow.lib.optional_packages import LazyPackage
from hedgerow.lib.threads import consume_exception

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.kdf import argon2
else:
    exceptions = LazyPackage("cryptography.exceptions")
    argon2 = LazyPackage("cryptography.hazmat.primitives.kdf.argon2")

MIN_CHARS = 12
MAX_CHARS = 256
MEMORY_KIB = 19 * 1024
ITERATIONS = 2
SALT_BYTES = 16
HASH_BYTES = 32
# Further logins are answered 503 until one of these is done.
MAX_WAITING = 40


class HashInThread(Protocol):
    def __call__(self, work: Callable[[], str | bool], /) -> Awaitable[str | bool]: ...


def check_new_password(password: str, email: str, attr: str = "password") -> None:
    """Raise Invalid for a password that is too short, too long, or the email."""
    if len(password) < MIN_CHARS:
        raise Invalid(
            f"This password is too short. It must contain at least {MIN_CHARS} characters.",
            attr=attr,
            code="password_too_short",
        )
    if len(password) > MAX_CHARS:
        raise Invalid(
            f"Ensure this field has no more than {MAX_CHARS} characters.",
            attr=attr,
            code="max_length",
        )
    if password.lower() == email.lower() or len(set(password)) == 1:
        raise Invalid(
            "This password is easy to guess. Choose several words, or let a password manager "
            "generate one.",
            attr=attr,
            code="password_too_common",
        )


def hash_password(password: str) -> str:
    """Return the hash with its salt and parameters, as a PHC string. Blocks."""
    return _build_argon2().derive_phc_encoded(_encode(password))


def verify_password(password: str, stored: str | None) -> bool:
    """Compare. Without a stored hash it takes the same time and fails. Blocks."""
    try:
        argon2.Argon2id.verify_phc_encoded(_encode(password), stored or _UNKNOWN)
    except exceptions.InvalidKey:
        return False
    return stored is not None


class PasswordHasher:
    """Hashes and verifies passwords in a thread, one at a time."""

    def __init__(self, run_in_thread: HashInThread) -> None:
        self._run_in_thread = run_in_thread
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def hash(self, password: str) -> str:
        return str(await self._run(lambda: hash_password(password)))

    async def verify(self, password: str, stored: str | None) -> bool:
        return bool(await self._run(lambda: verify_password(password, stored)))

    async def _run(self, work: Callable[[], str | bool]) -> str | bool:
        if self._waiting >= MAX_WAITING:
            raise Unavailable("Too many people log in at the moment. Try again shortly.")
        self._waiting += 1
        # It keeps its turn to the end, even if the client disconnects.
        running = asyncio.create_task(self._run_in_turn(work))
        running.add_done_callback(consume_exception)
        return await asyncio.shield(running)

    async def _run_in_turn(self, work: Callable[[], str | bool]) -> str | bool:
        try:
            async with self._turn:
                return await self._run_in_thread(work)
        finally:
            self._waiting -= 1


def _build_argon2() -> "argon2.Argon2id":
    return argon2.Argon2id(
        salt=os.urandom(SALT_BYTES),
        length=HASH_BYTES,
        iterations=ITERATIONS,
        lanes=1,
        memory_cost=MEMORY_KIB,
    )


def _encode(password: str) -> bytes:
    # Keyboards write the same letter in several ways.
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")


# A hash of nothing that anybody can enter, with the parameters of real ones.
_UNKNOWN = (
    f"$argon2id$v=19$m={MEMORY_KIB},t={ITERATIONS},p=1"
    "$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)
