"""Limits of attempts to log in, which an attacker cannot use up for someone else.

Attempts are counted per account and address, per address, and per account as a whole. A browser in
which a person has logged in before has a count of its own instead: it keeps working while others
guess the password of the account.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hedgerow.errors import RateLimitExceeded
from hedgerow.lib.encryption import Cipher, DecryptionError
from hedgerow.lib.tokens import generate_token, hash_token
from hedgerow.people.model import Browser, Credentials
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
TOTAL_CODE_ATTEMPTS = 50
DEVICE_TIME = timedelta(days=365)
_DEVICE_BITS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBuckets:
    """Where an attempt counts. After a success some of them are forgotten, others reduced."""

    limits: Mapping[str, int]
    codes: Mapping[str, int] = field(default_factory=dict)
    forgotten: Sequence[str] = ()
    reduced: Sequence[str] = ()


class LoginAttempts:
    """Counts in the database, before anything is compared: for all processes, for requests at the
    same time, and for accounts that do not exist."""

    def __init__(self, store: LoginStore, load_cipher: Callable[[], Cipher]) -> None:
        self._store = store
        self._load_cipher = load_cipher

    def find_buckets(
        self, email: str, credentials: Credentials | None, browser: Browser, now: datetime
    ) -> AttemptBuckets:
        account = _hash_account(email)
        # Whoever knows the password can get any number of devices, so codes count for all as well.
        all_codes = f"all codes {account}"
        device = self._read_device(browser.device, account, credentials, now)
        if device:
            bucket, codes = f"device {device}", f"codes {device}"
            return AttemptBuckets(
                limits={bucket: DEVICE_ATTEMPTS},
                codes={codes: CODE_ATTEMPTS, all_codes: TOTAL_CODE_ATTEMPTS},
                forgotten=(bucket, codes),
                reduced=(all_codes,) if _has_code(credentials) else (),
            )
        pair, total = f"account {account} {browser.group}", f"account {account}"
        address = f"address {browser.group}"
        codes = f"codes {account}"
        return AttemptBuckets(
            limits={pair: ACCOUNT_ATTEMPTS, total: TOTAL_ATTEMPTS, address: ADDRESS_ATTEMPTS},
            codes={codes: CODE_ATTEMPTS, all_codes: TOTAL_CODE_ATTEMPTS},
            forgotten=(pair, codes),
            reduced=(total, address, all_codes) if _has_code(credentials) else (total, address),
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

    def issue_device(
        self, email: str, credentials: Credentials | None, browser: Browser, now: datetime
    ) -> str:
        """Return what a browser keeps that has logged in to this account."""
        account = _hash_account(email)
        if self._read_device(browser.device, account, credentials, now):
            return browser.device
        id, version = generate_token("", _DEVICE_BITS), _hash_credentials(credentials)
        return self._load_cipher().encrypt([account, id, now.timestamp(), version])

    def _read_device(
        self, value: str, account: str, credentials: Credentials | None, now: datetime
    ) -> str:
        """Return the id of a browser that has logged in to the account since its password and
        second factor were set, "" for others."""
        if not value:
            return ""
        try:
            known, id, at, version = self._load_cipher().decrypt(value)
        except (DecryptionError, ValueError, TypeError):
            return ""
        age = now - datetime.fromtimestamp(float(at), UTC)
        is_current = known == account and version == _hash_credentials(credentials)
        return str(id) if is_current and age < DEVICE_TIME else ""


def _has_code(credentials: Credentials | None) -> bool:
    return credentials is not None and credentials.totp_secret is not None


def _hash_credentials(credentials: Credentials | None) -> str:
    if credentials is None:
        return ""
    return hash_token(f"{credentials.password_hash} {credentials.totp_secret}")


def _hash_account(email: str) -> str:
    return hash_token(email.strip().lower())
