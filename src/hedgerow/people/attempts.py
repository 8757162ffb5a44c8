"""Limits of attempts to log in, which an attacker cannot use up for someone else.

Attempts are counted per account and address, per address, and per account as a whole. A browser in
which a person has logged in before has a count of its own instead: it keeps working while others
guess the password of the account.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hedgerow.errors import RateLimitExceeded
from hedgerow.lib.encryption import Cipher, DecryptionError
from hedgerow.lib.tokens import generate_token, hash_token
from hedgerow.people.model import Browser
from hedgerow.people.store import LoginStore

ATTEMPT_WINDOW = timedelta(minutes=15)
# For one account: from one address, from one known browser, and from all other browsers.
ACCOUNT_ATTEMPTS = 10
DEVICE_ATTEMPTS = 10
TOTAL_ATTEMPTS = 100
# For all accounts.
ADDRESS_ATTEMPTS = 50
# Codes for one account, after the right password.
CODE_ATTEMPTS = 10
DEVICE_TIME = timedelta(days=365)
_DEVICE_BITS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBuckets:
    """Where an attempt counts. After a success some of them are forgotten, others reduced."""

    limits: Mapping[str, int]
    codes: str
    forgotten: Sequence[str] = ()
    reduced: Sequence[str] = ()


class LoginAttempts:
    """Counts in the database, before anything is compared: for all processes, for requests at the
    same time, and for accounts that do not exist."""

    def __init__(self, store: LoginStore, load_cipher: Callable[[], Cipher]) -> None:
        self._store = store
        self._load_cipher = load_cipher

    def find_buckets(self, email: str, browser: Browser, now: datetime) -> AttemptBuckets:
        account = _hash_account(email)
        device = self._read_device(browser.device, account, now)
        if device:
            bucket = f"device {device}"
            return AttemptBuckets(
                limits={bucket: DEVICE_ATTEMPTS},
                codes=f"codes {device}",
                forgotten=(bucket, f"codes {device}"),
            )
        pair, total = f"account {account} {browser.group}", f"account {account}"
        address = f"address {browser.group}"
        return AttemptBuckets(
            limits={pair: ACCOUNT_ATTEMPTS, total: TOTAL_ATTEMPTS, address: ADDRESS_ATTEMPTS},
            codes=f"codes {account}",
            forgotten=(pair, f"codes {account}"),
            reduced=(total, address),
        )

    async def count(
        self,
        limits: Mapping[str, int],
        now: datetime,
        *,
        window: timedelta = ATTEMPT_WINDOW,
        excess: str = "too many attempts to log in",
    ) -> None:
        """Raise RateLimitExceeded if one of the buckets is at its limit."""
        until = await self._store.count_attempt(limits, now + window, now)
        if until is not None:
            wait_s = math.ceil((until - now).total_seconds())
            raise RateLimitExceeded(excess, max(1, wait_s))

    async def use_once(self, bucket: str, now: datetime) -> bool:
        """Return False if this has been used before."""
        return await self._store.count_attempt({bucket: 1}, now + ATTEMPT_WINDOW, now) is None

    async def forgive(self, buckets: AttemptBuckets) -> None:
        await self._store.forgive_attempt(buckets.forgotten, buckets.reduced)

    def issue_device(self, email: str, browser: Browser, now: datetime) -> str:
        """Return what a browser keeps that has logged in to this account."""
        if self._read_device(browser.device, _hash_account(email), now):
            return browser.device
        id = generate_token("", _DEVICE_BITS)
        return self._load_cipher().encrypt([_hash_account(email), id, now.timestamp()])

    def _read_device(self, value: str, account: str, now: datetime) -> str:
        """Return the id of a browser that has logged in to the account, "" for others."""
        if not value:
            return ""
        try:
            known, id, at = self._load_cipher().decrypt(value)
        except (DecryptionError, ValueError, TypeError):
            return ""
        age = now - datetime.fromtimestamp(float(at), UTC)
        return str(id) if known == account and age < DEVICE_TIME else ""


def _hash_account(email: str) -> str:
    return hash_token(email.strip().lower())
