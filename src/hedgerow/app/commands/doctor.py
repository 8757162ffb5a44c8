"""Checks of an installation for `hedgerow doctor`."""

import os
import platform
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError

from hedgerow import __version__
from hedgerow.app.state import WRONG_ENCRYPTION_KEY, ensure_data_dir, state_location
from hedgerow.errors import AppError, OperatorError
from hedgerow.lib.clock import read_machine_clock
from hedgerow.outbound.geoip import describe_geoip
from hedgerow.settings import Settings
from hedgerow.storage.backup.encryption_check import matches_probe
from hedgerow.storage.backup.encryption_key_file import load_encryption_keys
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.engine.damage import find_damaged_relations
from hedgerow.storage.engine.versions import describe_mix, read_other_versions
from hedgerow.storage.migrations.schema_check import find_missing_objects, summarize_missing
from hedgerow.storage.migrations.state import inspect_schema
from hedgerow.storage.tables import metadata
from hedgerow.storage.waiting_work import ExpectedEvents, read_expected_events

LOW_DISK_BYTES = 1024**3
MIN_POSTGRES_VERSION = 14
MAX_CLOCK_SKEW = timedelta(seconds=5)


Verdict = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`page` is the path of the page of the console that shows the cause and has the remedy."""

    verdict: Verdict
    check: str
    detail: str
    page: str | None = None


class Doctor:
    """Runs all checks. `format_command` returns a command line to paste. `check_workload` is called
    if the database is usable, `check_events` in any case."""

    def __init__(
        self,
        settings: Settings,
        format_command: Callable[[str], str],
        check_workload: Callable[[Connection], Iterator[CheckResult]],
        check_events: Callable[[ExpectedEvents], Iterator[CheckResult]],
    ) -> None:
        self._settings = settings
        self._format_command = format_command
        self._check_workload = check_workload
        self._check_events = check_events
        self._location = state_location(settings)
        self._expected_events = ExpectedEvents()

    def run(self) -> list[CheckResult]:
        versions = f"Hedgerow {__version__}, Python {platform.python_version()}"
        return [
            CheckResult("ok", "versions", versions),
            *self._check_directory(),
            *self._check_database(),
            *self._check_events(self._expected_events),
            CheckResult("ok", "location", describe_geoip(self._settings.geoip_file)),
            _check_clock(),
        ]

    def _check_directory(self) -> Iterator[CheckResult]:
        directory = self._settings.data_dir
        if not directory.exists():
            detail = f"{directory} is missing. Run `{self._format_command('init')}`."
            yield CheckResult("problem", "data directory", detail)
            return
        try:
            ensure_data_dir(directory)
        except OperatorError as error:
            yield CheckResult("problem", "data directory", str(error))
            return
        yield CheckResult("ok", "data directory", f"{directory.absolute()} is writable")
        if _is_open_to_others(directory.stat()):
            paths = (directory, *directory.iterdir())
            names = sorted(
                path.name or str(path) for path in paths if _is_open_to_others(path.stat())
            )
            yield CheckResult(
                "warning",
                "permissions",
                f"other users of this machine can read {', '.join(names)}. "
                f"Run `chmod 700 {directory}`.",
            )
        else:
            yield CheckResult("ok", "permissions", "only the owner can read the data directory")
        free = shutil.disk_usage(directory).free
        verdict: Verdict = "ok" if free >= LOW_DISK_BYTES else "warning"
        yield CheckResult(verdict, "disk", f"{free / 1024**3:.1f} GiB free")

    def _check_database(self) -> Iterator[CheckResult]:
        location = self._location
        if location.is_sqlite and not location.path.exists():
            detail = f"{location.path} is missing. Run `{self._format_command('init')}`."
            yield CheckResult("problem", "database", detail)
            return
        try:
            yield from _check_engine(location)
            state = inspect_schema(location)
        except (AppError, DBAPIError, OperatorError) as error:
            reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
            yield CheckResult("problem", "database", reason)
            return
        if state.is_current:
            yield CheckResult("ok", "migrations", f"at step {state.at}, the newest")
            yield from self._check_readable_content()
        else:
            detail = f"{len(state.pending)} pending. Run `{self._format_command('migrate')}`."
            yield CheckResult("problem", "migrations", detail)

    def _check_readable_content(self) -> Iterator[CheckResult]:
        try:
            with create_sync_engine(self._location).connect() as connection:
                yield from self._check_content(connection)
            # Without the connection, whose transaction the server would end meanwhile.
            if not self._location.is_sqlite:
                yield _check_postgres_files(self._location)
        except DBAPIError as error:
            advice = " Restore a backup." if self._location.is_sqlite else ""
            yield CheckResult("problem", "content", f"it cannot be read: {error.orig}.{advice}")

    def _check_content(self, connection: Connection) -> Iterator[CheckResult]:
        if missing := find_missing_objects(connection):
            detail = f"the database lacks {summarize_missing(missing)}. Restore a backup."
            yield CheckResult("problem", "schema", detail)
            return
        yield CheckResult("ok", "schema", "all tables, columns, indexes and triggers exist")
        yield self._check_encryption_key()
        self._expected_events = read_expected_events(connection)
        yield from self._check_workload(connection)

    def _check_encryption_key(self) -> CheckResult:
        settings = self._settings
        try:
            keys = load_encryption_keys(settings.encryption_keys, settings.data_dir, create=False)
        except OperatorError as error:
            return CheckResult("problem", "encryption key", str(error))
        with create_sync_engine(self._location).connect() as connection:
            fits = matches_probe(connection, keys)
        if fits:
            return CheckResult("ok", "encryption key", "decrypts the stored secrets")
        return CheckResult("problem", "encryption key", WRONG_ENCRYPTION_KEY)


def _is_open_to_others(status: os.stat_result) -> bool:
    return bool(stat.S_IMODE(status.st_mode) & 0o007)


def _check_engine(location: DatabaseLocation) -> Iterator[CheckResult]:
    with create_sync_engine(location).connect() as connection:
        if location.is_sqlite:
            version = connection.exec_driver_sql("SELECT sqlite_version()").scalar_one()
            yield CheckResult("ok", "engine", f"SQLite {version}")
            answer = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one()
            is_intact = answer == "ok"
            yield CheckResult(
                "ok" if is_intact else "problem",
                "database file",
                "intact" if is_intact else f"{answer}. Restore a backup.",
            )
            return
        version = connection.execute(text("SHOW server_version")).scalar_one()
        is_old = int(version.partition(".")[0]) < MIN_POSTGRES_VERSION
        needed = f": {MIN_POSTGRES_VERSION} or newer is required" if is_old else ""
        yield CheckResult("problem" if is_old else "ok", "engine", f"PostgreSQL {version}{needed}")
        others = read_other_versions(connection)
        detail = describe_mix(others) if others else f"none of another version than {__version__}"
        yield CheckResult("warning" if others else "ok", "processes", detail)
        skew = abs(connection.execute(select(func.now())).scalar_one() - read_machine_clock())
        is_close = skew < MAX_CLOCK_SKEW
        advice = "" if is_close else ". That of the database counts: set both, for example with NTP"
        yield CheckResult(
            "ok" if is_close else "warning",
            "database clock",
            f"{skew.total_seconds():.1f} s from the clock of this machine{advice}",
        )


def _check_postgres_files(location: DatabaseLocation) -> CheckResult:
    with create_sync_engine(location).connect() as connection:
        damaged = find_damaged_relations(connection, metadata.tables)
    if not damaged:
        return CheckResult("ok", "database files", "all tables and indexes can be read")
    remedy = "Restore a backup. Of an index, REINDEX is enough."
    return CheckResult("problem", "database files", f"damaged: {'; '.join(damaged)}. {remedy}")


def _check_clock() -> CheckResult:
    """A clock that shows a time before this file was installed is wrong."""
    installed_at = os.stat(__file__).st_mtime
    now = read_machine_clock()
    if now.timestamp() < installed_at - 86400:
        return CheckResult("problem", "clock", f"it shows {now:%Y-%m-%d %H:%M}: set it")
    return CheckResult("ok", "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")
