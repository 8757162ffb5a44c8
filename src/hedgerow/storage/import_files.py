"""Files that projects may import: those below a folder of their own, and nothing else.

Every part of a path is opened in the one before it and no link is followed, so that no name leads
elsewhere, whoever changes what meanwhile.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hedgerow.lib.text import cut_short
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.pipelines.imports.model import LocalFile
from hedgerow.pipelines.model import JobProblem
from hedgerow.projects.model import ProjectId

MAX_FILES = 100_000
MAX_DEPTH = 16
# What is still being written by whoever brings it.
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload")

_IN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class ImportFolder:
    """`folder` has one folder for each project, named by its number."""

    def __init__(self, folder: Path, *, min_free_bytes: int) -> None:
        self._folder = folder
        self._min_free_bytes = min_free_bytes

    async def listed(self, project_id: ProjectId, path: str) -> Sequence[LocalFile]:
        return await in_daemon_thread(lambda: self._listed(project_id, path))

    async def opened(self, project_id: ProjectId, name: str) -> BinaryIO:
        return await in_daemon_thread(lambda: self._opened(project_id, name))

    async def scratch(self) -> BinaryIO:
        def made() -> BinaryIO:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return tempfile.TemporaryFile(dir=self._folder)

        return await in_daemon_thread(made)

    def has_room(self) -> bool:
        return shutil.disk_usage(self._folder).free >= self._min_free_bytes

    def _listed(self, project_id: ProjectId, path: str) -> list[LocalFile]:
        parts = self._parts(path)
        with self._reached(project_id, parts) as found:
            status = os.fstat(found)
            if stat.S_ISDIR(status.st_mode):
                files = list(_files_in(found, "/".join(parts), MAX_DEPTH))
                return sorted(files, key=lambda file: file.name)
        return [LocalFile(name="/".join(parts), version=_version(status))]

    def _opened(self, project_id: ProjectId, name: str) -> BinaryIO:
        with self._reached(project_id, self._parts(name)) as found:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise JobProblem(f"{cut_short(name)} is no file.")
            return os.fdopen(os.dup(found), "rb")

    def _parts(self, path: str) -> list[str]:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or ".." in parts or "\0" in path or len(parts) > MAX_DEPTH:
            raise JobProblem("The path must lead to a place below the folder of imports.")
        return parts

    @contextmanager
    def _reached(self, project_id: ProjectId, parts: Sequence[str]) -> Iterator[int]:
        own = self._folder / str(project_id)
        here = -1
        try:
            here = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            for part in parts:
                inner = os.open(part, _IN, dir_fd=here)
                os.close(here)
                here = inner
        except OSError as error:
            if here >= 0:
                os.close(here)
            shown = cut_short("/".join(parts) or str(project_id))
            raise JobProblem(
                f"{shown} cannot be read: {error.strerror}. Files for this project belong into the "
                f"folder {project_id} of HEDGEROW_IMPORTS_FOLDER; links are not followed."
            ) from None
        try:
            yield here
        finally:
            os.close(here)


def _files_in(folder: int, path: str, depth: int) -> Iterator[LocalFile]:
    """Hidden and unfinished files, links and whatever is no file are left out."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    if len(found) > MAX_FILES:
        raise JobProblem(f"A folder holds more than {MAX_FILES} files.")
    for entry in found:
        name = f"{path}/{entry.name}" if path else entry.name
        if entry.name.startswith(".") or entry.name.lower().endswith(UNFINISHED):
            continue
        if entry.is_dir(follow_symlinks=False) and depth:
            inner = os.open(entry.name, _IN | os.O_DIRECTORY, dir_fd=folder)
            try:
                yield from _files_in(inner, name, depth - 1)
            finally:
                os.close(inner)
        elif entry.is_file(follow_symlinks=False):
            status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            yield LocalFile(name=name, version=_version(status))


def _version(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}"
