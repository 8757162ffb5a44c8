"""Reads rows of Parquet files in batches, by the size that their values have in memory: a file of
some hundred bytes can hold gigabytes, because a dictionary stores each value once.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from hedgerow.lib import jsonio
from hedgerow.lib.optional_packages import import_package
from hedgerow.pipelines.imports.rows import (
    MAX_COLUMNS,
    MAX_ROW_BYTES,
    PAGE_BYTES,
    PAGE_ROWS,
    FileBatch,
    identify_row,
    to_json_value,
)
from hedgerow.plugin.imports import BadRow, JobError, SourceRow

# The footer holds the schema and the statistics of all row groups.
MAX_FOOTER_BYTES = 16 * 1024 * 1024
FOOTER_END_BYTES = 8
TEXT_TYPE = "BYTE_ARRAY"


def read_parquet(
    file: BinaryIO, name: str, position: Mapping[str, int] | None
) -> Iterator[FileBatch]:
    # Loaded on first use: it takes half a second.
    arrow = import_package("pyarrow")
    _check_footer(file, name)
    try:
        yield from _read_rows(_open(file, name), name, position)
    except MemoryError:
        raise
    except arrow.ArrowException as error:
        reason = str(error).strip().partition("\n")[0][:200].rstrip(".")
        raise JobError(f"{name} cannot be read: {reason}.") from None


def _check_footer(file: BinaryIO, name: str) -> None:
    size = file.seek(0, 2)
    file.seek(max(0, size - FOOTER_END_BYTES))
    footer_bytes = int.from_bytes(file.read(FOOTER_END_BYTES)[:4], "little")
    file.seek(0)
    if footer_bytes > min(size, MAX_FOOTER_BYTES):
        raise JobError(
            f"{name} cannot be read: its footer is larger than the file or than "
            f"{MAX_FOOTER_BYTES} bytes. Write fewer columns or row groups."
        )


def _open(file: BinaryIO, name: str) -> Any:
    """Open a file so that dictionaries of text stay dictionaries."""
    parquet = import_package("pyarrow.parquet")
    metadata = parquet.read_metadata(file)
    columns = metadata.num_columns
    if columns > MAX_COLUMNS:
        raise JobError(f"{name} has more than {MAX_COLUMNS} columns. Split it.")
    schema = metadata.schema
    texts = [
        column.path
        for column in map(schema.column, range(columns))
        if column.physical_type == TEXT_TYPE and not column.max_repetition_level
        if "." not in column.path
    ]
    return parquet.ParquetFile(file, metadata=metadata, read_dictionary=texts)


def _read_rows(
    parquet_file: Any, name: str, position: Mapping[str, int] | None
) -> Iterator[FileBatch]:
    metadata = parquet_file.metadata
    done = position["line"] if position else 0
    row = 0
    for group in range(metadata.num_row_groups):
        rows_in_group = metadata.row_group(group).num_rows
        if row + rows_in_group <= done:
            row += rows_in_group
            continue
        batch_size = _choose_batch_size(metadata.row_group(group))
        for rows in parquet_file.iter_batches(
            batch_size=batch_size, row_groups=[group], use_threads=False
        ):
            skipped = min(rows.num_rows, max(0, done - row))
            row += skipped
            for part in _split(rows.slice(skipped)):
                yield _build_batch(part, name, row, metadata.num_rows)
                row += part.num_rows
    yield FileBatch(total=metadata.num_rows, position={"line": row, "offset": 0})


def _choose_batch_size(group: Any) -> int:
    """Return how many rows to decode at once, by their average size without compression."""
    average = group.total_byte_size / max(1, group.num_rows)
    return max(1, min(PAGE_ROWS, int(PAGE_BYTES / max(1.0, average))))


def _split(rows: Any) -> Iterator[Any]:
    """Halve rows until the values of each part fit into a page, or it is a single row."""
    if not rows.num_rows:
        return
    if rows.num_rows == 1 or measure(rows) <= PAGE_BYTES:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _split(rows.slice(0, half))
    yield from _split(rows.slice(half))


def measure(rows: Any) -> int:
    """Return the bytes of the values of rows, each value of a dictionary as often as it is used."""
    return sum(map(_measure_column, rows.columns))


def _measure_column(column: Any) -> int:
    arrow, compute = import_package("pyarrow"), import_package("pyarrow.compute")
    if not isinstance(column, arrow.DictionaryArray):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary).take(column.indices)
    return int(column.indices.nbytes) + int(compute.sum(lengths).as_py() or 0)


def _build_batch(rows: Any, name: str, row: int, total: int) -> FileBatch:
    batch = FileBatch(total=total, position={"line": row + rows.num_rows, "offset": 0})
    if measure(rows) > PAGE_BYTES:  # a single row
        batch.bad.append(_refuse(f"{name} row {row + 1}"))
        return batch
    for number, values in enumerate(rows.to_pylist(), row + 1):
        location = f"{name} row {number}"
        plain_values = to_json_value(values)
        encoded = jsonio.encode(plain_values)
        if len(encoded) > MAX_ROW_BYTES:
            batch.bad.append(_refuse(location))
            continue
        identity = identify_row(name, number, encoded)
        batch.rows.append(SourceRow(identity=identity, location=location, values=plain_values))
    return batch


def _refuse(location: str) -> BadRow:
    return BadRow(location=location, reason=f"The row is larger than {MAX_ROW_BYTES} bytes.")
