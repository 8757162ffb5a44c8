"""Files that projects may import: only those below the project's own folder.

Every part of a path is opened relative to the previous one and links are not followed, so no path
leads out of the folder, even if it changes concurrently.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hedgerow.lib.text import truncate
from hedgerow.lib.threads import run_in_thread
from hedgerow.plugin.imports import FileVersion, ImportFiles, JobError
from hedgerow.projects.model import ProjectId

MAX_FILES = 100_000
MAX_DEPTH = 16
# Suffixes of files that are still being uploaded.
UNFINISHED_SUFFIXES = (".tmp", ".part", ".partial", ".crdownload")

_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class ImportFolder(ImportFiles):
    """`folder` contains one folder per project, named by the project id. So much must stay free on
    its disk, and on that of the data directory, where the imported events go."""

    def __init__(self, folder: Path, *, data_dir: Path, min_free_bytes: int) -> None:
        self._folder = folder
        self._data_dir = data_dir
        self._min_free_bytes = min_free_bytes

    async def list_files(self, project_id: ProjectId, path: str) -> Sequence[FileVersion]:
        return await run_in_thread(lambda: self._list(project_id, path))

    async def open_file(self, project_id: ProjectId, name: str) -> BinaryIO:
        return await run_in_thread(lambda: self._open(project_id, name))

    async def create_temporary(self) -> BinaryIO:
        def create() -> BinaryIO:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return tempfile.TemporaryFile(dir=self._folder)

        return await run_in_thread(create)

    def has_free_space(self) -> bool:
        return all(
            shutil.disk_usage(folder).free >= self._min_free_bytes
            for folder in (self._folder, self._data_dir)
            if folder.exists()
        )

    def _list(self, project_id: ProjectId, path: str) -> list[FileVersion]:
        parts = self._parts(path)
        with self._open_path(project_id, parts) as found:
            status = os.fstat(found)
            if stat.S_ISDIR(status.st_mode):
                files = list(_walk_files(found, "/".join(parts), MAX_DEPTH))
                return sorted(files, key=lambda file: file.name)
        return [FileVersion(name="/".join(parts), version=_get_version(status))]

    def _open(self, project_id: ProjectId, name: str) -> BinaryIO:
        with self._open_path(project_id, self._parts(name)) as found:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise JobError(f"{truncate(name)} is not a regular file.")
            return os.fdopen(os.dup(found), "rb")

    def _parts(self, path: str) -> list[str]:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or ".." in parts or "\0" in path or len(parts) > MAX_DEPTH:
            raise JobError("The path must be relative and stay below the project's import folder.")
        return parts

    @contextmanager
    def _open_path(self, project_id: ProjectId, parts: Sequence[str]) -> Iterator[int]:
        own = self._folder / str(project_id)
        here = -1
        try:
            here = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            for part in parts:
                inner = os.open(part, _OPEN_FLAGS, dir_fd=here)
                os.close(here)
                here = inner
        except OSError as error:
            if here >= 0:
                os.close(here)
            shown = truncate("/".join(parts) or str(project_id))
            raise JobError(
                f"{shown} cannot be read: {error.strerror}. Put the files of this project into the "
                f"folder {project_id} of HEDGEROW_IMPORTS_DIR. Links are not followed."
            ) from None
        try:
            yield here
        finally:
            os.close(here)


def _walk_files(folder: int, path: str, depth: int) -> Iterator[FileVersion]:
    """Yield regular files, except hidden and unfinished ones."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    if len(found) > MAX_FILES:
        raise JobError(f"A folder holds more than {MAX_FILES} files.")
    for entry in found:
        name = f"{path}/{entry.name}" if path else entry.name
        if entry.name.startswith(".") or entry.name.lower().endswith(UNFINISHED_SUFFIXES):
            continue
        if entry.is_dir(follow_symlinks=False) and depth:
            inner = os.open(entry.name, _OPEN_FLAGS | os.O_DIRECTORY, dir_fd=folder)
            try:
                yield from _walk_files(inner, name, depth - 1)
            finally:
                os.close(inner)
        elif entry.is_file(follow_symlinks=False):
            status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            yield FileVersion(name=name, version=_get_version(status))


def _get_version(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}"
