"""`hedgerow doctor`: looks at an installation and says what is wrong with it, one line per
check.
"""

import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import typer
from rich.console import Console
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from hedgerow import __version__
from hedgerow.app.pipelines import WRONG_SEALING_KEY
from hedgerow.app.state import ensure_data_folder, place_of
from hedgerow.cli.options import DataOption, command, settings_with
from hedgerow.errors import AppError, Unready
from hedgerow.lib.clock import utc_now
from hedgerow.settings import Settings
from hedgerow.storage import set_aside
from hedgerow.storage.connect import Place, plain_engine
from hedgerow.storage.schema import schema_state
from hedgerow.storage.sealing_check import check
from hedgerow.storage.sealing_file import sealing_keys

LOW_DISK_BYTES = 1024**3
OLDEST_POSTGRES = 14
CLOCK_SLACK = timedelta(seconds=5)

Verdict = Literal["ok", "warning", "problem"]
MARKS = {"ok": "[green]ok[/]     ", "warning": "[yellow]warning[/]", "problem": "[red]problem[/]"}


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    about: str
    says: str


def doctor(data: DataOption = None) -> None:
    """Check storage, permissions, engine versions and the clock.

    Exit status 0: all is well, perhaps with warnings. 1: something needs your attention.
    """
    settings = settings_with(data=data)
    place = place_of(settings)
    findings = [
        Finding("ok", "versions", f"Hedgerow {__version__}, Python {platform.python_version()}"),
        *_folder(settings),
        *_database(settings, place),
        *_clock(),
    ]
    console = Console(soft_wrap=True)
    for finding in findings:
        console.print(f"{MARKS[finding.verdict]} {finding.about}: ", end="")
        console.print(finding.says, markup=False, highlight=False)
    if any(finding.verdict == "problem" for finding in findings):
        raise typer.Exit(1)


def _folder(settings: Settings) -> Iterator[Finding]:
    folder = settings.data
    if not folder.exists():
        yield Finding(
            "problem", "data folder", f"{folder} is missing. Run `{command('init', settings)}`."
        )
        return
    try:
        ensure_data_folder(folder)
    except Unready as error:
        yield Finding("problem", "data folder", str(error))
        return
    yield Finding("ok", "data folder", f"{folder.absolute()} can be written")
    open_to_others = [
        path.name or str(path)
        for path in (folder, *folder.iterdir())
        if stat.S_IMODE(path.stat().st_mode) & 0o007
    ]
    if stat.S_IMODE(folder.stat().st_mode) & 0o007:
        yield Finding(
            "warning",
            "permissions",
            f"other users of this machine can read {', '.join(sorted(open_to_others))}. "
            f"Run `chmod 700 {folder}`.",
        )
    else:
        yield Finding("ok", "permissions", "only the owner can read the data folder")
    free = shutil.disk_usage(folder).free
    verdict: Verdict = "ok" if free >= LOW_DISK_BYTES else "warning"
    yield Finding(verdict, "disk", f"{free / 1024**3:.1f} GiB free")


def _database(settings: Settings, place: Place) -> Iterator[Finding]:
    if place.is_sqlite and not place.path.exists():
        yield Finding(
            "problem", "database", f"{place.path} is missing. Run `{command('init', settings)}`."
        )
        return
    try:
        yield from _engine(place)
        state = schema_state(place)
    except (AppError, DBAPIError, Unready) as error:
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
        yield Finding("problem", "database", reason)
        return
    if state.is_current:
        yield Finding("ok", "migrations", f"at step {state.at}, the newest")
        yield _sealing(settings, place)
        yield _set_aside(settings, place)
    else:
        yield Finding(
            "problem",
            "migrations",
            f"{len(state.pending)} missing. Run `{command('migrate', settings)}`.",
        )


def _sealing(settings: Settings, place: Place) -> Finding:
    try:
        keys = sealing_keys(settings.sealing_keys, settings.data, make=False)
    except Unready as error:
        return Finding("problem", "sealing key", str(error))
    with plain_engine(place).connect() as connection:
        fits = check(connection, keys)
    if fits:
        return Finding("ok", "sealing key", "opens the stored secrets")
    return Finding("problem", "sealing key", WRONG_SEALING_KEY)


def _set_aside(settings: Settings, place: Place) -> Finding:
    with plain_engine(place).connect() as connection:
        number = set_aside.number(connection)
    if not number:
        return Finding("ok", "events", "none had to be set aside")
    says = f"{number} set aside. Run `{command('events aside', settings)}` to see why."
    return Finding("problem", "events", says)


def _engine(place: Place) -> Iterator[Finding]:
    with plain_engine(place).connect() as connection:
        if place.is_sqlite:
            version = connection.exec_driver_sql("SELECT sqlite_version()").scalar_one()
            yield Finding("ok", "engine", f"SQLite {version}")
            answer = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            verdict: Verdict = "ok" if answer == "ok" else "problem"
            yield Finding(verdict, "database file", "sound" if answer == "ok" else answer)
            return
        version = connection.execute(text("SHOW server_version")).scalar_one()
        is_old = int(version.partition(".")[0]) < OLDEST_POSTGRES
        yield Finding(
            "problem" if is_old else "ok",
            "engine",
            f"PostgreSQL {version}" + (f": {OLDEST_POSTGRES} or newer is needed" if is_old else ""),
        )
        skew = abs(connection.execute(select(func.now())).scalar_one() - utc_now())
        yield Finding(
            "ok" if skew < CLOCK_SLACK else "warning",
            "clock of the database",
            f"{skew.total_seconds():.1f} s from ours",
        )


def _clock() -> Iterator[Finding]:
    """A clock that is before this release was made is surely wrong."""
    made = os.stat(sys.modules[__name__].__file__ or __file__).st_mtime
    if time.time() < made - 86400:
        yield Finding("problem", "clock", f"it says {utc_now():%Y-%m-%d %H:%M}: set it")
    else:
        yield Finding("ok", "clock", f"{utc_now():%Y-%m-%d %H:%M:%S} UTC")
