"""Parsers of settings, and how a setting is defined. A parser raises ValueError with what it
expects.
"""

import re
from collections.abc import Callable
from dataclasses import field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hedgerow.lib.text import is_plain_email

MIN_RATE, MAX_RATE = 0.1, 1_000_000.0
# An edge process holds a stream per key.
MAX_EDGE_KEYS = 100

Network = IPv4Network | IPv6Network


def parse_text(raw: str) -> str:
    return raw


def parse_whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(raw: str) -> int:
        digits = raw.strip()
        number = int(digits) if digits.isdecimal() and len(digits) < 20 else None
        if number is None or not least <= number <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return number

    return parse


def parse_seconds(least: float, most: float) -> Callable[[str], float]:
    def parse(raw: str) -> float:
        try:
            number = float(raw)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise ValueError(f"a number of seconds from {least:g} to {most:g}")
        return number

    return parse


def parse_rate(raw: str) -> float:
    try:
        number = float(raw)
    except ValueError:
        number = float("nan")
    if number != 0 and not MIN_RATE <= number <= MAX_RATE:
        raise ValueError(f"a number from {MIN_RATE:g} to {MAX_RATE:,.0f}, or 0")
    return number


def parse_boolean(raw: str) -> bool:
    word = raw.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("true or false")


def parse_choice(*choices: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        if raw.strip().lower() not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return raw.strip().lower()

    return parse


def parse_directory(raw: str) -> Path:
    try:
        if raw.strip():
            return Path(raw).expanduser()
    except RuntimeError:  # the user after ~ does not exist
        pass
    raise ValueError("the path of a directory")


def parse_database_url(raw: str) -> str:
    url = raw.strip()
    if url and _scheme(url) not in ("postgresql", "postgres"):
        raise ValueError("postgresql://user:password@host:5432/name, or an empty value for SQLite")
    return url


def parse_clickhouse_url(raw: str) -> str:
    url = raw.strip()
    if url and _scheme(url) not in ("http", "https"):
        raise ValueError("http://user:password@host:8123/database, or an empty value for chDB")
    return url


def parse_inbox_url(raw: str) -> str:
    urls = [part.strip() for part in raw.split(",") if part.strip()]
    if any(_scheme(url) not in ("nats", "tls") or not urlsplit(url).netloc for url in urls):
        raise ValueError("nats://user:password@host:4222, or an empty value for the database")
    return ",".join(urls)


def _scheme(url: str) -> str | None:
    """Return the URL's scheme, or None if the text is not a valid URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts.scheme


def parse_host(raw: str) -> str:
    host = raw.strip()
    if any(each in host for each in "/@?# "):
        raise ValueError("an address or a host name, such as 0.0.0.0")
    return host


def parse_server_url(raw: str) -> str:
    url = raw.strip().rstrip("/")
    is_http = _scheme(url) in ("http", "https") and bool(urlsplit(url).netloc)
    if url and (not is_http or any(each in url for each in "?# ")):
        raise ValueError("a URL such as https://flags.example.com, or an empty value")
    return url


def parse_public_url(raw: str) -> str:
    url = parse_server_url(raw)
    if "@" in urlsplit(url).netloc:  # responses contain it
        raise ValueError("a URL without a user and a password, such as https://flags.example.com")
    return url


def parse_webhook_url(raw: str) -> str:
    url = raw.strip()
    if url and (_scheme(url) not in ("http", "https") or not urlsplit(url).netloc):
        raise ValueError("a URL such as https://example.com/hook, or an empty value")
    return url


def parse_networks(raw: str) -> tuple[Network, ...]:
    try:
        return tuple(
            ip_network(part.strip(), strict=False) for part in raw.split(",") if part.strip()
        )
    except ValueError:
        raise ValueError("comma-separated addresses or networks, such as 10.0.0.0/8") from None


def parse_key(prefix: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        value = raw.strip()
        if value and not (value.startswith(prefix) and value.isascii() and len(value) >= 20):
            raise ValueError(f"{prefix} and at least 16 more characters, or an empty value")
        if any(not (c.isalnum() or c in "_-") for c in value):
            raise ValueError(f"{prefix} and letters, digits, _ or - only")
        return value

    return parse


def parse_edge_keys(raw: str) -> tuple[str, ...]:
    """Parse secret keys, and personal keys with the id of a project: `phs_…,phx_…:3`."""
    found = tuple(filter(None, (each.strip() for each in raw.split(","))))
    for each in found:
        if (
            re.fullmatch(r"phs_[\w-]{16,200}|phx_[\w-]{16,200}(:[0-9]{1,18})?", each, re.ASCII)
            is None
        ):
            raise ValueError("secret keys (phs_…), or personal keys (phx_…:PROJECT), with commas")
    if len(found) > MAX_EDGE_KEYS:
        raise ValueError(f"at most {MAX_EDGE_KEYS} keys")
    return tuple(dict.fromkeys(found))


def parse_owner_email(raw: str) -> str:
    email = raw.strip(" ").lower()
    if email and not is_plain_email(email):
        raise ValueError("an email address, or an empty value")
    return email


def parse_owner_password(raw: str) -> str:
    if raw and not 12 <= len(raw) <= 256:
        raise ValueError("12 to 256 characters, or an empty value")
    return raw


def define_setting(
    default: Any,
    parse: Callable[[str], Any],
    help: str,
    *,
    secret: bool = False,
    old_name: str = "",
) -> Any:
    """`old_name` is the name that the previous release used; it is still read for one release."""
    metadata = {"parse": parse, "help": help, "secret": secret, "old_name": old_name}
    return field(default=default, metadata=metadata)
