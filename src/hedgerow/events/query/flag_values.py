"""The values of feature flags for the events of a project, as `flag('key')` reads them in HogQL.

The flags package evaluates: each combination of distinct id and groups that events have. The values
are sent to the event store with the query, as tables of keys.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hedgerow.hogql.printer.context import FlagTable
from hedgerow.projects.model import Project

# Distinct ids, or combinations with groups, for which a flag is evaluated.
MAX_KEYS = 500_000
MAX_KEY_BYTES = 128 << 20
MAX_FLAGS = 5
DISTINCT_ID = "distinct_id"

_CALL = re.compile(rb"(?<![a-z0-9_])flag\s*\(\s*'([a-z0-9_-]{1,400})'", re.IGNORECASE)


class LocalTables:
    """Rows by table name. They stay in this process: a copy in another one is empty."""

    __slots__ = ("rows",)

    def __init__(self, rows: Mapping[str, bytes] | None = None) -> None:
        self.rows = rows or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalTables, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagValues:
    """The values of one flag. `tables` has the keys with each value but the most frequent."""

    table: FlagTable
    tables: LocalTables


class FlagEvaluator(Protocol):
    async def list_key_columns(self, project: Project, flag_key: str) -> Sequence[str] | None:
        """Return the columns of events that the value depends on: none if it is always false. None
        for an unknown flag. Raises Invalid for a flag that events say too little about."""
        ...

    async def evaluate(
        self, project: Project, flag_key: str, keys: Sequence[Sequence[str]], now: datetime
    ) -> Mapping[str, Sequence[bytes]]:
        """Return the encoded keys by the value of the flag. A key has the distinct id, if it is
        one of the columns, and the groups."""
        ...


def find_flag_keys(encoded: bytes) -> list[str]:
    """Return the flags that a query names, in HogQL within encoded JSON."""
    return list(dict.fromkeys(found.decode() for found in _CALL.findall(encoded)))


def build_values(
    number: int, columns: Sequence[str], found: Mapping[str, Sequence[bytes]]
) -> FlagValues:
    """Build the values of the flag with this number in the query."""
    sizes = {value: sum(map(len, parts)) for value, parts in found.items()}
    default = max(sizes, key=lambda value: (sizes[value], value)) if sizes else "false"
    others = sorted(value for value in found if value != default)
    table = FlagTable(
        columns=tuple(columns),
        default=default,
        values={f"flag_{number}_{n}": value for n, value in enumerate(others)},
    )
    rows = {name: b"".join(found[value]) for name, value in table.values.items()}
    return FlagValues(table=table, tables=LocalTables(rows))


def encode_key(parts: Sequence[str]) -> bytes:
    """Encode a key as a row of ClickHouse's TabSeparated format. Several parts are one text, as
    `FlagTable` builds it in SQL."""
    if len(parts) == 1:
        text = parts[0]
    else:
        text = "".join(f"{len(part.encode())}:{part}" for part in parts)
    if any(each in text for each in "\\\t\n\r"):
        for character, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
            text = text.replace(character, escape)
    return text.encode() + b"\n"
