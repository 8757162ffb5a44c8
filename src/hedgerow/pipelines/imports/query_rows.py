"""Pages of the rows of a query: bounded in rows and bytes, each with where the next one begins."""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.pipelines.imports.reading import QueryRequest
from hedgerow.pipelines.imports.rows import (
    MAX_ROW_BYTES,
    PAGE_BYTES,
    PAGE_ROWS,
    to_json_value,
)
from hedgerow.plugin.imports import BadRow, JobError, SourceRow

# Rows with the last value of the cursor are read again and skipped by the hash of their content.
MAX_KNOWN_HASHES = 1000
MAX_CURSOR_CHARACTERS = 1000
# The service decodes pages of raw rows itself.
RAW_PAGE_BYTES = 1 << 20

Values = tuple[str | None, Mapping[str, Any]]


@dataclass(slots=True, kw_only=True)
class QueryPage:
    """The next page begins at the cursor value `at`, with rows whose hash is not `known`."""

    at: str | None
    known: list[str]
    rows: list[SourceRow] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)


def read_row_pages(values: Iterable[Values], source: QueryRequest) -> Iterator[QueryPage]:
    page = QueryPage(at=source.at, known=list(source.known))
    size = 0
    for value, columns in values:
        row = to_json_value(columns)
        encoded = jsonio.encode(row)
        hash = sha256(encoded).hexdigest()
        cursor = _check_cursor(value, source)
        if cursor != page.at:
            page.at, page.known = cursor, []
        elif hash in page.known:
            continue
        if len(page.known) < MAX_KNOWN_HASHES:
            page.known.append(hash)
        location = f"{source.cursor_column} {cursor}"
        if len(encoded) > MAX_ROW_BYTES:
            reason = f"The row is larger than {MAX_ROW_BYTES} bytes."
            page.bad.append(BadRow(location=location, reason=reason))
        else:
            page.rows.append(SourceRow(identity=f"{cursor}\n{hash}", location=location, values=row))
            size += len(encoded)
        if size >= PAGE_BYTES or len(page.rows) + len(page.bad) >= PAGE_ROWS:
            yield page
            page, size = QueryPage(at=page.at, known=list(page.known)), 0
    yield page


def read_raw_pages(values: Iterable[Values]) -> Iterator[bytes]:
    """Yield pages of rows for components of packages, which map them."""
    page: list[Values] = []
    size = 0
    for each in values:
        page.append(each)
        size += len(pickle.dumps(each))
        if size >= RAW_PAGE_BYTES or len(page) >= PAGE_ROWS:
            yield pickle.dumps(page)
            page, size = [], 0
    if page:
        yield pickle.dumps(page)


def _check_cursor(value: str | None, source: QueryRequest) -> str:
    if value is None:
        raise JobError("A row has no value in the cursor column.")
    if len(value) > MAX_CURSOR_CHARACTERS:
        raise JobError(
            f"The cursor column {truncate(source.cursor_column)} has a value of more than "
            f"{MAX_CURSOR_CHARACTERS} characters. Choose a column such as id or updated_at."
        )
    return value
