"""Prepares the folder of the embedded engine before the engine opens it.

The engine refuses a folder with one definition or mutation that is not complete. And it would
remove sources of a merge at once, although what was made from them is not verified yet.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hedgerow.storage.events.embedded.part import Part, find_defect, list_parts, select_uncovered
from hedgerow.storage.events.embedded.quarantine import (
    drop_source,
    link_source,
    list_broken,
    list_sources,
    list_tables,
    prune_quarantined,
    quarantine_part,
    restore_source,
)

# A part may have been written shortly before the engine ended, before it was verified.
RECENT_S = 600
PREVIOUS = ".previous"
FORMAT_VERSION = "1"
_MUTATION = re.compile(r"format version: \d+\n.*commands: .*\n", re.DOTALL)


def repair_folder(folder: Path) -> dict[Path, list[Part]]:
    """Return the parts of each table that the engine is going to load. Raises OSError."""
    _restore_definitions(folder)
    for table in list_tables(folder):
        _write_format_version(table)
        _remove_unfinished_mutations(table)
        _quarantine_recent_parts(table)
        restore_needed_sources(table)
        _link_covered_parts(table)
    prune_quarantined(folder)
    return {table: list_parts(table) for table in list_tables(folder)}


@contextmanager
def keep_definitions(folder: Path) -> Iterator[None]:
    """Keep what a statement replaces in the definitions of databases and tables."""
    for definition in _list_definitions(folder):
        kept = _name_previous(definition)
        kept.unlink(missing_ok=True)
        os.link(definition, kept)
    yield
    for kept in _list_previous(folder):
        if _is_complete(kept.with_suffix("")):
            kept.unlink()


def find_incomplete_file(folder: Path) -> Path | None:
    """Return a definition or a mutation that the engine could not read when it starts. A new table
    without a definition does not exist, so that is removed."""
    for definition in _list_definitions(folder):
        if not _is_complete(definition):
            if not _name_previous(definition).exists():
                definition.unlink()
            return definition
    mutations = (file for table in list_tables(folder) for file in table.glob("mutation_*.txt"))
    return next((file for file in mutations if not _is_mutation(file)), None)


def _list_definitions(folder: Path) -> list[Path]:
    return [*folder.glob("metadata/*.sql"), *folder.glob("store/*/*/*.sql")]


def _list_previous(folder: Path) -> list[Path]:
    return [*folder.glob(f"metadata/*{PREVIOUS}"), *folder.glob(f"store/*/*/*{PREVIOUS}")]


def _name_previous(definition: Path) -> Path:
    return definition.with_name(definition.name + PREVIOUS)


def _is_complete(definition: Path) -> bool:
    """Return whether a definition is complete, or was removed together with its table."""
    try:
        content = definition.read_text(errors="replace")
    except FileNotFoundError:
        return True
    return content.startswith("ATTACH ") and "\nENGINE = " in content and content.endswith("\n")


def _restore_definitions(folder: Path) -> None:
    for kept in _list_previous(folder):
        definition = kept.with_suffix("")
        if _is_complete(definition):
            kept.unlink()
        else:
            kept.replace(definition)
    if next(folder.glob("store/*/*/*/checksums.txt"), None) is None:
        # The engine ended while it created its tables.
        for definition in _list_definitions(folder):
            if not _is_complete(definition):
                definition.unlink()


def _write_format_version(table: Path) -> None:
    """There is one version only."""
    file = table / "format_version.txt"
    if file.is_file() and not file.read_bytes():
        file.write_text(FORMAT_VERSION)


def _is_mutation(file: Path) -> bool:
    try:
        return _MUTATION.fullmatch(file.read_text(errors="replace")) is not None
    except FileNotFoundError:
        return True


def _remove_unfinished_mutations(table: Path) -> None:
    """Their statements have failed."""
    for file in table.glob("mutation_*.txt"):
        if not _is_mutation(file):
            file.unlink()


def _quarantine_recent_parts(table: Path) -> None:
    """The engine would find most of them itself, but take what covers a source for granted."""
    uncovered = select_uncovered(list_parts(table))
    changed_at = {part: (table / part.name).stat().st_mtime for part in uncovered}
    since = max(changed_at.values(), default=0.0) - RECENT_S
    sources = list_sources(table)
    for part in uncovered:
        is_recent = changed_at[part] >= since or any(map(part.covers, sources))
        if is_recent and (defect := find_defect(table / part.name)):
            quarantine_part(table, part, defect)


def restore_needed_sources(table: Path) -> bool:
    """Put back the sources of parts that the engine must not read, and forget those of parts that
    it has given up itself. Return whether a source was put back."""
    parts, broken, is_restored = list_parts(table), list_broken(table), False
    for source in list_sources(table):
        if _is_covered(source, parts):
            continue
        if source in parts or not _is_covered(source, broken):
            drop_source(table, source)
        else:
            restore_source(table, source)
            is_restored = True
    return is_restored


def _link_covered_parts(table: Path) -> None:
    parts = list_parts(table)
    linked = list_sources(table)
    for part in parts:
        if part not in linked and _is_covered(part, parts):
            # Without space for a folder, the engine's own check of sizes must do.
            with suppress(OSError):
                link_source(table, part)


def _is_covered(part: Part, by: list[Part]) -> bool:
    return any(other.covers(part) for other in by)
