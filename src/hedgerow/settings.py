"""One table of settings. Each is a HEDGEROW_* environment variable; a flag may override it.

Only app/ and the CLI read settings; rooms get plain values.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

PREFIX = "HEDGEROW_"

DEFAULT_DATA = Path("hedgerow-data")

Network = IPv4Network | IPv6Network
Source = Literal["default", "environment", "command line"]


class SettingError(ValueError):
    """A setting has a value we cannot use. The message names the variable and what it takes."""


def text(raw: str) -> str:
    return raw


def whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(raw: str) -> int:
        digits = raw.strip()
        number = int(digits) if digits.isdecimal() and len(digits) < 20 else None
        if number is None or not least <= number <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return number

    return parse


def seconds(least: float, most: float) -> Callable[[str], float]:
    def parse(raw: str) -> float:
        try:
            number = float(raw)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise ValueError(f"a number of seconds from {least:g} to {most:g}")
        return number

    return parse


def switch(raw: str) -> bool:
    word = raw.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("true or false")


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        if raw.strip().lower() not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return raw.strip().lower()

    return parse


def folder(raw: str) -> Path:
    try:
        if raw.strip():
            return Path(raw).expanduser()
    except RuntimeError:  # ~somebody who is not known here
        pass
    raise ValueError("the path of a folder")


def database_url(raw: str) -> str:
    url = raw.strip()
    if url and _scheme(url) not in ("postgresql", "postgres"):
        raise ValueError("postgresql://user:password@host:5432/name, or nothing for SQLite")
    return url


def clickhouse_url(raw: str) -> str:
    url = raw.strip()
    if url and _scheme(url) not in ("http", "https"):
        raise ValueError("http://user:password@host:8123/database, or nothing for the data folder")
    return url


def _scheme(url: str) -> str | None:
    """The scheme of an address that can be read as one, None for anything else."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts.scheme


def public_url(raw: str) -> str:
    url = raw.strip().rstrip("/")
    if url and (_scheme(url) not in ("http", "https") or not urlsplit(url).netloc):
        raise ValueError("an address such as https://flags.example.com, or nothing")
    return url


def web_address(raw: str) -> str:
    url = raw.strip()
    if url and (_scheme(url) not in ("http", "https") or not urlsplit(url).netloc):
        raise ValueError("an address such as https://example.com/hook, or nothing")
    return url


def networks(raw: str) -> tuple[Network, ...]:
    try:
        return tuple(
            ip_network(part.strip(), strict=False) for part in raw.split(",") if part.strip()
        )
    except ValueError:
        raise ValueError("addresses or networks with commas between, such as 10.0.0.0/8") from None


def key(prefix: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        value = raw.strip()
        if value and not (value.startswith(prefix) and value.isascii() and len(value) >= 20):
            raise ValueError(f"{prefix} and at least 16 more characters, or nothing")
        if any(not (c.isalnum() or c in "_-") for c in value):
            raise ValueError(f"{prefix} and letters, digits, _ or - only")
        return value

    return parse


def setting(default: Any, parse: Callable[[str], Any], help: str, *, secret: bool = False) -> Any:
    return field(default=default, metadata={"parse": parse, "help": help, "secret": secret})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting: its default, how its text is read, and what it means."""

    host: str = setting("127.0.0.1", text, "Address to listen on. 0.0.0.0 listens on all.")
    port: int = setting(8000, whole_number(0, 65535), "Port to listen on. 0 takes a free one.")
    data: Path = setting(
        DEFAULT_DATA, folder, "Folder for everything Hedgerow keeps on this machine."
    )
    database_url: str = setting(
        "",
        database_url,
        "postgresql://… keeps the state in PostgreSQL. Empty: SQLite in the data folder.",
        secret=True,
    )
    database_pool_size: int = setting(
        10, whole_number(1, 200), "Most PostgreSQL connections one process opens."
    )
    database_timeout_s: float = setting(
        5.0,
        seconds(0.1, 300),
        "How long to wait for a connection or for another writer's lock before answering 503.",
    )
    clickhouse_url: str = setting(
        "",
        clickhouse_url,
        "http://user:password@host:8123/database keeps events in ClickHouse. Empty: in the data "
        "folder.",
        secret=True,
    )
    inbox_max_events: int = setting(
        1_000_000,
        whole_number(1, 1_000_000_000),
        "Most events that may wait to be processed. Beyond it senders are answered 503.",
    )
    min_free_mb: int = setting(
        256,
        whole_number(0, 1_000_000_000),
        "Megabytes that the disk must have free for events to be accepted.",
    )
    read_wait_s: float = setting(
        2.0,
        seconds(0, 60),
        "How long those who read wait for events that were accepted before they asked.",
    )
    delivery_days: int = setting(
        7,
        whole_number(1, 365),
        "Days that events wait for a destination that takes none. Then they count as dead.",
    )
    dead_delivery_days: int = setting(
        30,
        whole_number(1, 3650),
        "Days that dead deliveries are kept, to be looked at and retried.",
    )
    delivered_days: int = setting(
        90,
        whole_number(1, 3650),
        "Days for which it is known what a destination got, so that a replay leaves it out.",
    )
    allow_private_destinations: bool = setting(
        False,
        switch,
        "Let destinations reach addresses of this machine and of private networks.",
    )
    imports_folder: str = setting(
        "",
        text,
        "Folder with a folder for each project, by its number, that its import apps may read files "
        "below. Empty: imports in the data folder.",
    )
    exports_folder: str = setting(
        "",
        text,
        "Folder that destinations may write files below. Empty: exports in the data folder.",
    )
    notification_url: str = setting(
        "",
        web_address,
        "Where to tell that a destination was paused or works again, as a webhook. Empty: nowhere.",
    )
    notification_secret: str = setting(
        "", text, "Signs these notifications, in the form of Standard Webhooks.", secret=True
    )
    server_url: str = setting(
        "",
        public_url,
        "Where verbs that ask a running service find it. Empty: at the host and port set here.",
    )
    public_url: str = setting(
        "",
        public_url,
        "The address clients use, for links in answers. Empty: taken from each request.",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        (),
        networks,
        "Proxies whose X-Forwarded-For, -Proto and -Host are believed, as addresses or networks.",
    )
    max_body_bytes: int = setting(
        10 * 1024 * 1024,
        whole_number(1024, 1024 * 1024 * 1024),
        "Largest request body under /api. Anything larger is answered 413.",
    )
    body_timeout_s: float = setting(
        30.0, seconds(0.1, 3600), "How long a client may take to send its headers or its body."
    )
    sealing_keys: str = setting(
        "",
        text,
        "Keys that seal stored secrets, newest first. Empty: kept in the data folder.",
        secret=True,
    )
    geoip_file: str = setting(
        "",
        text,
        "A file in MaxMind's format that tells where addresses are. Empty: that of the package "
        "maxminddb-geolite2 if it is installed, else none.",
    )
    sdk_scripts: str = setting(
        "",
        text,
        "A folder with the scripts of posthog-js, for pages that load them from here.",
    )
    rate_limits: bool = setting(
        False, switch, "Limit each personal key to 480 calls a minute and 4800 an hour."
    )
    project_key: str = setting(
        "", key("phc_"), "The project key with which `hedgerow import` sends events."
    )
    personal_key: str = setting(
        "", key("phx_"), "The personal key with which such verbs ask.", secret=True
    )
    log_level: str = setting(
        "info", one_of("debug", "info", "warning", "error"), "Least important level to log."
    )
    log_format: str = setting(
        "auto",
        one_of("auto", "human", "json"),
        "How log lines look. auto: human on a terminal, JSON otherwise.",
    )
    shutdown_grace_s: float = setting(
        1.0, seconds(0, 600), "How long requests under way may finish after a stop signal."
    )
    bootstrap_project_key: str = setting(
        "", key("phc_"), "First project key, instead of a random one. Used on the first start only."
    )
    bootstrap_personal_key: str = setting(
        "",
        key("phx_"),
        "First personal key, instead of a random one. Used on the first start only.",
        secret=True,
    )

    @property
    def imports(self) -> Path:
        return (
            Path(self.imports_folder).expanduser() if self.imports_folder else self.data / "imports"
        )

    @property
    def exports(self) -> Path:
        return (
            Path(self.exports_folder).expanduser() if self.exports_folder else self.data / "exports"
        )

    @property
    def sqlite_path(self) -> Path:
        return self.data / "hedgerow.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where one setting's value came from, for `hedgerow settings`."""

    variable: str
    help: str
    shown: str
    source: Source


def variable(name: str) -> str:
    return PREFIX + name.upper()


def load(
    environment: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> tuple[Settings, list[Origin]]:
    """Settings from flags, then environment, then defaults, with the origin of each."""
    values: dict[str, Any] = {}
    origins: list[Origin] = []
    for entry in fields(Settings):
        value, source = _value_of(entry, environment, overrides or {})
        values[entry.name] = value
        origins.append(
            Origin(
                variable=variable(entry.name),
                help=entry.metadata["help"],
                shown=_shown(value, secret=entry.metadata["secret"]),
                source=source,
            )
        )
    return Settings(**values), origins


def _value_of(
    entry: Field[Any], environment: Mapping[str, str], overrides: Mapping[str, Any]
) -> tuple[Any, Source]:
    if overrides.get(entry.name) is not None:
        return overrides[entry.name], "command line"
    raw = environment.get(variable(entry.name))
    if raw is None:
        assert entry.default is not MISSING
        return entry.default, "default"
    try:
        return entry.metadata["parse"](raw), "environment"
    except ValueError as wanted:
        shown = "the value given" if entry.metadata["secret"] else repr(raw)
        raise SettingError(f"{variable(entry.name)} takes {wanted}, not {shown}.") from None


def unknown_variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    """HEDGEROW_* variables that mean nothing to us, each with the name that was probably meant."""
    known = [entry.name.upper() for entry in fields(Settings)]
    unknown = [
        name.removeprefix(PREFIX)
        for name in sorted(environment)
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in known
    ]
    meant = {name: difflib.get_close_matches(name, known, n=1) for name in unknown}
    return {PREFIX + name: PREFIX + close[0] if close else None for name, close in meant.items()}


def without_password(url: str) -> str:
    parts = urlsplit(url)
    query = re.sub(r"((?:^|&)\w*password=)[^&]*", r"\1***", parts.query, flags=re.IGNORECASE)
    host, user = parts.netloc.rpartition("@")[2], parts.username or ""
    netloc = f"{user}:***@{host}" if parts.password else parts.netloc
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def _shown(value: Any, *, secret: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    shown = str(value)
    if not secret or not shown:
        return shown
    return without_password(shown) if "://" in shown else "***"
