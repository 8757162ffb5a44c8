"""Files that are small, and large or slow for who reads them."""

import gzip
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any

MIB = 1 << 20


def compress_repeated(part: bytes, times: int, start: bytes = b"") -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(start), *(packer.compress(part) for _ in range(times))]
    return b"".join([*parts, packer.flush()])


def build_endless_line() -> bytes:
    return compress_repeated(b"x" * MIB, 300)


def build_deep_lines() -> bytes:
    deep = b"[" * 500_000 + b"]" * 500_000
    objects = b'{"a":' * 150_000 + b"1" + b"}" * 150_000
    good = b'{"event": "deep", "distinct_id": "d"}'
    return gzip.compress(b"\n".join([deep, objects, good]))


def build_many_columns() -> bytes:
    header = ",".join(f"c{n}" for n in range(50_000))
    return gzip.compress(f"{header}\n".encode() + b"," * 49_999 + b"\n")


def build_truncated_gzip() -> bytes:
    return build_endless_line()[:5000]


def build_dictionary() -> bytes:
    """One text of 3 MB, which 3,000 rows use."""
    arrow: Any = import_module("pyarrow")
    indices = arrow.array([0] * 3000, arrow.int32())
    return write_parquet({"event": arrow.DictionaryArray.from_arrays(indices, ["x" * 3_000_000])})


def build_nested_dictionary() -> bytes:
    """Lists of the same text: their values are decoded together."""
    arrow: Any = import_module("pyarrow")
    return write_parquet({"event": arrow.array([["x" * MIB] * 20] * 100)})


def build_large_value() -> bytes:
    return write_parquet({"event": ["x" * 400 * MIB]}, use_dictionary=False)


def build_many_parquet_columns() -> bytes:
    return write_parquet({f"c{n}": [n] for n in range(12_000)})


def build_lying_footer() -> bytes:
    return write_parquet({"event": ["x"]})[:-8] + b"\xff\xff\xff\x7fPAR1"


def write_parquet(columns: Mapping[str, Any], **options: Any) -> bytes:
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    file = BytesIO()
    parquet.write_table(arrow.table(columns), file, compression="zstd", **options)
    return file.getvalue()


MEMORY = "needs more than 256 MiB of memory"
# By name: what builds the file, and how the import of it ends.
HOSTILE_FILES: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "endless_line.jsonl.gz": (build_endless_line, "is longer than 268435456 bytes"),
    "endless_line.csv.gz": (build_endless_line, "is longer than 268435456 bytes"),
    "deep.jsonl.gz": (build_deep_lines, "1 imported, 2 bad"),
    "columns.csv.gz": (build_many_columns, "more than 10000 columns"),
    "truncated.jsonl.gz": (build_truncated_gzip, "cannot be read"),
    "dictionary.parquet": (build_dictionary, "No row of 1,000 pages"),
    "nested.parquet": (build_nested_dictionary, MEMORY),
    "value.parquet": (build_large_value, MEMORY),
    "columns.parquet": (build_many_parquet_columns, "more than 10000 columns"),
    "footer.parquet": (build_lying_footer, "its footer is larger"),
}
