"""Reads rows of files of any format in batches."""

import zlib
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from hedgerow.pipelines.imports.parquet_rows import read_parquet
from hedgerow.pipelines.imports.rows import (
    CSV,
    PARQUET,
    FileBatch,
    decompress,
    read_csv,
    read_jsonl,
)
from hedgerow.plugin.imports import JobError


def read_batches(
    file: BinaryIO, format: str, name: str, position: Mapping[str, int] | None
) -> Iterator[FileBatch]:
    """Yield the rows of a file from a position on. Raises JobError if it cannot be read."""
    try:
        if format == PARQUET:
            yield from read_parquet(file, name, position)
        elif format == CSV:
            yield from read_csv(decompress(file), name, position)
        else:
            yield from read_jsonl(decompress(file), name, position)
    except (OSError, EOFError, zlib.error) as error:
        reason = str(error).strip().partition("\n")[0][:200].rstrip(".")
        raise JobError(f"{name} cannot be read: {reason}.") from None
