"""Walks the source files of a folder, without those that .gitignore files name.

Of .gitignore, names, globs, paths, folders and exceptions (`!`) are understood, in every folder.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from hedgerow.flags.code_references.scanner import SUFFIXES, CodeReference, find_references

MAX_FILES = 100_000
MAX_FILE_BYTES = 1024 * 1024
MAX_BYTES = 1024 * 1024 * 1024
# As many as the body of a request may have.
MAX_REFERENCES = 5_000
MAX_IGNORE_BYTES = 256 * 1024
# Never of a project itself.
IGNORED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"}
)
IGNORED_SUFFIXES = (".min.js", ".min.mjs")


@dataclass(slots=True, kw_only=True)
class SourceScan:
    """`large_files` were left out. `is_complete` is false if a limit ended the scan."""

    references: list[CodeReference] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    large_files: list[str] = field(default_factory=list)
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    """A line of a .gitignore file in the folder `base`, which ends with a slash or is empty."""

    base: str
    pattern: str
    is_exception: bool
    only_folders: bool
    is_path: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        if (self.only_folders and not is_folder) or not path.startswith(self.base):
            return False
        below = path[len(self.base) :]
        if not self.is_path:
            return fnmatchcase(below.rpartition("/")[2], self.pattern)
        return fnmatchcase(below, self.pattern) and (
            "**" in self.pattern or below.count("/") == self.pattern.count("/")
        )


def scan_folder(root: Path) -> SourceScan:
    """Find the references in all source files below a folder, or in one file."""
    scan = SourceScan()
    if root.is_file():
        _scan_file(root, root.name, scan)
        return scan
    for path, name in _walk(root):
        if (
            scan.files >= MAX_FILES
            or scan.bytes >= MAX_BYTES
            or len(scan.references) >= MAX_REFERENCES
        ):
            scan.is_complete = False
            break
        _scan_file(path, name, scan)
    del scan.references[MAX_REFERENCES:]
    return scan


def _scan_file(path: Path, name: str, scan: SourceScan) -> None:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            scan.large_files.append(name)
            return
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # deleted meanwhile, or not readable
    scan.files += 1
    scan.bytes += size
    scan.references += find_references(name, text)


def _walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield source files with their paths below the root, sorted. Links are not followed."""
    rules: list[IgnoreRule] = []
    for folder, folders, files in os.walk(root):
        below = Path(folder).relative_to(root).as_posix()
        base = "" if below == "." else f"{below}/"
        rules = [rule for rule in rules if base.startswith(rule.base)]
        if ".gitignore" in files:
            rules += _read_rules(Path(folder, ".gitignore"), base)
        folders[:] = sorted(
            name
            for name in folders
            if name not in IGNORED_FOLDERS and not is_ignored(rules, base + name, is_folder=True)
        )
        for name in sorted(files):
            if _is_source(name) and not is_ignored(rules, base + name, is_folder=False):
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    yield path, base + name


def _is_source(name: str) -> bool:
    lower = name.lower()
    return Path(lower).suffix in SUFFIXES and not lower.endswith(IGNORED_SUFFIXES)


def is_ignored(rules: Sequence[IgnoreRule], path: str, *, is_folder: bool) -> bool:
    """Return whether the last rule that matches ignores the path."""
    for rule in reversed(rules):
        if rule.matches(path, is_folder=is_folder):
            return not rule.is_exception
    return False


def _read_rules(file: Path, base: str) -> list[IgnoreRule]:
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return parse_rules(text, base)


def parse_rules(text: str, base: str) -> list[IgnoreRule]:
    return [rule for line in text.splitlines() if (rule := _parse_rule(line, base)) is not None]


def _parse_rule(line: str, base: str) -> IgnoreRule | None:
    pattern = line.strip()
    if not pattern or pattern.startswith("#"):
        return None
    is_exception = pattern.startswith("!")
    pattern = pattern.removeprefix("!")
    only_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    if pattern.startswith("**/") and "/" not in pattern[3:]:
        pattern = pattern[3:]
    is_path = "/" in pattern
    pattern = pattern.lstrip("/")
    if not pattern:
        return None
    return IgnoreRule(
        base=base,
        pattern=pattern,
        is_exception=is_exception,
        only_folders=only_folders,
        is_path=is_path,
    )
