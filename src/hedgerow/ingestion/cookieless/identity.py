"""The id of a cookieless visitor: a hash with a random key for each calendar day.

As in PostHog, the hash is of project, IP address, root domain and user agent. The day is that in
the visitor's time zone, so an id changes at the visitor's midnight.
"""

import hashlib
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId

# The distinct id that posthog-js sends for every cookieless visitor.
SENTINEL_ID = "$posthog_cookieless"
DISTINCT_ID_PREFIX = "cookieless_"
DEVICE_ID_PREFIX = "cookielessd_"
SALT_BYTES = 16
HASH_BYTES = 16
MAX_EXTRA_CHARS = 100
# No clock in the world differs more from UTC.
MAX_UTC_OFFSET = timedelta(hours=14)
DAY = timedelta(days=1)
# Labels below which some countries register domains, such as co.uk.
REGISTRY_LABELS = frozenset(
    {"ac", "co", "com", "edu", "gob", "gov", "go", "ltd", "mil", "ne", "net", "or", "org"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """`extra` is what a website adds to the hash to tell visitors apart."""

    ip: str
    host: str
    user_agent: str
    extra: str = ""


def hash_visitor(salt: bytes, project_id: ProjectId, visitor: Visitor) -> str:
    parts = (
        project_id,
        visitor.ip,
        extract_root_domain(visitor.host),
        visitor.user_agent,
        visitor.extra[:MAX_EXTRA_CHARS],
    )
    return _hash(jsonio.encode(parts), salt)


def format_distinct_id(device: str, number: int) -> str:
    """Return the distinct id of a visitor who was identified `number` times before. After a logout
    a visitor gets a new id, so that the persons of two logins are not merged."""
    return DISTINCT_ID_PREFIX + (_hash(f"{device}-{number}".encode()) if number else device)


def _hash(data: bytes, key: bytes = b"") -> str:
    digest = hashlib.blake2b(data, key=key, digest_size=HASH_BYTES).digest()
    return b64encode(digest).decode().rstrip("=")


def find_local_day(moment: datetime, zone: Any, project_zone: str) -> date:
    """Return the calendar day in the visitor's time zone, or else in that of the project."""
    for name in (zone, project_zone):
        if isinstance(name, str):
            with suppress(KeyError, ValueError, OSError):  # no such zone
                return moment.astimezone(ZoneInfo(name)).date()
    return moment.astimezone(UTC).date()


def is_current(day: date, now: datetime) -> bool:
    """Whether it is this day somewhere in the world, or was until two hours ago."""
    return last_expired_day(now) < day <= (now + MAX_UTC_OFFSET).astimezone(UTC).date()


def last_expired_day(now: datetime) -> date:
    return (now - MAX_UTC_OFFSET - DAY).astimezone(UTC).date()


def extract_root_domain(host: str) -> str:
    """Return the registered domain, with the port, so that all subdomains of a site
    are one. An address stays as it is.

    A list of a few common registries stands in for the public suffix list: below any other one, all
    sites of a project are one site."""
    try:
        parsed = urlsplit(host if "://" in host else f"//{host}")
        name, port = parsed.hostname or host, parsed.port
    except ValueError:
        return host
    root = _extract_domain(name)
    return root if port is None else f"{root}:{port}"


def _extract_domain(name: str) -> str:
    try:
        return str(ip_address(name))
    except ValueError:
        labels = name.rstrip(".").split(".")
    is_registry = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in REGISTRY_LABELS
    return ".".join(labels[-3 if is_registry else -2 :])
