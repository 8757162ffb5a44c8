"""Parquet files of strings and timestamps, written row group by row group."""

from collections.abc import Collection, Sequence
from typing import Any

from hedgerow.lib.optional_packages import import_package


class ParquetFile:
    """Writes to `sink`, a path or an Arrow stream. Columns are strings, except `timestamps`."""

    def __init__(self, sink: Any, columns: Sequence[str], timestamps: Collection[str]) -> None:
        # pyarrow is slow to import and needed only here.
        self._arrow = import_package("pyarrow")
        parquet = import_package("pyarrow.parquet")
        text, timestamp = self._arrow.string(), self._arrow.timestamp("us", tz="UTC")
        self._schema = self._arrow.schema(
            [(name, timestamp if name in timestamps else text) for name in columns]
        )
        self._writer = parquet.ParquetWriter(sink, self._schema, compression="zstd")

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write one row group. A row has a value for each column."""
        columns = [
            self._arrow.array(column, type=field.type)
            for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def encode_parquet(
    columns: Sequence[str], timestamps: Collection[str], rows: Sequence[Sequence[Any]]
) -> bytes:
    """Encode a whole file in memory."""
    sink = import_package("pyarrow").BufferOutputStream()
    file = ParquetFile(sink, columns, timestamps)
    file.write(rows)
    file.close()
    return bytes(sink.getvalue())
