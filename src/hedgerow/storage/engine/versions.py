"""The versions of Hedgerow whose processes share a PostgreSQL database.

The sessions of a process are named after its version, so nothing has to be registered, and those
of a process that has ended are gone.
"""

import time

import structlog
from sqlalchemy import Connection, text

from hedgerow import __version__
from hedgerow.storage.engine.database import Database

PREFIX = "hedgerow/"
APPLICATION_NAME = f"{PREFIX}{__version__}"
# Behind a pooler the processes take turns in one session, which has the name of the last one.
FORGET_AFTER_S = 120.0

# Each process uses some of its sessions twice a second. A pooler keeps sessions of processes that
# have ended. Sessions of another role do not tell when they were used.
_READ = text(
    "SELECT DISTINCT substr(application_name, :start) FROM pg_stat_activity"
    " WHERE datname = current_database() AND starts_with(application_name, :prefix)"
    " AND coalesce(state_change, now()) > now() - interval '60 seconds'"
)

_log = structlog.get_logger("hedgerow.storage")


def read_other_versions(connection: Connection) -> list[str]:
    """Return the versions of other processes, without that of this one."""
    found = connection.execute(_READ, {"prefix": PREFIX, "start": len(PREFIX) + 1}).scalars()
    return sorted(set(found) - {__version__})


def describe_mix(versions: list[str]) -> str:
    """Say what other versions mean, and what to do."""
    return (
        f"processes of Hedgerow {' and '.join(versions)} use this database, and this one is "
        f"{__version__}. During an upgrade that is normal. Afterwards stop or upgrade the others: "
        "two versions for long are not tested"
    )


class VersionWatch:
    """Logs when processes of another version appear and when they are gone."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # When each version was last seen.
        self._seen: dict[str, float] = {}

    async def check(self) -> None:
        found = await self._database.read(read_other_versions)
        now = time.monotonic()
        if new := [each for each in found if each not in self._seen]:
            _log.warning("another version shares the database", reason=describe_mix(new))
        self._seen.update(dict.fromkeys(found, now))
        for version in [each for each, at in self._seen.items() if now - at > FORGET_AFTER_S]:
            del self._seen[version]
            _log.info("the other version does not use the database any more", version=version)
