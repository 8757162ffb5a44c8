"""Addresses of somebody else's PostgreSQL: nothing but what says where it is and who we are there.

The driver would take more: sockets and files of this machine, services and passwords from the home
folder, several hosts. Whoever sets up a record has no business with those.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PORT = 5432
# Without a check of the certificate, but for the last.
SSL_MODES = ("disable", "prefer", "require", "verify-full")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAddress:
    host: str
    port: int
    user: str
    password: str
    database: str
    ssl_mode: str

    @property
    def shown(self) -> str:
        """Where it is, and not who we are there."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{host}:{self.port}/{self.database}"


def database_address(url: str) -> DatabaseAddress:
    """The address in a URL; ValueError says what it lacks."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
        options = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
    except ValueError:
        raise ValueError("it is no address") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("it must begin with postgresql://")
    host, database = unquote(parts.hostname or ""), unquote(parts.path.removeprefix("/"))
    if not host or not parts.username or not database:
        raise ValueError("it needs a user, a host and a database")
    if any(each in host for each in "/@,\\") or not host.isprintable():
        raise ValueError("the host must be one name or address: no socket and no list")
    if others := set(options) - {"sslmode"}:
        raise ValueError(f"nothing but sslmode may follow the database, not {min(others)}")
    ssl_mode = options.get("sslmode", "prefer")
    if ssl_mode not in SSL_MODES:
        raise ValueError(f"sslmode is one of {', '.join(SSL_MODES)}")
    return DatabaseAddress(
        host=host,
        port=port,
        user=unquote(parts.username),
        password=unquote(parts.password or ""),
        database=database,
        ssl_mode=ssl_mode,
    )
