"""The settings table. Each setting is a HEDGEROW_* environment variable that a command-line option
may override. Only app/ and cli/ read settings; domain packages receive plain values.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from hedgerow.setting_parsers import (
    Network,
    define_setting,
    parse_boolean,
    parse_choice,
    parse_clickhouse_url,
    parse_database_url,
    parse_directory,
    parse_edge_keys,
    parse_host,
    parse_inbox_url,
    parse_key,
    parse_networks,
    parse_owner_email,
    parse_owner_password,
    parse_public_url,
    parse_rate,
    parse_seconds,
    parse_server_url,
    parse_text,
    parse_webhook_url,
    parse_whole_number,
)
from hedgerow.sign_in_settings import SignInSettings

PREFIX = "HEDGEROW_"
# Without a password, the user in such a URL is a token.
NATS_SCHEMES = ("nats", "tls")

DEFAULT_DATA_DIR = Path("hedgerow-data")

Source = Literal["default", "environment", "command line"]


class SettingError(ValueError):
    """A setting has an invalid value. The message names the variable and the expected value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(SignInSettings):
    """Every setting: its default value, its parser and its help text."""

    host: str = define_setting(
        "127.0.0.1", parse_host, "Address to listen on. 0.0.0.0 listens on all interfaces."
    )
    port: int = define_setting(
        8000, parse_whole_number(0, 65535), "Port to listen on. 0 picks a free port."
    )
    data_dir: Path = define_setting(
        DEFAULT_DATA_DIR,
        parse_directory,
        "Directory for all data that Hedgerow keeps on this machine.",
        old_name="data",
    )
    database_url: str = define_setting(
        "",
        parse_database_url,
        "postgresql://… keeps the state in PostgreSQL. Empty: SQLite in the data directory.",
        secret=True,
    )
    database_pool_size: int = define_setting(
        10, parse_whole_number(1, 200), "Maximum PostgreSQL connections per process."
    )
    database_timeout_s: float = define_setting(
        5.0,
        parse_seconds(0.1, 300),
        "How long to wait for a connection or a write lock before answering 503.",
    )
    clickhouse_url: str = define_setting(
        "",
        parse_clickhouse_url,
        "http://user:password@host:8123/database keeps events in ClickHouse. Empty: chDB in the "
        "data directory.",
        secret=True,
    )
    inbox_max_events: int = define_setting(
        1_000_000,
        parse_whole_number(1, 1_000_000_000),
        "Maximum events waiting to be processed. Above it, capture answers 503.",
    )
    inbox_url: str = define_setting(
        "",
        parse_inbox_url,
        "nats://user:password@host:4222 keeps captured events in NATS JetStream until they are "
        "processed. Needs PostgreSQL. Empty: in the database.",
        secret=True,
    )
    inbox_stream_max_mb: int = define_setting(
        1024,
        parse_whole_number(16, 1_000_000_000),
        "Maximum size of the inbox in NATS JetStream, in megabytes. Above it, capture answers 503.",
    )
    min_free_disk_mb: int = define_setting(
        256,
        parse_whole_number(0, 1_000_000_000),
        "Minimum free disk space in megabytes. Below it, capture answers 503.",
        old_name="min_free_mb",
    )
    import_min_free_disk_mb: int = define_setting(
        1024,
        parse_whole_number(0, 1_000_000_000),
        "Minimum free disk space in megabytes, below which imports wait. At least twice the limit "
        "of capture applies.",
    )
    read_after_write_timeout_s: float = define_setting(
        2.0,
        parse_seconds(0, 60),
        "How long a read waits for events that were accepted before it.",
        old_name="read_wait_s",
    )
    delivery_max_age_days: int = define_setting(
        7,
        parse_whole_number(1, 365),
        "Days to retry a delivery before it becomes a dead letter.",
        old_name="delivery_days",
    )
    dead_letter_retention_days: int = define_setting(
        30,
        parse_whole_number(1, 3650),
        "Days to keep dead deliveries for inspection and retry.",
        old_name="dead_delivery_days",
    )
    delivered_retention_days: int = define_setting(
        90,
        parse_whole_number(1, 3650),
        "Days to remember delivered events, so that a replay can skip them.",
        old_name="delivered_days",
    )
    max_enabled_destinations: int = define_setting(
        100,
        parse_whole_number(1, 100_000),
        "Limit of enabled destinations per project.",
    )
    max_enabled_transformations: int = define_setting(
        100,
        parse_whole_number(1, 100_000),
        "Limit of enabled transformations per project.",
    )
    purge_interval_s: float = define_setting(
        3600.0,
        parse_seconds(1, 7 * 24 * 3600),
        "How often deleted persons and events are removed from the files on the disk.",
    )
    allow_private_destinations: bool = define_setting(
        False,
        parse_boolean,
        "Deprecated. Allow destinations to connect to this machine and to all private networks. "
        "Use HEDGEROW_ALLOWED_PRIVATE_NETWORKS.",
    )
    allowed_private_networks: tuple[Network, ...] = define_setting(
        (),
        parse_networks,
        "Private networks that destinations and imports may connect to, such as 10.1.0.0/16.",
    )
    imports_dir: str = define_setting(
        "",
        parse_text,
        "Directory with one subdirectory per project id from which import apps read files. "
        "Empty: imports in the data directory.",
        old_name="imports_folder",
    )
    exports_dir: str = define_setting(
        "",
        parse_text,
        "Directory in which destinations write files. Empty: exports in the data directory.",
        old_name="exports_folder",
    )
    notification_url: str = define_setting(
        "",
        parse_webhook_url,
        "Webhook to call when a destination is paused or resumed. Empty: no notification.",
    )
    notification_secret: str = define_setting(
        "",
        parse_text,
        "Secret that signs the notifications, as specified by Standard Webhooks.",
        secret=True,
    )
    server_url: str = define_setting(
        "",
        parse_server_url,
        "URL of the running service, for commands that call it. Empty: the host and port above.",
    )
    project: int = define_setting(
        0,
        parse_whole_number(0, 2**31 - 1),
        "Project id for commands, if there are several projects. 0: the only one.",
    )
    public_url: str = define_setting(
        "",
        parse_public_url,
        "URL that clients use, for links in responses. Empty: taken from each request.",
    )
    processes: int = define_setting(
        1,
        parse_whole_number(1, 64),
        "Processes of `hedgerow serve` on one port. On SQLite, one has the data, and the others "
        "answer for flags.",
    )
    edge_keys: tuple[str, ...] = define_setting(
        (),
        parse_edge_keys,
        "Secret keys of the projects that `hedgerow edge` serves, separated by commas. A personal "
        "key is followed by : and the id of its project.",
        secret=True,
    )
    edge_poll_interval_s: float = define_setting(
        30.0,
        parse_seconds(1, 3600),
        "How often `hedgerow edge` asks for definitions while it has no stream of changes.",
    )
    edge_forward_timeout_s: float = define_setting(
        1.0,
        parse_seconds(0, 60),
        "How long `hedgerow edge` waits for its origin, for flags that need stored data. 0: never.",
    )
    edge_inbox_max_mb: int = define_setting(
        1024,
        parse_whole_number(0, 1_000_000_000),
        "Maximum size in megabytes of the captured requests that `hedgerow edge` keeps while its "
        "origin is away. Above it, capture returns 503. 0: it keeps none.",
    )
    edge_inbox_give_up_s: float = define_setting(
        300.0,
        parse_seconds(1, 86_400),
        "How long `hedgerow edge` sends a captured request again that its origin answers with 500, "
        "before it becomes a dead letter.",
    )
    metrics_port: int = define_setting(
        0,
        parse_whole_number(0, 65535),
        "Port for the metrics and the probes. 0: the metrics are on the port of the service.",
    )
    metrics_host: str = define_setting(
        "127.0.0.1",
        parse_host,
        "Address to listen on for the metrics, if they have their own port.",
    )
    trusted_proxies: tuple[Network, ...] = define_setting(
        (),
        parse_networks,
        "Proxies whose X-Forwarded-For, -Proto and -Host headers are trusted, as addresses or "
        "networks.",
    )
    max_connections: int = define_setting(
        0,
        parse_whole_number(0, 1_000_000),
        "Maximum open connections. 0, and the upper limit: what the file descriptor limit allows.",
    )
    max_body_bytes: int = define_setting(
        10 * 1024 * 1024,
        parse_whole_number(1024, 1024 * 1024 * 1024),
        "Maximum request body size under /api. Larger bodies are answered 413. JSON may have at "
        "most 1 MiB.",
    )
    request_read_timeout_s: float = define_setting(
        30.0,
        parse_seconds(0.1, 3600),
        "How long a client may take to send its headers or its body.",
        old_name="body_timeout_s",
    )
    encryption_keys: str = define_setting(
        "",
        parse_text,
        "Comma-separated keys that encrypt stored secrets, newest first. Empty: a key file in the "
        "data directory.",
        secret=True,
        old_name="sealing_keys",
    )
    geoip_file: str = define_setting(
        "",
        parse_text,
        "GeoIP database in MaxMind format. Empty: the one in the package maxminddb-geolite2 if it "
        "is installed, otherwise countries from the package iptocc.",
    )
    sdk_scripts_dir: str = define_setting(
        "",
        parse_text,
        "Directory with the posthog-js scripts to serve to web pages. Empty: none are served.",
        old_name="sdk_scripts",
    )
    rate_limits_enabled: bool = define_setting(
        False,
        parse_boolean,
        "Limit each personal API key to 480 calls per minute and 4800 per hour.",
        old_name="rate_limits",
    )
    project_calls_per_s: float = define_setting(
        10_000.0,
        parse_rate,
        "Limit of /decide calls and of capture calls per second and project. 0: no limit.",
    )
    project_events_per_s: float = define_setting(
        50_000.0, parse_rate, "Limit of captured events per second and project. 0: no limit."
    )
    address_calls_per_s: float = define_setting(
        10_000.0,
        parse_rate,
        "Limit of /decide and capture calls per second and client address. 0: no limit.",
    )
    project_key: str = define_setting(
        "", parse_key("phc_"), "Project API key that `hedgerow import` sends events with."
    )
    personal_key: str = define_setting(
        "",
        parse_key("phx_"),
        "Personal API key for commands that call the running service.",
        secret=True,
    )
    log_level: str = define_setting(
        "info", parse_choice("debug", "info", "warning", "error"), "Minimum level to log."
    )
    log_format: str = define_setting(
        "auto",
        parse_choice("auto", "human", "json"),
        "Log format. auto: human in a terminal, JSON otherwise.",
    )
    shutdown_drain_s: float = define_setting(
        5.0,
        parse_seconds(0, 600),
        "How long to serve requests after SIGTERM, while the readiness check fails. 0: not at all.",
    )
    shutdown_grace_s: float = define_setting(
        1.0,
        parse_seconds(0, 600),
        "How long open requests may take to finish after the server stops listening.",
    )
    bootstrap_project_key: str = define_setting(
        "",
        parse_key("phc_"),
        "First project API key, instead of a random one. Used on the first start only.",
    )
    bootstrap_personal_key: str = define_setting(
        "",
        parse_key("phx_"),
        "First personal API key, instead of a random one. Used on the first start only.",
        secret=True,
    )

    bootstrap_owner_email: str = define_setting(
        "",
        parse_owner_email,
        "Email of the owner. Used on the first start only.",
    )
    bootstrap_owner_password: str = define_setting(
        "",
        parse_owner_password,
        "Password of the owner, instead of a setup link. Used on the first start only.",
        secret=True,
    )

    @property
    def import_min_free_bytes(self) -> int:
        return max(self.import_min_free_disk_mb, 2 * self.min_free_disk_mb) * 1024 * 1024

    @property
    def imports_path(self) -> Path:
        return (
            Path(self.imports_dir).expanduser() if self.imports_dir else self.data_dir / "imports"
        )

    @property
    def exports_path(self) -> Path:
        return (
            Path(self.exports_dir).expanduser() if self.exports_dir else self.data_dir / "exports"
        )

    @property
    def sqlite_path(self) -> Path:
        return self.data_dir / "hedgerow.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOrigin:
    """Source of one setting's value, for `hedgerow settings`."""

    variable: str
    help: str
    display_value: str
    source: Source


def variable_name(name: str) -> str:
    return PREFIX + name.upper()


def load_settings(
    environment: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> tuple[Settings, list[SettingOrigin]]:
    """Load settings from options, then the environment, then defaults, with the origin of each."""
    values: dict[str, Any] = {}
    origins: list[SettingOrigin] = []
    # Those of the base class come last, as in the documentation.
    own_first = sorted(fields(Settings), key=lambda entry: entry in fields(SignInSettings))
    for entry in own_first:
        value, source = _resolve_value(entry, environment, overrides or {})
        values[entry.name] = value
        origins.append(
            SettingOrigin(
                variable=variable_name(entry.name),
                help=entry.metadata["help"],
                display_value=_format_value(
                    value,
                    secret=entry.metadata["secret"],
                    is_webhook=entry.metadata["parse"] is parse_webhook_url,
                ),
                source=source,
            )
        )
    return Settings(**values), origins


def _resolve_value(
    entry: Field[Any], environment: Mapping[str, str], overrides: Mapping[str, Any]
) -> tuple[Any, Source]:
    value = overrides.get(entry.name)
    if isinstance(value, str):
        name = variable_name(entry.name)
        return _parse_value(entry, value, f"The value given for {name}"), "command line"
    if value is not None:
        return value, "command line"
    name = variable_name(entry.name)
    if name not in environment and entry.metadata["old_name"]:
        name = variable_name(entry.metadata["old_name"])
    raw = environment.get(name)
    if raw is None:
        assert entry.default is not MISSING
        return entry.default, "default"
    return _parse_value(entry, raw, name), "environment"


def _parse_value(entry: Field[Any], raw: str, name: str) -> Any:
    try:
        return entry.metadata["parse"](raw)
    except ValueError as expected:
        is_webhook = entry.metadata["parse"] is parse_webhook_url
        # A user name, or the path of a webhook, may be a secret too.
        is_hidden = entry.metadata["secret"] or "@" in raw or (is_webhook and raw.count("/") > 2)
        value = "the value it has" if is_hidden else repr(raw)
        raise SettingError(f"{name} must be {expected}, not {value}.") from None


def find_renamed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables set under their previous name, each with its current name."""
    renamed = {
        variable_name(entry.metadata["old_name"]): variable_name(entry.name)
        for entry in fields(Settings)
        if entry.metadata["old_name"]
    }
    return {old: new for old, new in renamed.items() if old in environment}


def find_unknown_variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the HEDGEROW_* variables that name no setting, each with the closest known name."""
    known = [entry.name.upper() for entry in fields(Settings)]
    old_names = (entry.metadata["old_name"].upper() for entry in fields(Settings))
    accepted = {*known, *filter(None, old_names)}
    unknown = [
        name.removeprefix(PREFIX)
        for name in sorted(environment)
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in accepted
    ]
    closest = {name: difflib.get_close_matches(name, known, n=1) for name in unknown}
    return {PREFIX + name: PREFIX + match[0] if match else None for name, match in closest.items()}


def mask_password(url: str) -> str:
    """Return the URL without its secrets. In http URLs, a user name without a password and every
    value in the query may be one."""
    parts = urlsplit(url)
    is_http = parts.scheme in ("http", "https")
    userinfo, separator, host = parts.netloc.rpartition("@")
    user, colon, _ = userinfo.partition(":")
    if colon:
        user = f"{user}:***"
    elif separator and (is_http or parts.scheme in NATS_SCHEMES):
        user = "***"
    secret_names = r"[^&=]*" if is_http else r"\w*(?:password|secret|token|key)\w*"
    query = re.sub(rf"((?:^|&){secret_names}=)[^&]*", r"\1***", parts.query, flags=re.IGNORECASE)
    return urlunsplit(parts._replace(netloc=f"{user}{separator}{host}", query=query))


def mask_webhook(url: str) -> str:
    """Mask the path as well: in the URL of a webhook it is often the secret."""
    parts = urlsplit(mask_password(url))
    return urlunsplit(parts._replace(path="/***" if parts.path.strip("/") else parts.path))


def _format_value(value: Any, *, secret: bool, is_webhook: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and not secret:
        return ",".join(str(part) for part in value)
    text = str(value) if value != () else ""
    if "://" in text:
        if text.startswith(tuple(f"{scheme}://" for scheme in NATS_SCHEMES)):
            return ",".join(map(mask_password, text.split(",")))
        return mask_webhook(text) if is_webhook else mask_password(text)
    return "***" if secret and text else text
