"""Parquet files of texts and moments, written row group after row group."""

from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any


class Parquet:
    """`sink` is a path, or a stream of Arrow's. Columns are texts, but for the `moments`."""

    def __init__(self, sink: Any, columns: Sequence[str], moments: Collection[str]) -> None:
        # Takes a while to load, and only here.
        self._arrow = import_module("pyarrow")
        parquet = import_module("pyarrow.parquet")
        text, moment = self._arrow.string(), self._arrow.timestamp("us", tz="UTC")
        self._schema = self._arrow.schema(
            [(name, moment if name in moments else text) for name in columns]
        )
        self._writer = parquet.ParquetWriter(sink, self._schema, compression="zstd")

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """One row group. A row has a value for each column."""
        columns = [
            self._arrow.array(column, type=field.type)
            for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def parquet_bytes(
    columns: Sequence[str], moments: Collection[str], rows: Sequence[Sequence[Any]]
) -> bytes:
    """A whole file in memory."""
    sink = import_module("pyarrow").BufferOutputStream()
    file = Parquet(sink, columns, moments)
    file.write(rows)
    file.close()
    return bytes(sink.getvalue())
