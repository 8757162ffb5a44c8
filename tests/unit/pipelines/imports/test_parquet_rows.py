"""Parquet files whose values take more memory than the file."""

from importlib import import_module
from io import BytesIO
from typing import Any

import pytest

from hedgerow.pipelines.imports import parquet_rows
from hedgerow.pipelines.imports.file_rows import read_batches
from hedgerow.pipelines.imports.parquet_rows import measure
from hedgerow.pipelines.imports.rows import PAGE_BYTES, PARQUET, FileBatch
from hedgerow.plugin.imports import JobError

# The package has no types.
pyarrow: Any = import_module("pyarrow")
parquet: Any = import_module("pyarrow.parquet")


def write(columns: dict[str, Any], **options: Any) -> bytes:
    file = BytesIO()
    parquet.write_table(pyarrow.table(columns), file, **options)
    return file.getvalue()


def read(content: bytes, position: dict[str, int] | None = None) -> list[FileBatch]:
    return list(read_batches(BytesIO(content), PARQUET, "f", position))


def test_pages_are_as_small_as_their_values_require() -> None:
    """A dictionary stores each text once: the values are a thousand times as large as the file."""
    texts = ["a" * 500_000, "b" * 500_000]
    names = pyarrow.array([n % 2 for n in range(60)], pyarrow.int32())
    content = write(
        {"n": list(range(60)), "text": pyarrow.DictionaryArray.from_arrays(names, texts)}
    )
    assert len(content) < 60_000
    batches = read(content)
    values = [row.values for batch in batches for row in batch.rows]
    assert [each["n"] for each in values] == list(range(60))
    assert [each["text"][0] for each in values] == ["a", "b"] * 30
    assert max(len(batch.rows) for batch in batches) <= PAGE_BYTES // 500_000
    # From the middle of a row group, the same rows follow.
    rest = read(content, {"line": 31, "offset": 0})
    assert [row.values["n"] for batch in rest for row in batch.rows] == list(range(31, 60))


@pytest.mark.parametrize("size", [2_500_000, 5_000_000])
def test_a_row_that_is_too_large_is_bad_and_the_others_are_read(size: int) -> None:
    batches = read(write({"n": [1, 2, 3], "text": ["x", "y" * size, "z"]}))
    assert [row.values["n"] for batch in batches for row in batch.rows] == [1, 3]
    [bad] = [row for batch in batches for row in batch.bad]
    assert (bad.location, bad.reason) == ("f row 2", "The row is larger than 2097152 bytes.")
    assert [batch.position["line"] for batch in batches][-1] == 3


def test_values_of_a_dictionary_are_measured_as_often_as_they_are_used() -> None:
    indices = pyarrow.array([0] * 1000, pyarrow.int32())
    column = pyarrow.DictionaryArray.from_arrays(indices, ["x" * 1000])
    rows = pyarrow.record_batch({"a": column, "b": pyarrow.array(range(1000))})
    assert 1_000_000 <= measure(rows) < 1_100_000


def test_limits_of_columns_and_of_the_footer(monkeypatch: pytest.MonkeyPatch) -> None:
    content = write({f"c{n}": [n] for n in range(20)})
    monkeypatch.setattr(parquet_rows, "MAX_COLUMNS", 19)
    with pytest.raises(JobError, match="more than 19 columns"):
        read(content)
    monkeypatch.setattr(parquet_rows, "MAX_FOOTER_BYTES", 100)
    with pytest.raises(JobError, match="footer is larger"):
        read(content)
    with pytest.raises(JobError, match="cannot be read"):
        read(content[:-8] + b"\xff\xff\xff\x7fPAR1")
