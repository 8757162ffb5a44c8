"""Addresses of external PostgreSQL databases.

The driver accepts more than a URL to one host: local sockets and files, services and passwords from
the home folder, several hosts. A record must not reach those, so only a plain address is accepted.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PORT = 5432
# Only the last one checks the server's certificate.
SSL_MODES = ("disable", "prefer", "require", "verify-full")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAddress:
    """The parts of a database URL."""

    host: str
    port: int
    user: str
    password: str
    database: str
    ssl_mode: str

    @property
    def redacted_url(self) -> str:
        """The URL without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{host}:{self.port}/{self.database}"


def parse_database_address(url: str) -> DatabaseAddress:
    """Parse a `postgresql://user:password@host/database` URL. Raises ValueError with the reason."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
        options = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
    except ValueError:
        raise ValueError("it is not a URL") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("it must begin with postgresql://")
    host, database = unquote(parts.hostname or ""), unquote(parts.path.removeprefix("/"))
    if not host or not parts.username or not database:
        raise ValueError("a user, a host and a database are required")
    if any(each in host for each in "/@,\\") or not host.isprintable():
        raise ValueError("the host must be one name or IP address, not a socket or a list")
    if others := set(options) - {"sslmode"}:
        raise ValueError(f"the only allowed parameter is sslmode, not {min(others)}")
    ssl_mode = options.get("sslmode", "prefer")
    if ssl_mode not in SSL_MODES:
        raise ValueError(f"sslmode must be one of {', '.join(SSL_MODES)}")
    return DatabaseAddress(
        host=host,
        port=port,
        user=unquote(parts.username),
        password=unquote(parts.password or ""),
        database=database,
        ssl_mode=ssl_mode,
    )
