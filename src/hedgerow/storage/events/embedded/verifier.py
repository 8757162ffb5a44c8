"""Verifies what the embedded engine has written.

An insert is verified before it is answered, a mutation by the sizes of its files. Results of
merges and mutations are read once in the background; their sources are kept until then. If a part
is not complete it is quarantined, and the engine must start again: it does not know the part any
more, uses the sources again, and repeats the mutation.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from hedgerow.storage.events.embedded.part import Part, find_defect, list_parts, select_uncovered
from hedgerow.storage.events.embedded.quarantine import (
    drop_source,
    link_source,
    list_quarantined,
    list_sources,
    quarantine_part,
)
from hedgerow.storage.events.embedded.repair import (
    find_incomplete_file,
    keep_definitions,
    restore_needed_sources,
)

# Much shorter than the time for which the engine keeps the sources of a merge.
SWEEP_INTERVAL_S = 1.0
EXIT_INCOMPLETE_WRITE = 13
# The pause after merges that failed within a time doubles with each of them.
MERGE_FAILURES_S, MAX_MERGE_PAUSE_S = 600.0, 300.0
LIST_ATTEMPTS = 3
LIST_PAUSE_S = 0.01
CHECK_ATTEMPTS = 3
CHECK_PAUSE_S = 0.2
CLOCK_TICK_NS = 50_000_000

_NO_SUCH_PART = "Code: 232."
_TABLES = """
    SELECT database || '.' || name, data_paths[1] FROM system.tables
    WHERE engine LIKE '%MergeTree' AND length(data_paths) > 0
"""


class IncompleteWriteError(Exception):
    """The engine has not written what it reports as written, and must end."""


@dataclass(slots=True, kw_only=True)
class _Table:
    """`known` are the parts whose files have the right sizes, `unread` those of them whose contents
    are not verified yet. `changed_at` tells whether there can be new ones."""

    name: str
    folder: Path
    changed_at: int = 0
    known: set[Part] = field(default_factory=set)
    unread: set[Part] = field(default_factory=set)
    linked: set[Part] = field(default_factory=set)


class PartVerifier:
    def __init__(self, folder: Path, connect: Callable[[], Any]) -> None:
        self._folder = folder
        self._connect = connect
        self._session = connect()
        self._lock = threading.Lock()
        self._definition_lock = threading.Lock()
        self._tables: dict[Path, _Table] = {}
        # When the engine may merge again; 0 if it may.
        self._merges_at = 0.0

    def start(self, loaded: Mapping[Path, Sequence[Part]]) -> None:
        """Take the parts that the engine has loaded and found complete as they are, except those
        whose sources are kept. Others are of merges since then. Then verify in the background."""
        self._find_tables()
        for table in self._tables.values():
            if restore_needed_sources(table.folder):
                raise IncompleteWriteError("The engine has found damaged files.")
            sources = list_sources(table.folder)
            table.linked.update(sources)
            table.known.update(select_uncovered(loaded.get(table.folder, ())))
            table.unread = {p for p in table.known if any(map(p.covers, sources))}
        self._pause_merges()
        threading.Thread(target=self._sweep_forever, daemon=True).start()

    @contextmanager
    def keep_definitions(self) -> Iterator[None]:
        """Keep the definitions that a statement within changes, until the new ones are complete."""
        with self._definition_lock, keep_definitions(self._folder):
            yield

    def verify_command(self) -> None:
        """Verify what a statement other than an insert has written: definitions, texts of mutations
        and parts. Raises IncompleteWriteError."""
        if incomplete := find_incomplete_file(self._folder):
            raise IncompleteWriteError(f"{incomplete} is not complete")
        with self._lock:
            self._find_tables()
        self.verify_parts()

    def verify_parts(self) -> None:
        """Verify new parts of all tables: the sizes of their files, and the contents of inserted
        ones. Raises IncompleteWriteError."""
        with self._lock:
            for table in self._tables.values():
                self._verify_new_parts(table)

    def _pause_merges(self) -> None:
        """Let the engine merge and mutate later, if what it wrote was not complete. It would try
        again at once, and answer no query while it starts again and again."""
        now = time.time()
        failed_at = [
            each.quarantined_at
            for each in list_quarantined(self._folder)
            if not each.part.is_inserted and now - each.quarantined_at < MERGE_FAILURES_S
        ]
        if failed_at:
            left_s = max(failed_at) + 2 ** len(failed_at) - now
            # The clock may have been set meanwhile.
            self._merges_at = time.monotonic() + min(left_s, MAX_MERGE_PAUSE_S)
            self._session.query("SYSTEM STOP MERGES")

    def _resume_merges(self, session: Any) -> None:
        if self._merges_at and time.monotonic() >= self._merges_at:
            self._merges_at = 0.0
            session.query("SYSTEM START MERGES")

    def measure_free_space(self) -> int:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize

    def _find_tables(self) -> None:
        lines = self._session.query(_TABLES, "TabSeparated").bytes().decode().splitlines()
        folders = {Path(path): name for name, path in (line.split("\t") for line in lines)}
        self._tables = {
            folder: self._tables.get(folder) or _Table(name=name, folder=folder)
            for folder, name in folders.items()
        }
        for folder, name in folders.items():  # tables can be renamed
            self._tables[folder].name = name

    def _verify_new_parts(self, table: _Table) -> None:
        for attempt in range(LIST_ATTEMPTS):
            time.sleep(attempt * LIST_PAUSE_S)
            try:
                changed_at = table.folder.stat().st_mtime_ns
                if changed_at == table.changed_at:
                    return
                parts = list_parts(table.folder)
            except FileNotFoundError:  # the table was dropped
                return
            new = [part for part in select_uncovered(parts) if part not in table.known]
            unused = [part for part in new if not self._verify_part(table, part)]
            self._link_sources(table, parts)
            if not unused:
                table.known.intersection_update(parts)
                # Clocks of file systems tick slowly: another part may appear at the same time.
                is_past = time.time_ns() - changed_at > CLOCK_TICK_NS
                table.changed_at = changed_at if is_past else 0
                return

    def _verify_part(self, table: _Table, part: Part) -> bool:
        """Return False if the part is not in use yet, or has just been merged."""
        try:
            defect = find_defect(table.folder / part.name)
        except FileNotFoundError:
            return False
        if not defect and part.is_inserted:
            answer = _check_part(self._session, table.name, part)
            if answer is None:
                return False
            defect = answer
        if defect:
            self._quarantine(table, part, defect)
        table.known.add(part)
        if not part.is_inserted:
            table.unread.add(part)
        return True

    def _link_sources(self, table: _Table, parts: list[Part]) -> None:
        for part in parts:
            if part not in table.linked and any(other.covers(part) for other in table.unread):
                # It may just have been removed; or the disk has no space for a folder.
                with suppress(OSError):
                    link_source(table.folder, part)
                    table.linked.add(part)

    def _quarantine(self, table: _Table, part: Part, defect: str) -> None:
        target = quarantine_part(table.folder, part, defect)
        raise IncompleteWriteError(f"{target}: {defect}")

    def _sweep_forever(self) -> None:
        session = self._connect()
        while True:
            time.sleep(SWEEP_INTERVAL_S)
            try:
                self._resume_merges(session)
                self.verify_parts()
                for table in list(self._tables.values()):
                    self._read_parts(session, table)
            except (IncompleteWriteError, RuntimeError, OSError) as error:
                # A start verifies the parts.
                end_engine(error)

    def _read_parts(self, session: Any, table: _Table) -> None:
        """Verify the contents of merged and mutated parts, without delaying inserts."""
        for part in sorted(table.unread):
            defect = _check_part(session, table.name, part)
            with self._lock:
                if defect is None:  # what was made from it needs the same sources
                    table.changed_at = 0
                    self._verify_new_parts(table)
                table.unread.discard(part)
                if defect:
                    self._quarantine(table, part, defect)
        with self._lock:
            self._drop_sources(table)

    def _drop_sources(self, table: _Table) -> None:
        """Forget sources whose result is verified, or which the engine has dropped."""
        for source in list(table.linked):
            if not any(part.covers(source) for part in table.unread):
                with suppress(FileNotFoundError):
                    drop_source(table.folder, source)
        parts = list_parts(table.folder) if table.linked else []
        # The engine still has their files: they must not be linked again.
        table.linked.intersection_update(parts)


def end_engine(reason: Exception) -> NoReturn:
    os.write(2, f"The event engine ends: {reason}\n".encode())
    os._exit(EXIT_INCOMPLETE_WRITE)


def _check_part(session: Any, table: str, part: Part) -> str | None:
    """Let the engine compare the contents of a part with its checksums. Return what is wrong, empty
    text, or None if the part is not in use. Raises IncompleteWriteError if it cannot say."""
    settings = "check_query_single_value_result = 0, max_threads = 1"
    statement = f"CHECK TABLE {table} PART '{part.name}' SETTINGS {settings}"
    for attempt in range(CHECK_ATTEMPTS):
        time.sleep(attempt * CHECK_PAUSE_S)
        try:
            answer = session.query(statement, "TabSeparated").bytes().decode(errors="replace")
        except RuntimeError as error:
            if _NO_SUCH_PART in str(error):
                return None
            problem = str(error)
            continue
        _, passed, message = answer.rstrip("\n").split("\t", 2)
        return "" if passed == "1" else message.partition("\\n")[0] or "its files are damaged"
    raise IncompleteWriteError(f"part {part.name} cannot be verified: {problem}")
