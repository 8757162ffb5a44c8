"""Copies of files that are compared with their sources."""

import errno
import hashlib
import os
from pathlib import Path

_CHUNK_BYTES = 1 << 20


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to a new one of the same user only, and read that again, from the disk where the
    system can. Raises OSError if the copy differs."""
    digest = hashlib.sha256()
    created = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as reader, open(created, "wb") as writer:
        while chunk := reader.read(_CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    with target.open("rb") as copy:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(copy.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if hashlib.file_digest(copy, "sha256").digest() != digest.digest():
            raise OSError(errno.EIO, "it is not what was written", str(target))


def copy_folder(source: Path, target: Path) -> None:
    """Copy the files of a folder to a new one. Raises OSError."""
    target.mkdir(mode=0o700, parents=True)
    for file in sorted(source.iterdir()):
        copy_file(file, target / file.name)
