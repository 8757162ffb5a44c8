"""What the embedded engine must not read any more, and what it may need again.

Both are folders in `detached`, where the engine leaves them alone: `quarantined_` and the name of a
part that is not complete, and `source_` and the name of a part that was merged or mutated into one
that is not verified yet. The files of a source are links: they need no space until the engine
removes its own.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hedgerow.storage.events.embedded.part import Part, list_parts, parse_part

DETACHED = "detached"
QUARANTINED, SOURCE, UNFINISHED = "quarantined_", "source_", "unfinished_"
# The engine finds damage when it starts, too.
BROKEN = "broken-on-start_"
# Why a part was quarantined, and how many rows it had.
REPORT = "quarantine.json"
# How many quarantined parts stay.
MAX_INSERTED, MAX_MERGED = 20, 8
_QUARANTINED_NAME = re.compile(rf"{QUARANTINED}([^.]+)(?:\.\d+)?")


def list_tables(folder: Path) -> Iterator[Path]:
    """List the folders of all tables of the engine."""
    return (detached.parent for detached in folder.glob(f"store/*/*/{DETACHED}"))


def quarantine_part(table: Path, part: Part, reason: str) -> Path:
    """Move a part away from an engine that must end now. Its rows are neither lost nor doubled:
    those of an insert are not acknowledged, and the sources of others are still there."""
    target = table / DETACHED / f"{QUARANTINED}{part.name}"
    while target.exists():
        target = target.with_name(f"{QUARANTINED}{part.name}.{time.time_ns()}")
    (table / part.name).rename(target)
    report = {"reason": reason, "rows": _count_rows(target)}
    with suppress(OSError):  # the disk is probably full
        (target / REPORT).write_text(json.dumps(report))
    return target


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedPart:
    """`rows` is None if that is unknown."""

    folder: Path
    part: Part
    reason: str
    rows: int | None
    quarantined_at: float


def list_quarantined(folder: Path) -> list[QuarantinedPart]:
    """List the quarantined parts of all tables, the newest first."""
    listed = (
        describe_quarantined(path)
        for table in list_tables(folder)
        for path in (table / DETACHED).glob(f"{QUARANTINED}*")
    )
    return sorted(filter(None, listed), key=lambda each: -each.quarantined_at)


def prune_quarantined(folder: Path) -> None:
    """Remove the oldest quarantined parts: on a disk that fails for long there are ever more. Of
    those of merges, which are large and whose sources are there, only the newest has its files."""
    listed = list_quarantined(folder)
    inserted = [each for each in listed if each.part.is_inserted]
    others = [each for each in listed if not each.part.is_inserted]
    for each in (*inserted[MAX_INSERTED:], *others[MAX_MERGED:]):
        shutil.rmtree(each.folder)
    for each in others[1:MAX_MERGED]:
        for file in each.folder.iterdir():
            if file.name != REPORT:
                file.unlink()


def describe_quarantined(path: Path) -> QuarantinedPart | None:
    """Return None for a folder with another kind of name."""
    # A number follows the name if there are several of the same name.
    found = _QUARANTINED_NAME.fullmatch(path.name)
    part = parse_part(found[1]) if found else None
    if part is None:
        return None
    try:
        report = json.loads((path / REPORT).read_bytes())
    except (OSError, ValueError):
        report = {"reason": "its files are not complete", "rows": _count_rows(path)}
    return QuarantinedPart(
        folder=path,
        part=part,
        reason=report["reason"],
        rows=report["rows"],
        # The last change of the folder itself is that of its name.
        quarantined_at=path.stat().st_ctime,
    )


def _count_rows(folder: Path) -> int | None:
    try:
        return int((folder / "count.txt").read_text())
    except (OSError, ValueError):
        return None


def link_source(table: Path, part: Part) -> None:
    """Keep the files of a part although the engine removes it. Raises OSError."""
    unfinished = table / DETACHED / f"{UNFINISHED}{part.name}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        for file in (table / part.name).iterdir():
            os.link(file, unfinished / file.name)
        unfinished.rename(table / DETACHED / f"{SOURCE}{part.name}")
    except OSError:
        shutil.rmtree(unfinished)
        raise


def list_sources(table: Path) -> list[Part]:
    return list_parts(table / DETACHED, SOURCE)


def drop_source(table: Path, part: Part) -> None:
    shutil.rmtree(table / DETACHED / f"{SOURCE}{part.name}")


def restore_source(table: Path, part: Part) -> None:
    """Let an engine that is started next use this part again."""
    (table / DETACHED / f"{SOURCE}{part.name}").rename(table / part.name)


def list_broken(table: Path) -> list[Part]:
    """List the parts that the engine must not read: found by us, or by itself when it started."""
    detached = table / DETACHED
    quarantined = (describe_quarantined(path) for path in detached.glob(f"{QUARANTINED}*"))
    return [*(each.part for each in quarantined if each), *list_parts(detached, BROKEN)]
